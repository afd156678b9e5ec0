#include "machined/disk/devices/meta-values.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <string.h>

#include <map>
#include <random>
#include <string>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr size_t kCopy = 262144;
constexpr size_t kSmallAt = kMetaBytes - 1024;

struct Partition {
  kj::Array<kj::byte> bytes = kj::heapArray<kj::byte>(kMetaBytes);
  Partition() { memset(bytes.begin(), 0, bytes.size()); }

  void write(const MetaWrite& write, size_t length) {
    memcpy(bytes.slice(write.offset, write.offset + length).begin(), write.bytes.begin(), length);
  }
  void set(uint32_t tag, std::string value) {
    MetaValues values(bytes);
    values.set(tag, kj::StringPtr(value.c_str(), value.size()).asBytes());
    for (auto& each : values.writes()) write(each, each.bytes.size());
  }
  std::string hex(size_t offset, size_t size) {
    return kj::encodeHex(bytes.slice(offset, offset + size)).cStr();
  }
};

std::map<uint32_t, std::string> all(kj::ArrayPtr<const kj::byte> bytes) {
  MetaValues values(bytes);
  std::map<uint32_t, std::string> result;
  for (auto tag : values.tags()) {
    auto value = KJ_ASSERT_NONNULL(values.get(tag));
    result[tag] = std::string(value.asChars().begin(), value.size());
  }
  return result;
}

using All = std::map<uint32_t, std::string>;

// The expected bytes of a partition with 9: "hello" and 6: "A", computed without this code.
// Catches: any change of the format, a byte order, a checksum over other bytes.
TEST(MetaValues, TheFormatIsTheDocumented) {
  Partition it;
  it.set(9, "hello");
  it.set(6, "A");
  for (size_t copy : {size_t(0), kCopy}) {
    EXPECT_EQ(it.hex(copy, 24),
              "5a4b3c2d"
              "00000009"
              "00000005"
              "68656c6c6f"
              "00000000000000");
    EXPECT_EQ(it.hex(copy + 262108, 36),
              "91737742afe035f6c289e131cee59afea327007e17ab811089d94f16a67c77a0"
              "a5b4c3d2");
  }
  for (size_t copy : {kSmallAt, kSmallAt + 512}) {
    EXPECT_EQ(it.hex(copy, 16),
              "a52f2d5a"
              "6116c3a2"
              "06014100"
              "00000000");
    EXPECT_EQ(it.hex(copy + 504, 8),
              "00000000"
              "64bf28dd");
  }
  EXPECT_EQ(all(it.bytes), (All{{6, "A"}, {9, "hello"}}));
}

// Catches: a damaged copy that is read, or a second copy that is never read.
TEST(MetaValues, TheFirstIntactCopyCounts) {
  auto damaged = [](std::vector<size_t> places) {
    Partition it;
    it.set(7, "image");
    it.set(6, "B");
    for (auto place : places) it.bytes[place] ^= 1;
    return all(it.bytes);
  };
  const All whole = {{6, "B"}, {7, "image"}}, small = {{6, "B"}}, large = {{7, "image"}};
  EXPECT_EQ(damaged({}), whole);
  for (size_t place : {0, 3, 9, 14, 200000, 262110, 262143}) {
    EXPECT_EQ(damaged({place}), whole) << place;
    EXPECT_EQ(damaged({kCopy + place}), whole) << place;
    EXPECT_EQ(damaged({place, kCopy + place}), small) << place;
  }
  for (size_t place : {0, 5, 9, 100, 511}) {
    EXPECT_EQ(damaged({kSmallAt + place}), whole) << place;
    EXPECT_EQ(damaged({kSmallAt + place, kSmallAt + 512 + place}), large) << place;
  }
  Partition empty;
  EXPECT_EQ(all(empty.bytes), All());
}

std::string refusal(MetaValues& values, uint32_t tag, size_t size) {
  auto value = kj::heapArray<kj::byte>(size);
  memset(value.begin(), 'x', size);
  try {
    values.set(tag, value);
    return "set";
  } catch (const kj::Exception& e) {
    return messageOf(e).cStr();
  }
}

