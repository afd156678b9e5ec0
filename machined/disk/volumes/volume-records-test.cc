#include "machined/disk/volumes/volume-records.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

constexpr auto kDisk = "0fc63daf-8483-4772-8e79-3d69d8477de4"_kj,
               kPartition = "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"_kj;

std::string textOf(kj::StringPtr folder) {
  std::string text;
  for (auto& r : readVolumeRecords(folder)) {
    text += kj::str(r.label, " ", r.disk, " ", r.partition, "\n").cStr();
  }
  return text;
}

}  // namespace

// Catches: a record that others can read, that is lost, or that a damage makes a volume without
// one.
TEST(VolumeRecords, AreKeptUntilTheyAreDropped) {
  TestTree tree;
  auto folder = tree.at("volumes");
  EXPECT_EQ("", textOf(folder));
  dropVolumeRecord(folder, "u-data");
  writeVolumeRecord(folder, {kj::str("u-data"), kj::str(kDisk), kj::str(kPartition)});
  EXPECT_EQ(std::string("u-data ") + kDisk.cStr() + " " + kPartition.cStr() + "\n", textOf(folder));
  struct stat info;
  ASSERT_EQ(0, stat(kj::str(folder, "/u-data").cStr(), &info));
  EXPECT_EQ(0600u, info.st_mode & 07777);
  tree.file("volumes/u-data.unfinished-abcdef", "x");
  for (auto damaged : {"", "x", "x\ny z", "a b\n"}) {
    tree.file("volumes/u-data", damaged);
    EXPECT_EQ("u-data  \n", textOf(folder)) << damaged;
  }
  dropVolumeRecord(folder, "u-data");
  EXPECT_EQ("", textOf(folder));
}

}  // namespace talos::machined
