#include "talosctl/dashboard/rates.h"

#include <gtest/gtest.h>

namespace talos::talosctl::dashboard {
namespace {

TEST(Rates, OfProcessorsAreWithoutIdleAndWaitingForDisks) {
  auto cores = readCores(
      "cpu  30 0 20 100 50 0 0 0 7 0\n"
      "cpu0 10 1 20 100 50 2 3 4 9 9\n"
      "cpu1 1 1 1 1 1 1 1 1\n"
      "intr 99\n");
  ASSERT_EQ(cores.size(), 2u);
  EXPECT_EQ(cores[0].name, "cpu0"_kj);
  EXPECT_EQ(cores[0].busy, 40u);
  EXPECT_EQ(cores[0].all, 190u);
  EXPECT_EQ(cores[1].busy, 6u);
}

// A partition's bytes are in its disk's already.
TEST(Rates, OfWholeDisksOnly) {
  auto disks = readDisks(
      "   8       0 sda 1 2 10 4 5 6 20 8 9 1000 11\n"
      "   8       1 sda1 1 2 10 4 5 6 20 8 9 1000 11\n"
      " 259       0 nvme0n1 0 0 1 0 0 0 0 0 0 5 0\n"
      " 259       1 nvme0n1p1 0 0 1 0 0 0 0 0 0 5 0\n"
      "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11\n"
      " 253       0 dm-0 1 2 3 4 5 6 7 8 9 10 11\n"
      "   8      16 sdaa 0 0 0 0 0 0 2 0 0 0 0\n");
  ASSERT_EQ(disks.size(), 3u);
  EXPECT_EQ(disks[0].readBytes, 5120u);
  EXPECT_EQ(disks[0].writtenBytes, 10240u);
  EXPECT_EQ(disks[0].busyMs, 1000u);
  EXPECT_EQ(disks[1].name, "nvme0n1"_kj);
  EXPECT_EQ(disks[2].name, "sdaa"_kj);
}

TEST(Rates, OfLinksAddErrorsOfBothDirections) {
  auto links = readLinks(
      "Inter-|   Receive                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
      "  eth0: 1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0\n"
      "bond0.5:7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n");
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].name, "eth0"_kj);
  EXPECT_EQ(links[0].received, 1000u);
  EXPECT_EQ(links[0].sent, 2000u);
  EXPECT_EQ(links[0].errors, 4u);
  EXPECT_EQ(links[0].dropped, 6u);
  EXPECT_EQ(links[1].name, "bond0.5"_kj);
  EXPECT_EQ(links[1].sent, 8u);
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
