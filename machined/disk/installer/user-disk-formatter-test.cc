#include "machined/disk/installer/user-disk-formatter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::install {
namespace {

constexpr uint64_t kGiB = 1024 * kMiB;

std::string layoutOf(std::vector<uint64_t> sizes, uint64_t disk, unsigned sector = 512) {
  std::string text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto table = userLayout(kj::arrayPtr(sizes.data(), sizes.size()), disk, sector);
                 for (auto& p : table.partitions) {
                   EXPECT_TRUE(p.name.endsWith(".unfinished"));
                 }
                 finishUserLayout(table);
                 for (auto& p : table.partitions) {
                   text += std::string(p.name.cStr()) + " " +
                           std::to_string(p.first * sector / kMiB) + "-" +
                           std::to_string((p.last + 1) * sector / kMiB) + " ";
                 }
               })) {
    text = messageOf(*e).cStr();
  }
  return text;
}

// Catches: partitions that overlap, are smaller than requested, or extend into the table's copy.
TEST(UserLayout, OnePartitionBehindTheOther) {
  EXPECT_EQ(layoutOf({0}, kGiB), "user-disk-1 1-1023 ");
  EXPECT_EQ(layoutOf({100 * kMiB, 0}, kGiB, 4096), "user-disk-1 1-101 user-disk-2 101-1023 ");
  EXPECT_EQ(layoutOf({1, 200'000'000}, kGiB), "user-disk-1 1-2 user-disk-2 2-193 ");
  EXPECT_EQ(layoutOf({1022 * kMiB}, kGiB), "user-disk-1 1-1023 ");
  EXPECT_EQ(layoutOf({1022 * kMiB + 1}, kGiB),
            "it has 1024 MiB, which is too small for partition 1");
  EXPECT_EQ(layoutOf({1022 * kMiB, 0}, kGiB),
            "it has 1024 MiB, which is too small for partition 2");
  EXPECT_EQ(layoutOf({~uint64_t{0} - kMiB, 0}, kGiB),
            "it has 1024 MiB, which is too small for partition 1");
  EXPECT_EQ(layoutOf({0}, 100), "it has 0 MiB, which is too small for partition 1");
}

std::string decide(const Found& found, kj::Maybe<const gpt::Table&> table, size_t partitions = 2) {
  std::string text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 text = mustDivide("/dev/vdb", found, table, partitions) ? "divide" : "leave";
               })) {
    text = messageOf(*e).cStr();
  }
  return text;
}

// Catches: overwritten data; a disk that a cut has left half-finished and that no boot accepts;
// file systems that are made again although they are in use.
TEST(UserDisk, OnlyWhatIsNobodysIsDivided) {
  uint64_t sizes[] = {100 * kMiB, 0};
  auto begun = userLayout(sizes, kGiB, 512), whole = userLayout(sizes, kGiB, 512);
  finishUserLayout(whole);
  Found empty, begunFound, wholeFound, foreign, installing, installed;
  begunFound.table = kj::str("gpt");
  begunFound.partitions.add(kj::str("user-disk-1.unfinished"));
  begunFound.unknownData = true;
  wholeFound.table = kj::str("gpt");
  wholeFound.partitions.add(kj::str("user-disk-1"));
  foreign.unknownData = true;
  installing.installed = Installed::kUnfinished;
  installed.installed = Installed::kYes;
  EXPECT_EQ(decide(empty, nullptr), "divide");
  EXPECT_EQ(decide(begunFound, begun), "divide");
  EXPECT_EQ(decide(begunFound, begun, 3), "divide") << "the config was changed since";
  begun.inForce = false;  // cut before its last write
  EXPECT_EQ(decide(foreign, begun), "divide");
  EXPECT_EQ(decide(wholeFound, whole), "leave");
  EXPECT_EQ(decide(wholeFound, whole, 3),
            "machine.disks: /dev/vdb cannot be used: it holds 1 partition (gpt): user-disk-1, and "
            "machine.disks names 3 partitions; empty the disk, or choose another one");
  EXPECT_EQ(decide(foreign, nullptr),
            "machine.disks: /dev/vdb cannot be used: it holds data of an unknown kind, and "
            "machine.disks names 2 partitions; empty the disk, or choose another one");
  whole.inForce = false;  // its first sector was removed
  EXPECT_NE(decide(foreign, whole), "leave");
  EXPECT_EQ(decide(installing, nullptr),
            "machine.disks: /dev/vdb cannot be used: a system is being installed on it");
  EXPECT_NE(decide(installed, begun).find("it holds an installed node"), std::string::npos);
  // It is divided again only if all partitions have their unfinished names, at their places.
  auto other = userLayout(sizes, kGiB, 512);
  std::swap(other.partitions[0].name, other.partitions[1].name);
  EXPECT_EQ(decide(wholeFound, other), "leave");
  EXPECT_NE(decide(wholeFound, other, 3), "divide");
}

}  // namespace
}  // namespace talos::install
