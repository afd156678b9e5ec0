#include "tests/disks/volatile-disk.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include "tests/disks/file-medium.h"
#include "tests/disks/test-memory-medium.h"

namespace talos::disk {
namespace {

using ::testing::ElementsAre;

// A disk of eight sectors, each of which holds one letter; '.' is zeros.
struct Small {
  MemoryMedium medium{8 * kSector};
  VolatileDisk disk{medium};

  void write(uint64_t sector, std::string letters, bool durable = false) {
    auto bytes = kj::heapArray<kj::byte>(letters.size() * kSector);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = letters[i / kSector];
    disk.write(sector * kSector, bytes, durable);
  }
  void zero(uint64_t sector, uint64_t count) {
    disk.zero(sector * kSector, count * kSector, false);
  }
  std::string cut(std::vector<uint64_t> sectors) {
    for (auto& count : sectors) count *= kSector;
    disk.cut(kj::arrayPtr(sectors.data(), sectors.size()));
    return letters();
  }
  std::string letters() {
    std::string result;
    for (size_t i = 0; i < medium.bytes.size(); i += kSector) {
      for (size_t j = 1; j < kSector; ++j) KJ_REQUIRE(medium.bytes[i + j] == medium.bytes[i]);
      result += medium.bytes[i] == 0 ? '.' : char(medium.bytes[i]);
    }
    return result;
  }
};

// Catches: a write that lasts without a flush, a flushed write that is lost.
TEST(VolatileDisk, WhatIsFlushedLastsAndTheRestIsLost) {
  Small it;
  it.write(0, "ab");
  it.disk.flush();
  it.write(1, "xyz");
  EXPECT_EQ(it.letters(), "axyz....");
  EXPECT_EQ(it.cut({0}), "ab......");
  EXPECT_EQ(it.cut({}), "ab......") << "what is left is durable";
}

// Catches: an FUA write that makes all others durable, or is not durable; the previous content
// written over it.
TEST(VolatileDisk, AForcedWriteLastsAlone) {
  Small it;
  it.write(0, "abc");
  it.write(1, "X", true);
  it.write(2, "de");
  auto unflushed = it.disk.unflushed();
  EXPECT_THAT(std::vector<uint64_t>(unflushed.begin(), unflushed.end()),
              ElementsAre(3 * kSector, 2 * kSector));
  EXPECT_EQ(it.cut({0, 0}), ".X......");
}

// Catches: writes that are repeated out of their order, an older write that wins.
TEST(VolatileDisk, AnyOfTheUnflushedWritesMayHaveReachedIt) {
  auto after = [](std::vector<uint64_t> fates) {
    Small it;
    it.write(0, "oooooooo");
    it.disk.flush();
    it.write(0, "aaaa");
    it.write(2, "bbbb");
    it.zero(3, 2);
    return it.cut(fates);
  };
  EXPECT_EQ(after({0, 0, 0}), "oooooooo");
  EXPECT_EQ(after({4, 4, 2}), "aab..boo");
  EXPECT_EQ(after({0, 4, 0}), "oobbbboo");
  EXPECT_EQ(after({4, 0, 2}), "aaa..ooo");
  EXPECT_EQ(after({0, 0, 1}), "ooo.oooo") << "torn";
  EXPECT_EQ(after({3, 1, 0}), "aabooooo") << "torn";
}

// Catches: memory that grows with the unflushed writes; the newest given up instead of the oldest.
TEST(VolatileDisk, WhatIsTooMuchToRememberIsWrittenBack) {
  MemoryMedium medium(64 * kSector);
  VolatileDisk disk(medium, 3 * (kSector + 128));
  kj::byte sector[kSector] = {7};
  for (uint64_t i = 0; i < 5; ++i) disk.write(i * kSector, sector, false);
  EXPECT_EQ(disk.unflushed().size(), 3);
  disk.cut(kj::ArrayPtr<const uint64_t>({0, 0, 0}));
  EXPECT_EQ(medium.bytes[1 * kSector], 7);
  EXPECT_EQ(medium.bytes[2 * kSector], 0);
  disk.write(0, sector, false);
  auto large = kj::heapArray<kj::byte>(16 * kSector);
  memset(large.begin(), 9, large.size());
  disk.write(8 * kSector, large, false);
  EXPECT_EQ(disk.unflushed().size(), 0);
  EXPECT_EQ(medium.bytes[8 * kSector], 9);
  disk.zero(8 * kSector, 16 * kSector, false);
  EXPECT_EQ(disk.unflushed().size(), 0) << "what was there before is too much";
}

// Catches: a draw that differs between two runs or two hosts, that never tears, that always keeps
// or loses.
TEST(VolatileDisk, FatesAreDrawnFromTheSeed) {
  std::vector<uint64_t> lengths = {4096, 512, 1 << 20, 4096, 512};
  auto of = [&](uint64_t seed) {
    auto fates = drawFates(kj::arrayPtr(lengths.data(), lengths.size()), seed);
    return std::vector<uint64_t>(fates.begin(), fates.end());
  };
  EXPECT_THAT(of(1), ElementsAre(0, 512, 0, 4096, 512));
  EXPECT_EQ(of(99), of(99));
  unsigned whole = 0, lost = 0, torn = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    auto fates = of(seed);
    unsigned isTorn = 0;
    for (size_t i = 0; i < fates.size(); ++i) {
      ASSERT_LE(fates[i], lengths[i]);
      ASSERT_EQ(fates[i] % kSector, 0);
      whole += fates[i] == lengths[i];
      lost += fates[i] == 0;
      isTorn += fates[i] > 0 && fates[i] < lengths[i];
    }
    ASSERT_LE(isTorn, 1);
    torn += isTorn;
  }
  EXPECT_GT(whole, 1500);
  EXPECT_GT(lost, 1500);
  EXPECT_GT(torn, 150);
}

// A simple model of the same: the whole disk at the last flush, and the writes since.
struct Reference {
  struct Write {
    uint64_t offset;
    std::vector<kj::byte> bytes;
    bool durable;
  };
  std::vector<kj::byte> flushed, observed;
  std::vector<Write> since;

