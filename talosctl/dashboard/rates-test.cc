#include "talosctl/dashboard/rates.h"

#include <gtest/gtest.h>

namespace talos::talosctl::dashboard {
namespace {

kj::String text(const CoreTimes& core) {
  return kj::str(core.name, ": ", core.busy, " of ", core.all);
}
kj::String text(const DiskCounts& disk) {
  return kj::str(disk.name, ": ", disk.readBytes, " read, ", disk.writtenBytes, " written, ",
                 disk.busyMs, " ms");
}
kj::String text(const LinkCounts& link) {
  return kj::str(link.name, ": ", link.received, " received, ", link.sent, " sent, ", link.errors,
                 " errors, ", link.dropped, " dropped");
}
template <typename Counts>
kj::String listed(const kj::Vector<Counts>& all) {
  return kj::strArray(KJ_MAP(one, all) { return text(one); }, "\n");
}

TEST(Rates, OfProcessorsAreWithoutIdleAndWaitingForDisks) {
  EXPECT_EQ(listed(readCores("cpu  30 0 20 100 50 0 0 0 7 0\n"
                             "cpu0 10 1 20 100 50 2 3 4 9 9\n"
                             "cpu1 1 1 1 1 1 1 1 1\n"
                             "intr 99\n")),
            "cpu0: 40 of 190\n"
            "cpu1: 6 of 8"_kj);
}

// A partition's bytes are already counted for its disk.
TEST(Rates, OfWholeDisksOnly) {
  EXPECT_EQ(listed(readDisks("   8       0 sda 1 2 10 4 5 6 20 8 9 1000 11\n"
                             "   8       1 sda1 1 2 10 4 5 6 20 8 9 1000 11\n"
                             " 259       0 nvme0n1 0 0 1 0 0 0 0 0 0 5 0\n"
                             " 259       1 nvme0n1p1 0 0 1 0 0 0 0 0 0 5 0\n"
                             "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11\n"
                             " 253       0 dm-0 1 2 3 4 5 6 7 8 9 10 11\n"
                             "   8      16 sdaa 0 0 0 0 0 0 2 0 0 0 0\n")),
            "sda: 5120 read, 10240 written, 1000 ms\n"
            "nvme0n1: 512 read, 0 written, 5 ms\n"
            "sdaa: 0 read, 1024 written, 0 ms"_kj);
}

TEST(Rates, OfLinksAddErrorsOfBothDirections) {
  EXPECT_EQ(
      listed(readLinks("Inter-|   Receive                |  Transmit\n"
                       " face |bytes    packets errs drop fifo frame compressed multicast|bytes\n"
                       "  eth0: 1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0\n"
                       "bond0.5:7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n")),
      "eth0: 1000 received, 2000 sent, 4 errors, 6 dropped\n"
      "bond0.5: 7 received, 8 sent, 0 errors, 0 dropped"_kj);
}

TEST(Rates, ACounterThatWentBackwardsHasNone) {
  EXPECT_EQ(perSecond(100, 300, 2000), 100u);
  EXPECT_EQ(perSecond(300, 100, 2000), 0u);
  EXPECT_EQ(perSecond(100, 300, 0), 0u);
  EXPECT_EQ(perSecond(0, UINT64_MAX, 1), (uint64_t(1) << 50) * 1000);
  EXPECT_EQ(shareOf(0, 50, 200), 250);
  EXPECT_EQ(shareOf(0, 500, 200), 1000);
  EXPECT_EQ(shareOf(5, 0, 200), 0);
}

TEST(Rates, ForeignLinesAreLeftOut) {
  EXPECT_EQ(readCores("cpu\ncpux\n\n").size(), 1u);
  EXPECT_EQ(readCores("cpux")[0].all, 0u);
  EXPECT_EQ(readDisks("1\n\n1 2\n").size(), 0u);
  EXPECT_EQ(readLinks("no colon\n").size(), 0u);
}

}  // namespace
}  // namespace talos::talosctl::dashboard
