#include "machined/disk/installer/partition-layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::install {
namespace {

using testing::HasSubstr;

// "name number offset+size" in MiB, of all partitions.
std::string show(const gpt::Table& table, unsigned sectorSize) {
  std::string text;
  for (auto& p : table.partitions) {
    auto place = KJ_ASSERT_NONNULL(find(table, p.name, sectorSize));
    text += std::string(p.name.cStr()) + " " + std::to_string(place.number) + " " +
            std::to_string(place.offset / kMiB) + "+" + std::to_string(place.size / kMiB) +
            (p.type == gpt::kEfiSystem  ? " efi"
             : p.type == gpt::kBiosBoot ? " bios"
                                        : "") +
            (p.attributes == gpt::kLegacyBootable ? " bootable\n" : "\n");
  }
  return text;
}

std::string refusal(uint64_t bytes, unsigned sectorSize) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { layout(bytes, sectorSize); })) {
    return messageOf(*e).cStr();
  }
  return "";
}

}  // namespace

// Catches: another size or order than documented; overlapping partitions; another number of the
// boot loader's partition than the number that is built into it.
TEST(Layout, ThePartitionsOfADisk) {
  for (unsigned sectorSize : {512u, 4096u}) {
    EXPECT_EQ(show(layout(6144 * kMiB + 512, sectorSize), sectorSize),
              "EFI 1 1+100 efi\nBIOS 2 101+1 bios bootable\nBOOT 3 102+300\nMETA 4 402+1\n"
              "STATE.unfinished 5 403+100\nEPHEMERAL.unfinished 6 503+5640\n");
  }
  EXPECT_EQ(refusal(1024 * kMiB, 512), "");
}

// Catches: a large disk whose BOOT has no room for larger systems; a small one that has no space
// for anything else.
TEST(Layout, BootIsLargerOnALargeDisk) {
  for (uint64_t diskMiB : {1024u, 8191u}) {
    EXPECT_THAT(show(layout(diskMiB * kMiB, 512), 512), HasSubstr("BOOT 3 102+300\n"));
  }
  EXPECT_THAT(show(layout(8192 * kMiB, 512), 512),
              HasSubstr("BOOT 3 102+1000\nMETA 4 1102+1\nSTATE.unfinished 5 1103+100\n"));
}

TEST(Layout, ADiskThatCannotBeUsed) {
  EXPECT_EQ(refusal(1024 * kMiB - 512, 512), "has 1023 MiB, and at least 1024 MiB are needed");
  EXPECT_THAT(refusal(6144 * kMiB, 520), HasSubstr("sectors of 520 bytes"));
}

// Catches: a disk that counts as installed, or as owned, too early or too late.
TEST(Layout, WhenADiskIsInstalled) {
  auto table = layout(2048 * kMiB, 512);
  EXPECT_EQ(installedOn(table), Installed::kUnfinished);
  finish(table);
  EXPECT_EQ(installedOn(table), Installed::kYes);
  EXPECT_EQ(show(table, 512).substr(show(table, 512).find("STATE")),
            "STATE 5 403+100\nEPHEMERAL 6 503+1544\n");
  begin(table);
  EXPECT_EQ(installedOn(table), Installed::kUnfinished);
  finish(table);
  table.partitions[4].name = kj::str("DATA");
  EXPECT_EQ(installedOn(table), Installed::kNot);
  EXPECT_EQ(installedOn({}), Installed::kNot);
}

// Catches: a wipe that is cut off after its first write and not started again, because the disk
// looks like an unfinished installation.
TEST(Layout, OfADiskToBeWiped) {
  auto table = layout(2048 * kMiB, 512);
  finish(table);
  disown(table);
  EXPECT_EQ(installedOn(table), Installed::kNot);
  EXPECT_EQ(show(table, 512).substr(show(table, 512).find("STATE")),
            "STATE.wiped 5 403+100\nEPHEMERAL.wiped 6 503+1544\n");
}

// Catches: a partition that grows over the table's copy at the end, or whose beginning moves.
TEST(Layout, OnALargerDisk) {
  auto table = layout(2048 * kMiB, 512);
  EXPECT_TRUE(grown(table, 4096 * kMiB, 512) == nullptr) << "not installed";
  finish(table);
  EXPECT_TRUE(grown(table, 2048 * kMiB, 512) == nullptr);
  EXPECT_TRUE(grown(table, 2048 * kMiB + kMiB - 512, 512) == nullptr);
  auto larger = KJ_ASSERT_NONNULL(grown(table, 4096 * kMiB, 512));
  auto place = KJ_ASSERT_NONNULL(find(larger, kEphemeral, 512));
  EXPECT_EQ(place.offset, 503 * kMiB);
  EXPECT_EQ(place.offset + place.size, 4095 * kMiB);
  EXPECT_EQ(larger.sectors, 4096 * kMiB / 512);
  EXPECT_EQ(larger.partitions[4].id, table.partitions[4].id);
  table.partitions[0].last = place.offset / 512 + 5;
  EXPECT_TRUE(grown(table, 4096 * kMiB, 512) == nullptr) << "one of another layout";
}

// Catches: an EPHEMERAL over the volumes after it, or larger than its document says; a disk with
// volumes that does not count as installed.
TEST(Layout, OfAnEphemeralWithASize) {
  EphemeralSize size{.bound = {.most = 1024 * kMiB}, .least = 512 * kMiB};
  auto table = layout(4096 * kMiB, 512, size);
  finish(table);
  EXPECT_EQ(show(table, 512).substr(show(table, 512).find("EPHEMERAL")), "EPHEMERAL 6 503+1024\n");
  EXPECT_TRUE(grown(table, 4096 * kMiB, 512, size) == nullptr);
  size.bound.most = 2048 * kMiB;
  auto larger = KJ_ASSERT_NONNULL(grown(table, 4096 * kMiB, 512, size));
  EXPECT_EQ(KJ_ASSERT_NONNULL(find(larger, kEphemeral, 512)).size, 2048 * kMiB);
  size.grows = false;
  EXPECT_TRUE(grown(table, 4096 * kMiB, 512, size) == nullptr);

  table.partitions.add(gpt::Partition{gpt::kLinuxData, gpt::Guid::random(), 2000 * kMiB / 512,
                                      3000 * kMiB / 512 - 1, 0, kj::str("u-data")});
  EXPECT_EQ(installedOn(table), Installed::kYes);
  larger = KJ_ASSERT_NONNULL(grown(table, 4096 * kMiB, 512));
  EXPECT_EQ(KJ_ASSERT_NONNULL(find(larger, kEphemeral, 512)).size, (2000 - 503) * kMiB);
  EXPECT_EQ(larger.partitions.size(), 7u);
  table.partitions[6].name = kj::str("photos");
  EXPECT_EQ(installedOn(table), Installed::kNot);

  size.least = 8192 * kMiB;
  EXPECT_THROW(layout(4096 * kMiB, 512, size), kj::Exception);
}

TEST(Layout, NamesOfNodes) {
  EXPECT_EQ(partitionNode("/dev/vda", 3), "/dev/vda3");
  EXPECT_EQ(partitionNode("/dev/nvme0n1", 3), "/dev/nvme0n1p3");
}

}  // namespace talos::install