// Catches: a value that runs into the checksum, a refusal that changes something, space that is not
// released.
TEST(MetaValues, WhatDoesNotFitIsRefused) {
  Partition it;
  MetaValues values(it.bytes);
  EXPECT_EQ(refusal(values, 0, 1), "META: 0 is not a valid tag");
  EXPECT_EQ(refusal(values, 6, 256),
            "META: a value of 256 bytes for the tag 6 does not fit; it must be at most 255");
  EXPECT_EQ(refusal(values, 6, 255), "set");
  EXPECT_EQ(refusal(values, 1, 242),
            "META: a value of 242 bytes for the tag 1 does not fit; it must be at most 241");
  EXPECT_EQ(refusal(values, 1, 241), "set");
  EXPECT_EQ(refusal(values, 9, 262097),
            "META: a value of 262097 bytes for the tag 9 does not fit; it must be at most 262096");
  EXPECT_EQ(refusal(values, 9, 262088), "set");
  EXPECT_EQ(refusal(values, 7, 0), "set") << "eight bytes are left, which hold its tag and length";
  for (unsigned tag : {2, 8}) {
    EXPECT_EQ(refusal(values, tag, 0), "META: a value of 0 bytes for the tag " +
                                           std::to_string(tag) + " does not fit; META is full");
  }
  EXPECT_TRUE(values.remove(9));
  EXPECT_FALSE(values.remove(9));
  EXPECT_EQ(refusal(values, 9, 262000), "set");
  for (auto& write : values.writes()) it.write(write, write.bytes.size());
  auto held = all(it.bytes);
  EXPECT_EQ(held.size(), 4);
  EXPECT_EQ(held[9].size(), 262000);
}

// Unknown values are kept, and a partition that is in order is not written.
TEST(MetaValues, NothingIsWrittenForNothing) {
  Partition it;
  it.set(0x1234567, "x");
  it.set(9, "y");
  MetaValues values(it.bytes);
  EXPECT_EQ(values.writes().size(), 0);
  values.set(9, "y"_kj.asBytes());
  EXPECT_EQ(values.writes().size(), 0);
  it.bytes[kCopy + 5] ^= 1;
  EXPECT_EQ(MetaValues(it.bytes).writes().size(), 1) << "the damaged copy";
  EXPECT_EQ(all(it.bytes), (All{{9, "y"}, {0x1234567, "x"}}));
}

// The power is cut anywhere in any write, repeatedly without a repair in between. Catches: both
// copies written at once or in the wrong order, a partly written copy that is read, the only good
// copy overwritten after the previous cut.
TEST(MetaValues, ACutLeavesTheOldOrTheNewValues) {
  std::mt19937_64 chance(11);
  Partition it;
  All before;
  unsigned old = 0, fresh = 0;
  for (unsigned round = 0; round < 400; ++round) {
    constexpr uint32_t kTags[] = {6, 7, 9, 300};
    auto tag = kTags[chance() % 4];
    auto after = before;
    MetaValues values(it.bytes);
    if (chance() % 4 == 0) {
      values.remove(tag);
      after.erase(tag);
    } else {
      std::string value(chance() % 100, static_cast<char>('a' + round % 26));
      values.set(tag, kj::StringPtr(value.c_str(), value.size()).asBytes());
      after[tag] = value;
    }
    auto writes = values.writes();
    auto whole = writes.size() == 0 ? 0 : chance() % (writes.size() + 1);
    for (size_t i = 0; i < whole; ++i) it.write(writes[i], writes[i].bytes.size());
    if (whole < writes.size()) {
      // Most of a copy is zeros, so the cuts are where it has content.
      auto size = writes[whole].bytes.size();
      auto at = chance() % 2 == 0 ? chance() % kj::min(size, 400) : size - 1 - chance() % 40;
      it.write(writes[whole], at);
    }
    auto now = all(it.bytes);
    ASSERT_TRUE(now == before || now == after) << "round " << round << ", write " << whole;
    (now == after ? fresh : old) += 1;
    before = now;
  }
  EXPECT_GT(old, 50);
  EXPECT_GT(fresh, 50);
}

// Every byte of one change. Catches: a place that random cuts do not find.
TEST(MetaValues, ACutAtEveryByteOfAChange) {
  Partition start;
  start.set(9, "old");
  MetaValues values(start.bytes);
  values.set(9, "new value"_kj.asBytes());
  auto writes = values.writes();
  ASSERT_EQ(writes.size(), 2);
  for (size_t i : {0, 1}) {
    Partition it;
    memcpy(it.bytes.begin(), start.bytes.begin(), it.bytes.size());
    if (i == 1) it.write(writes[0], writes[0].bytes.size());
    for (size_t at = 0; at < writes[i].bytes.size(); ++at) {
      auto& byte = it.bytes[writes[i].offset + at];
      // Only bytes that differ are separate cuts.
      if (byte == writes[i].bytes[at]) continue;
      byte = writes[i].bytes[at];
      bool last = at == writes[i].bytes.size() - 5;  // of the digest; the magic after it stays
      auto now = all(it.bytes);
      ASSERT_EQ(now[9], i == 1 || last ? "new value" : "old") << i << ", " << at;
    }
  }
}

}  // namespace
}  // namespace talos::machined
