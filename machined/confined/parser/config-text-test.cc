#include "machined/confined/parser/config-text.h"

#include <gtest/gtest.h>

#include <string>

#include "common/testing/test-zip.h"
#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::parse {
namespace {

using machined::kMostConfigBytes;

kj::Array<char> bytesOf(const std::string& text) {
  return kj::heapArray(text.data(), text.size());
}

// Catches: a packed config that the parser gets; a truncated one that crashes; one that fills the
// memory.
TEST(Unpack, Gzip) {
  EXPECT_EQ("machine: {}"_kj, kj::str(unpack(bytesOf(zip("machine: {}")))));
  EXPECT_EQ("plain"_kj, kj::str(unpack(kj::heapArray("plain"_kj.asArray()))));
  auto packed = zip("machine: {}");
  EXPECT_ANY_THROW(unpack(bytesOf(packed.substr(0, packed.size() / 2))));
  auto bomb = zip(kj::str(kj::repeat('a', kMostConfigBytes + 1)));
  EXPECT_LT(bomb.size(), 100000u);
  EXPECT_ANY_THROW(unpack(bytesOf(bomb)));
}

// Catches: YAML that is taken for another kind of data.
TEST(RequireText, WhatCouldBeAConfig) {
  for (auto good :
       {"machine: {}"_kj, "\xef\xbb\xbf# c\n---\n"_kj, "\n\n  a: <b>"_kj, "not yaml ["_kj}) {
    EXPECT_NO_THROW(requireText(good)) << good.cStr();
  }
  EXPECT_NO_THROW(
      requireText(bytesOf(std::string("\xff\xfe"
                                      "a\0",
                                      4))));
  for (auto bad : {""_kj, " \r\n\t"_kj, "\xef\xbb\xbf <html>"_kj, "<!doctype html>"_kj}) {
    EXPECT_ANY_THROW(requireText(bad)) << bad.cStr();
  }
  EXPECT_ANY_THROW(
      requireText(bytesOf(std::string("\x7f"
                                      "ELF\0",
                                      5))));
}

}  // namespace
}  // namespace talos::parse
