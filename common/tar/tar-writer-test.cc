#include "common/tar/tar-writer.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <string.h>

#include "common/tar/test-tar.h"

namespace talos {
namespace {

kj::String field(const kj::Vector<kj::byte>& bytes, size_t at, size_t width) {
  auto* begin = reinterpret_cast<const char*>(bytes.begin()) + at;
  return kj::heapString(begin, strnlen(begin, width));
}

// Catches: a checksum that tar refuses, numbers without their leading zeros, a wrong magic.
TEST(Tar, PlainHeaderIsUstar) {
  kj::Vector<kj::byte> out;
  appendTarHeader(out, {.name = "etc/hosts",
                        .mode = 0100640,
                        .uid = 50,
                        .gid = 51,
                        .size = 1234,
                        .modified = 1'600'000'000});
  ASSERT_EQ(out.size(), kTarBlock);
  EXPECT_EQ(field(out, 0, 100), "etc/hosts");
  EXPECT_EQ(field(out, 100, 8), "0000640");
  EXPECT_EQ(field(out, 108, 8), "0000062");
  EXPECT_EQ(field(out, 116, 8), "0000063");
  EXPECT_EQ(field(out, 124, 12), "00000002322");
  EXPECT_EQ(field(out, 136, 12), "13727410000");
  EXPECT_EQ(out[156], '0');
  EXPECT_EQ(field(out, 257, 6), "ustar");
  EXPECT_EQ(memcmp(out.begin() + 263, "00", 2), 0);
  unsigned sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : out[i];
  EXPECT_EQ(strtoul(reinterpret_cast<char*>(out.begin()) + 148, nullptr, 8), sum);
}

// Catches: directories and links that extract as files.
TEST(Tar, KindsOfEntries) {
  kj::Vector<kj::byte> out;
  appendTarHeader(out, {.kind = TarHeader::Kind::kDirectory, .name = "etc"});
  EXPECT_EQ(field(out, 0, 100), "etc/");
  EXPECT_EQ(out[156], '5');
  out.clear();
  appendTarHeader(out, {.kind = TarHeader::Kind::kSymlink, .name = "a", .link = "../b"});
  EXPECT_EQ(out[156], '2');
  EXPECT_EQ(field(out, 157, 100), "../b");
}

struct PaxRow {
  const char* what;
  TarHeader entry;
  const char* record;
};

// Catches: values that do not fit the header and are cut silently; lengths that do not count
// themselves (99 + 1 digit becoming 3 digits).
TEST(Tar, WhatDoesNotFitGoesIntoAPaxHeader) {
  auto name100 = kj::heapString(100), name101 = kj::heapString(101);
  memset(name100.begin(), 'n', 100);
  memset(name101.begin(), 'n', 101);
  auto pathRecord = kj::str("111 path=", name101, "\n");
  auto linkRecord = kj::str("115 linkpath=", name101, "\n");
  const PaxRow rows[] = {
      {"long name", {.name = name101}, pathRecord.cStr()},
      {"long link",
       {.kind = TarHeader::Kind::kSymlink, .name = "l", .link = name101},
       linkRecord.cStr()},
      {"not ASCII", {.name = "\xc3\xa4"}, "11 path=\xc3\xa4\n"},
      {"8 GiB", {.name = "f", .size = uint64_t{8} << 30}, "19 size=8589934592\n"},
      {"large uid", {.name = "f", .uid = 2097152}, "15 uid=2097152\n"},
      {"before 1970", {.name = "f", .modified = -1}, "12 mtime=-1\n"},
  };
  for (auto& row : rows) {
    kj::Vector<kj::byte> out;
    appendTarHeader(out, row.entry);
    ASSERT_EQ(out.size(), 3 * kTarBlock) << row.what;
    EXPECT_EQ(out[156], 'x') << row.what;
    EXPECT_EQ(field(out, kTarBlock, kTarBlock), row.record) << row.what;
    EXPECT_EQ(strtoul(row.record, nullptr, 10), strlen(row.record)) << row.what;
    EXPECT_EQ(strtoul(field(out, 124, 12).cStr(), nullptr, 8), strlen(row.record)) << row.what;
  }
  kj::Vector<kj::byte> out;
  appendTarHeader(out, {.name = name100, .uid = 2097151, .size = (uint64_t{8} << 30) - 1});
  EXPECT_EQ(out.size(), kTarBlock);
}

// Catches: a padding of a whole block after content that fills its last block.
TEST(Tar, Padding) {
  EXPECT_EQ(tarPadding(0), 0u);
  EXPECT_EQ(tarPadding(1), 511u);
  EXPECT_EQ(tarPadding(512), 0u);
  EXPECT_EQ(tarPadding(513), 511u);
}

// Catches: output lost at the edges of the buffer, an archive without its end.
TEST(Tar, GzipGivesBackWhatWentIn) {
  auto input = kj::heapArray<kj::byte>(300'000);
  uint32_t random = 1;
  for (auto& byte : input) byte = (random = random * 1664525 + 1013904223) >> 24;
  Gzip gzip;
  kj::Vector<kj::byte> packed;
  for (size_t at = 0; at < input.size(); at += 70'000) {
    gzip.write(input.slice(at, kj::min(at + 70'000, input.size())), packed);
  }
  gzip.finish(packed);
  auto output = KJ_ASSERT_NONNULL(gunzip(packed, input.size()));
  EXPECT_TRUE(output == input);
}

}  // namespace
}  // namespace talos