  explicit Reference(size_t size) : flushed(size), observed(size) {}
  static void apply(std::vector<kj::byte>& to, const Write& write, size_t length) {
    std::copy_n(write.bytes.begin(), length, to.begin() + write.offset);
  }
  void write(Write it) {
    apply(observed, it, it.bytes.size());
    since.push_back(std::move(it));
  }
  void flush() {
    flushed = observed;
    since.clear();
  }
  // The oldest volatile writes that are not among `fates` have been written back.
  void cut(const std::vector<uint64_t>& fates) {
    size_t known = 0;
    for (auto& it : since) known += !it.durable;
    size_t writtenBack = known - fates.size(), at = 0;
    for (auto& it : since) {
      if (it.durable) {
        apply(flushed, it, it.bytes.size());
      } else {
        apply(flushed, it, at < writtenBack ? it.bytes.size() : fates[at - writtenBack]);
        ++at;
      }
    }
    observed = flushed;
    since.clear();
  }
};

// Random schedules. Catches: whatever the table above does not think of.
void compare(uint64_t seed, Medium& medium, size_t most) {
  std::mt19937_64 chance(seed);
  auto sectors = medium.size() / kSector;
  VolatileDisk disk(medium, most);
  Reference reference(medium.size());
  for (unsigned step = 0; step < 60; ++step) {
    auto begin = chance() % sectors;
    auto count = 1 + chance() % kj::min(sectors - begin, 5);
    bool durable = chance() % 6 == 0;
    switch (chance() % 12) {
      case 0:
        disk.flush();
        reference.flush();
        break;
      case 1: {
        std::vector<uint64_t> fates;
        for (auto length : disk.unflushed())
          fates.push_back(chance() % (length / kSector + 1) * kSector);
        disk.cut(kj::arrayPtr(fates.data(), fates.size()));
        reference.cut(fates);
        break;
      }
      case 2:
      case 3:
        disk.zero(begin * kSector, count * kSector, durable);
        reference.write({begin * kSector, std::vector<kj::byte>(count * kSector), durable});
        break;
      default: {
        std::vector<kj::byte> bytes(count * kSector);
        for (auto& byte : bytes) byte = static_cast<kj::byte>(chance() % 3);
        disk.write(begin * kSector, kj::arrayPtr(bytes.data(), bytes.size()), durable);
        reference.write({begin * kSector, std::move(bytes), durable});
      }
    }
    std::vector<kj::byte> observed(medium.size());
    disk.read(0, kj::arrayPtr(observed.data(), observed.size()));
    ASSERT_EQ(observed, reference.observed) << "seed " << seed << ", step " << step;
  }
}

TEST(VolatileDisk, IsAsTheReferenceIs) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    MemoryMedium medium(24 * kSector);
    ASSERT_NO_FATAL_FAILURE(compare(seed, medium, SIZE_MAX));
  }
}

// Catches: a bound that loses the writes that it no longer remembers, or that keeps earlier ones.
TEST(VolatileDisk, IsAsTheReferenceIsWhenItCannotRememberAll) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    MemoryMedium medium(24 * kSector);
    ASSERT_NO_FATAL_FAILURE(compare(seed, medium, 200 + seed * 20));
  }
}

// Catches: holes of a file that are read as content or written as zeros.
TEST(VolatileDisk, OnAFile) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    char path[] = "/tmp/disk-XXXXXX";
    kj::AutoCloseFd file(mkostemp(path, O_CLOEXEC));
    unlink(path);
    ASSERT_EQ(ftruncate(file, 24 * 4096), 0);
    FileMedium medium(kj::mv(file));
    ASSERT_NO_FATAL_FAILURE(compare(seed, medium, SIZE_MAX));
  }
}

}  // namespace
}  // namespace talos::disk
