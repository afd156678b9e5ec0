#include "common/disk/gpt.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>

namespace talos::gpt {
namespace {

using Disk = kj::Array<kj::byte>;

Disk blank(size_t size) {
  auto disk = kj::heapArray<kj::byte>(size);
  memset(disk.begin(), 0, size);
  return disk;
}

ReadBytes of(const Disk& disk) {
  return [&disk](uint64_t offset, size_t size) {
    auto begin = kj::min(offset, disk.size());
    return kj::heapArray<const kj::byte>(disk.slice(begin, kj::min(begin + size, disk.size())));
  };
}

void putOn(Disk& disk, const Write& write) {
  memcpy(disk.begin() + write.offset, write.bytes.begin(), write.bytes.size());
}

Table example(unsigned sectorSize, kj::StringPtr lastName) {
  Table table{Guid::random(), {}, (8u << 20) / sectorSize, 0};
  auto at = [&](unsigned mebibyte) { return (uint64_t{mebibyte} << 20) / sectorSize; };
  table.partitions.add(
      Partition{kBiosBoot, Guid::random(), at(1), at(2) - 1, kLegacyBootable, kj::str("BIOS")});
  table.partitions.add(
      Partition{kLinuxData, Guid::random(), at(2), at(7) - 1, 0, kj::str(lastName)});
  return table;
}

// Returns the name of its last partition.
kj::String inForce(const Disk& disk, unsigned sectorSize) {
  KJ_IF_MAYBE (table, read(of(disk), sectorSize)) {
    if (table->inForce) return kj::str(table->partitions.back().name);
  }
  return kj::str("none");
}

}  // namespace

// Catches: a field at another place, a checksum over other bytes; of both sector sizes.
TEST(Gpt, WhatIsWrittenIsRead) {
  for (unsigned sectorSize : {512u, 4096u}) {
    auto disk = blank(8u << 20);
    auto table = example(sectorSize, "DATA");
    for (auto& write : writes(table, sectorSize)) putOn(disk, write);
    auto found = KJ_ASSERT_NONNULL(read(of(disk), sectorSize));
    EXPECT_EQ(found.disk, table.disk);
    EXPECT_EQ(found.sectors, table.sectors);
    ASSERT_EQ(found.partitions.size(), 2);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found.partitions[i].type, table.partitions[i].type);
      EXPECT_EQ(found.partitions[i].id, table.partitions[i].id);
      EXPECT_EQ(found.partitions[i].first, table.partitions[i].first);
      EXPECT_EQ(found.partitions[i].last, table.partitions[i].last);
      EXPECT_EQ(found.partitions[i].attributes, table.partitions[i].attributes);
      EXPECT_STREQ(found.partitions[i].name.cStr(), table.partitions[i].name.cStr());
    }
  }
}

// Catches: two steps in the wrong order, a new list in the place of the one that is in force, a
// write whose sectors do not all arrive and that leaves neither table.
TEST(Gpt, ACutLeavesTheOldTableOrTheNewOne) {
  for (unsigned sectorSize : {512u, 4096u}) {
    auto before = blank(8u << 20);
    kj::StringPtr names[] = {"none"_kj, "first"_kj, "second"_kj, "third"_kj};
    for (size_t version = 1; version < kj::size(names); ++version) {
      SCOPED_TRACE(version);
      auto old = read(of(before), sectorSize);
      auto steps = writes(example(sectorSize, names[version]), sectorSize,
                          old.map([](Table& t) -> const Table& { return t; }));
      EXPECT_EQ(steps.back().bytes.size(), sectorSize);
      for (auto& step : steps) {
        bool last = &step == &steps.back();
        for (auto kept : {size_t{0}, step.bytes.size() / sectorSize / 2}) {
          auto disk = kj::heapArray(before.asPtr());
          memcpy(disk.begin() + step.offset, step.bytes.begin(), kept * sectorSize);
          EXPECT_EQ(inForce(disk, sectorSize), names[version - 1]) << kept;
        }
        putOn(before, step);
        EXPECT_EQ(inForce(before, sectorSize), names[last ? version : version - 1]);
      }
    }
  }
}

// Catches: a disk that can be neither used nor installed on, because the first table was
// interrupted at its last write; a table that was removed by its first sector, and still counts.
TEST(Gpt, AFirstTableThatIsNotInForceIsWrittenOn) {
  for (unsigned sectorSize : {512u, 4096u}) {
    auto disk = blank(8u << 20);
    auto steps = writes(example(sectorSize, "cut"), sectorSize);
    for (auto& step : steps.slice(0, steps.size() - 1)) putOn(disk, step);
    auto there = KJ_ASSERT_NONNULL(read(of(disk), sectorSize));
    EXPECT_FALSE(there.inForce);
    for (auto& write : writes(example(sectorSize, "again"), sectorSize, there)) putOn(disk, write);
    EXPECT_EQ(inForce(disk, sectorSize), "again"_kj);
    disk[100] = 1;  // a byte of foreign boot code
    disk[510] = 0;
    EXPECT_TRUE(read(of(disk), sectorSize) == nullptr);
  }
}

// Catches: a list of the table that overwrites a partition.
TEST(Gpt, ATableWithoutRoomForTwoListsIsNotReplaced) {
  auto table = example(512, "DATA");
  table.partitions[0].first = 2 + 2 * 32 - 1;
  EXPECT_ANY_THROW(writes(table, 512));
  auto old = example(512, "DATA");
  old.entriesAt = 3;
  EXPECT_ANY_THROW(writes(example(512, "DATA"), 512, old));
}

// Catches: any bit that tools of others read otherwise.
TEST(Gpt, SfdiskFindsNothingWrong) {
  auto disk = blank(8u << 20);
  for (auto& write : writes(example(512, "DATA"), 512)) putOn(disk, write);
  auto old = KJ_ASSERT_NONNULL(read(of(disk), 512));
  for (auto& write : writes(example(512, "AGAIN"), 512, old)) putOn(disk, write);
  char path[] = "/tmp/gpt-test-XXXXXX";
  int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  KJ_DEFER({
    close(fd);
    unlink(path);
  });
  ASSERT_EQ(write(fd, disk.begin(), disk.size()), disk.size());
  auto* pipe = popen(
      (std::string("sfdisk --verify ") + path + " 2>&1; sfdisk --dump " + path + " 2>&1").c_str(),
      "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  char chunk[4096];
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, pipe)) > 0;) said.append(chunk, n);
  EXPECT_EQ(pclose(pipe), 0) << said;
  EXPECT_NE(said.find("No errors detected"), std::string::npos) << said;
  EXPECT_NE(said.find("name=\"AGAIN\""), std::string::npos) << said;
  EXPECT_NE(said.find("LegacyBIOSBootable"), std::string::npos) << said;
}

// Catches: a table that is believed although it is damaged.
TEST(Gpt, ADamagedTableIsNone) {
  auto good = blank(8u << 20);
  for (auto& write : writes(example(512, "DATA"), 512)) putOn(good, write);
  for (size_t at : {size_t{450}, size_t{511}, size_t{512}, size_t{512 + 56}, size_t{1024 + 3}}) {
    auto disk = kj::heapArray(good.asPtr());
    disk[at] ^= 1;
    EXPECT_TRUE(read(of(disk), 512) == nullptr) << at;
  }
  EXPECT_TRUE(read(of(blank(600)), 512) == nullptr);
}

}  // namespace talos::gpt
