#include "machined/disk/installer/disk-content.h"

#include <gtest/gtest.h>

#include <string>

namespace talos::install {
namespace {

std::string problem(Found found) {
  return worthKeeping(found).orDefault(kj::str("may be lost")).cStr();
}
Found table(kj::StringPtr kind, std::initializer_list<kj::StringPtr> names) {
  Found found;
  found.table = kj::str(kind);
  for (auto name : names) found.partitions.add(kj::str(name));
  found.unknownData = true;  // of the table itself
  return found;
}

}  // namespace

// Catches: user data that is overwritten; an empty disk that is refused.
TEST(DiskContent, DiskWithUserDataIsRefused) {
  EXPECT_EQ(problem({}), "may be lost");
  Found volume;
  volume.volumes.add(Found::Volume{kj::str("ext4"), kj::str("photos")});
  volume.volumes.add(Found::Volume{kj::str("LVM2_member"), kj::String()});
  EXPECT_EQ(problem(kj::mv(volume)), "it holds ext4 \"photos\"; LVM2_member");
  EXPECT_EQ(problem(table("dos", {"1", "2"})), "it holds 2 partitions (dos): 1, 2");
  EXPECT_EQ(problem(table("gpt", {"a"})), "it holds 1 partition (gpt): a");
  EXPECT_EQ(problem(table("gpt", {})), "it holds an empty partition table (gpt)");
  EXPECT_EQ(problem(table("gpt", {"1", "2", "3", "4", "5", "6", "7", "8", "9"})),
            "it holds 9 partitions (gpt): 1, 2, 3, 4, 5, 6, 7, 8 and more");
  Found unknown;
  unknown.unknownData = true;
  EXPECT_EQ(problem(kj::mv(unknown)), "it holds data of an unknown kind");
}

// Catches: an interrupted installation that blocks the next one; a complete one that does not.
TEST(DiskContent, OfAnInstallation) {
  auto begun = table("gpt", {"EFI", "STATE.unfinished"});
  begun.installed = Installed::kUnfinished;
  EXPECT_EQ(problem(kj::mv(begun)), "may be lost");
  auto done = table("gpt", {"EFI", "STATE"});
  done.installed = Installed::kYes;
  EXPECT_EQ(problem(kj::mv(done)), "it holds an installed node; 2 partitions (gpt): EFI, STATE");
}

// Catches: a disk that counts as empty because its first sector is, although the second one has the
// header of a GPT.
TEST(DiskContent, TheHeadHasTheHeaderOfATable) {
  EXPECT_EQ(headOf(512), 1024u);
  EXPECT_EQ(headOf(4096), 8192u);
}

}  // namespace talos::install
