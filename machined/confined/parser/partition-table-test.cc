#include "machined/confined/parser/partition-table.h"

#include <gtest/gtest.h>
#include <string.h>
#include <zlib.h>

#include <string>

namespace talos::parse {
namespace {

// Returns the head of a disk with a table of 128 entries, for sectors of this size, and a partition
// of this name.
std::string tableOf(size_t sector, const std::string& name = "") {
  std::string disk(size_t{64} << 10, 0);
  auto put = [&](size_t at, uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) disk[at + i] = static_cast<char>(value >> (8 * i));
  };
  auto sum = [&](size_t at, size_t size) {
    return crc32(0, reinterpret_cast<const Bytef*>(disk.data()) + at, static_cast<uInt>(size));
  };
  put(446 + 4, 0xee, 1);
  put(510, 0xaa55, 2);
  memcpy(disk.data() + sector, "EFI PART", 8);
  put(sector + 12, 92, 4);
  put(sector + 72, 2, 8);
  put(sector + 80, 128, 4);
  put(sector + 84, 128, 4);
  if (!name.empty()) disk[2 * sector + 127 * 128 + 15] = 1;
  for (size_t i = 0; i < name.size(); ++i) disk[2 * sector + 127 * 128 + 56 + 2 * i] = name[i];
  put(sector + 88, sum(2 * sector, 128 * 128), 4);
  put(sector + 16, sum(sector, 92), 4);
  return disk;
}

bool lost(const std::string& disk) {
  return lostPartitionTable([&](uint64_t offset, size_t size) {
    if (offset >= disk.size()) return kj::Array<const kj::byte>();
    auto part = disk.substr(offset, size);
    return kj::heapArray<const kj::byte>(reinterpret_cast<const kj::byte*>(part.data()),
                                         part.size());
  });
}

// Catches: an empty disk, or an empty table, because of which a new machine does not get its
// config.
TEST(PartitionTable, WhatIsWholeOrWasNeverThere) {
  EXPECT_FALSE(lost(""));
  EXPECT_FALSE(lost(std::string(65536, 0)));
  EXPECT_FALSE(lost(tableOf(512)));
  EXPECT_FALSE(lost(tableOf(4096)));
}

// Catches: a disk that the kernel could not read when it looked for partitions, or whose table is
// for sectors of another size, so that a configured machine looks like a new one.
TEST(PartitionTable, APartitionThatTheKernelDoesNotShowIsSeen) {
  for (size_t sector : {512, 4096}) EXPECT_TRUE(lost(tableOf(sector, "STATE"))) << sector;
}

// Catches: a machine that is stuck because the installation of its disk, or the wipe before it, was
// cut off between the first sector and the rest.
TEST(PartitionTable, ATableWithoutAStateHasLostNone) {
  for (size_t sector : {512, 4096}) {
    for (auto name : {"STATE.unfinished", "STAT", "DATA"}) {
      auto disk = tableOf(sector, name);
      EXPECT_FALSE(lost(disk)) << name;
      memset(disk.data(), 0, 512);
      EXPECT_FALSE(lost(disk)) << name;
    }
  }
}

// Catches: one bad sector that makes a configured machine look like a new one.
TEST(PartitionTable, OneBadSectorIsSeen) {
  for (size_t sector : {512, 4096}) {
    SCOPED_TRACE(sector);
    for (size_t bad : {sector + 40, 2 * sector + 100, sector + 12, sector + 80, sector + 72}) {
      auto disk = tableOf(sector);
      disk[bad] ^= 0x40;
      EXPECT_TRUE(lost(disk)) << bad;
    }
    auto header = tableOf(sector);
    memset(header.data() + sector, 0, 92);
    EXPECT_TRUE(lost(header));
    auto first = tableOf(sector);  // both are needed by the kernel
    memset(first.data(), 0, 512);
    first[sector + 40] ^= 1;
    EXPECT_TRUE(lost(first));
    EXPECT_TRUE(lost(tableOf(sector).substr(0, 3 * sector)));
  }
}

}  // namespace
}  // namespace talos::parse
