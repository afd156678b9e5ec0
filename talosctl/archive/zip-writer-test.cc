#include "talosctl/archive/zip-writer.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>

#include "common/base/file.h"

namespace talos {
namespace {

// Catches: an archive that only this program's reader accepts. CMake's reader is libarchive's.
TEST(ZipWriter, OthersReadIt) {
  char path[] = "/tmp/talos-zip-XXXXXX";
  kj::String folder = kj::str(mkdtemp(path));
  KJ_DEFER(removeTree(folder));
  kj::VectorOutputStream out;
  ZipWriter zip(out, kj::UNIX_EPOCH + 1'600'000'000 * kj::SECONDS);
  kj::Vector<char> large;
  for (unsigned i = 0; i < 3'000'000; ++i) large.add(char(i * 2654435761u >> 13));
  zip.add("10.5.0.2/logs/machined.log", "one\ntwo\n"_kj);
  zip.add("10.5.0.2/empty", ""_kj);
  zip.add("large", large);
  zip.finish();
  EXPECT_EQ(zip.files(), 3u);
  EXPECT_EQ(zip.bytes(), out.getArray().size());
  writeFileAtomically(kj::str(folder, "/a.zip"), out.getArray().asChars(), 0600);
  ASSERT_EQ(system(kj::str("cd ", folder, " && cmake -E tar xf a.zip").cStr()), 0);
  EXPECT_STREQ(readFile(kj::str(folder, "/10.5.0.2/logs/machined.log")).cStr(), "one\ntwo\n");
  EXPECT_EQ(readFile(kj::str(folder, "/10.5.0.2/empty")).size(), 0u);
  auto back = readFile(kj::str(folder, "/large"));
  EXPECT_TRUE(back.asArray() == large.asPtr());
}

TEST(ZipWriter, RefusesANameThatDoesNotFit) {
  kj::VectorOutputStream out;
  ZipWriter zip(out, kj::UNIX_EPOCH);
  auto name = kj::heapString(70'000);
  memset(name.begin(), 'x', name.size());
  EXPECT_THROW(zip.add(name, ""_kj), kj::Exception);
  EXPECT_EQ(out.getArray().size(), 0u);
}

}  // namespace
}  // namespace talos
