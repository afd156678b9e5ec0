#include "common/crash/symbol-table.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "common/base/error.h"

namespace talos::crash {
namespace {

kj::Array<char> textOfTable(kj::StringPtr text) {
  return kj::heapArray<char>(text.begin(), text.size());
}

constexpr kj::StringPtr kSmallTable =
    "talos-symbols 1 0a16\n401000 talos::apid::run()\n401200 kj::str<int, char const*>(int)\n401300 \n"_kj;

kj::String found(const SymbolTable& table, uint64_t address) {
  return table.nameOf(address).orDefault(kj::str("none"));
}

// Catches: the neighbour's name, at the borders of a function above all.
TEST(SymbolTable, NamesTheFunctionThatHasTheAddress) {
  SymbolTable table(textOfTable(kSmallTable));
  EXPECT_EQ("0a16"_kj, table.buildId());
  EXPECT_EQ("none"_kj, found(table, 0x400fff));
  EXPECT_EQ("talos::apid::run()+0x0"_kj, found(table, 0x401000));
  EXPECT_EQ("talos::apid::run()+0x1ff"_kj, found(table, 0x4011ff));
  EXPECT_EQ("kj::str<int, char const*>(int)+0x0"_kj, found(table, 0x401200));
  EXPECT_EQ("none"_kj, found(table, 0x401300));
  EXPECT_EQ("none"_kj, found(table, ~uint64_t{0}));
}

// Catches: a wrong name from a file that is something else, was cut, or is not sorted.
TEST(SymbolTable, RefusesWhatIsNoTable) {
  for (auto text :
       {""_kj, "#!/bin/sh\n"_kj, "talos-symbols 1 \n"_kj, "talos-symbols 1 0a\nxyz f\n"_kj,
        "talos-symbols 1 0a\n401000\n"_kj, "talos-symbols 1 0a\n2 f\n1 g\n"_kj,
        "talos-symbols 1 0a\n11112222333344445 f\n"_kj}) {
    auto failure = kj::runCatchingExceptions([&]() { SymbolTable table(textOfTable(text)); });
    ASSERT_TRUE(failure != nullptr) << text.cStr();
    EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(KJ_ASSERT_NONNULL(failure))) << text.cStr();
  }
}

kj::Array<kj::byte> gzipped(kj::ArrayPtr<const char> text) {
  z_stream stream{};
  KJ_REQUIRE(deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  KJ_DEFER(deflateEnd(&stream));
  auto out = kj::heapArray<kj::byte>(text.size() + 1024);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.begin()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = out.begin();
  stream.avail_out = static_cast<uInt>(out.size());
  KJ_REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  return kj::heapArray<kj::byte>(out.begin(), out.size() - stream.avail_out);
}

// Catches: a truncated file that is taken for complete; a file that unpacks to more than the
// memory.
TEST(SymbolTable, UnpacksWholeFilesOnly) {
  auto zeros = kj::heapArray<char>(3u << 20);
  for (char& c : zeros) c = 'a';
  auto packed = gzipped(zeros);
  EXPECT_EQ(zeros.size(), gunzip(packed).size());
  auto refused = [&](kj::ArrayPtr<const kj::byte> bytes, size_t limit) {
    auto failure = kj::runCatchingExceptions([&]() { gunzip(bytes, limit); });
    return failure != nullptr && kindOf(KJ_ASSERT_NONNULL(failure)) == ErrorKind::kInvalidArgument;
  };
  EXPECT_TRUE(refused(packed, 1u << 20));
  EXPECT_TRUE(refused(packed.slice(0, packed.size() / 2), 4u << 20));
  EXPECT_TRUE(refused(kSmallTable.asBytes(), 4u << 20));
  EXPECT_TRUE(refused(nullptr, 4u << 20));
}

TEST(SymbolTable, AddressesAreHexadecimal) {
  EXPECT_EQ(0x40120fu, KJ_ASSERT_NONNULL(parseAddress("0x40120f")));
  EXPECT_TRUE(parseAddress("40120f") == nullptr);
  EXPECT_TRUE(parseAddress("0x") == nullptr);
  EXPECT_TRUE(parseAddress("0x12 ") == nullptr);
}

}  // namespace
}  // namespace talos::crash
