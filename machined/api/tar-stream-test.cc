#include "machined/api/tar-stream.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zlib.h>

#include "common/base/error.h"
#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

kj::Vector<kj::byte> gunzip(kj::ArrayPtr<const kj::byte> packed) {
  z_stream stream{};
  KJ_ASSERT(inflateInit2(&stream, 15 + 16) == Z_OK);
  KJ_DEFER(inflateEnd(&stream));
  stream.next_in = const_cast<kj::byte*>(packed.begin());
  stream.avail_in = packed.size();
  kj::Vector<kj::byte> out;
  int result = Z_OK;
  while (result == Z_OK) {
    kj::byte room[65536];
    stream.next_out = room;
    stream.avail_out = sizeof room;
    result = inflate(&stream, Z_NO_FLUSH);
    out.addAll(kj::arrayPtr(room, sizeof room - stream.avail_out));
  }
  KJ_ASSERT(result == Z_STREAM_END, result);
  return out;
}

kj::Vector<kj::byte> drain(Archive& archive) {
  kj::Vector<kj::byte> all;
  for (;;) {
    auto piece = archive.next();
    KJ_IF_MAYBE (bytes, piece) {
      EXPECT_LT(bytes->size(), 128u << 10);  // memory is one piece
      all.addAll(*bytes);
    } else {
      return all;
    }
  }
}

kj::String noise(size_t size) {
  auto text = kj::heapString(size);
  uint32_t random = 7;
  for (auto& c : text) c = static_cast<char>((random = random * 1664525 + 1013904223) >> 24);
  return text;
}

// Returns "name type size" of each entry.
kj::String contents(kj::ArrayPtr<const kj::byte> tar) {
  kj::Vector<kj::String> entries;
  for (size_t at = 0; at + kTarBlock <= tar.size() && tar[at] != 0;) {
    auto* header = reinterpret_cast<const char*>(tar.begin()) + at;
    auto size = strtoull(header + 124, nullptr, 8);
    entries.add(kj::str(kj::heapString(header, strnlen(header, 100)), ' ', header[156], ' ', size));
    at += kTarBlock + size + tarPadding(size);
  }
  return kj::strArray(entries, ", ");
}

// Catches: the root as an entry, names that are not relative, contents misaligned.
TEST(Archive, TreeWithoutItsRoot) {
  TestTree tree;
  tree.directory("t/d");
  tree.file("t/d/five", "12345");
  tree.file("t/empty", "");
  tree.link("t/link", "d/five");
  Archive archive(tree.at("t"));
  auto packed = drain(archive);
  auto tar = gunzip(packed);
  EXPECT_EQ(contents(tar), "d/ 5 0, d/five 0 5, empty 0 0, link 2 0");
  EXPECT_EQ(archive.takeUnreadable().size(), 0u);
  EXPECT_EQ(tar.size(), 5 * kTarBlock + kTarEnd);
}

// Catches: a single file that arrives under a name of dots, or not at all.
TEST(Archive, FileIsAnEntryUnderItsName) {
  TestTree tree;
  tree.file("one", "1");
  Archive archive(tree.at("one"));
  EXPECT_EQ(contents(gunzip(drain(archive))), "one 0 1");
}

// Catches: an archive that tar does not accept, and bits, times or contents that it loses.
TEST(Archive, TarExtractsIt) {
  TestTree tree;
  tree.directory("from/a/b");
  tree.directory("to");
  auto large = noise(1'000'000);
  tree.file("from/a/large", large, 0640);
  auto longName = kj::heapString(180);
  memset(longName.begin(), 'n', longName.size());
  tree.file(kj::str("from/a/b/", longName), "long");
  tree.link("from/a/link", longName);
  Archive archive(tree.at("from"));
  auto packed = drain(archive);
  auto* tar = popen(kj::str("tar -xzf - -C ", tree.at("to")).cStr(), "w");
  ASSERT_NE(tar, nullptr);
  ASSERT_EQ(fwrite(packed.begin(), 1, packed.size(), tar), packed.size());
  ASSERT_EQ(pclose(tar), 0);
  EXPECT_TRUE(readFile(tree.at("to/a/large")) == large);
  EXPECT_EQ(readFile(tree.at(kj::str("to/a/b/", longName))), "long");
  struct stat st;
  KJ_SYSCALL(lstat(tree.at("to/a/large").cStr(), &st));
  EXPECT_EQ(st.st_mode & 07777u, 0640u);
  char target[256];
  ssize_t n = readlink(tree.at("to/a/link").cStr(), target, sizeof target);
  EXPECT_EQ(kj::heapString(target, n > 0 ? n : 0), longName);
}

// Catches: an archive that becomes invalid when a file shrinks while it is read, and a loss that is
// not reported.
TEST(Archive, FileThatShrinksIsFilledAndNamed) {
  TestTree tree;
  tree.directory("t");
  tree.file("t/f", noise(300'000));  // does not compress: the first piece holds a part of it
  Archive archive(tree.at("t"));
  kj::Vector<kj::byte> packed;
  packed.addAll(KJ_ASSERT_NONNULL(archive.next()));
  KJ_SYSCALL(truncate(tree.at("t/f").cStr(), 10));
  packed.addAll(drain(archive));
  EXPECT_EQ(contents(gunzip(packed)), "f 0 300000");
  auto unreadable = archive.takeUnreadable();
  ASSERT_EQ(unreadable.size(), 1u);
  EXPECT_EQ(unreadable[0], kj::str(tree.at("t/f"), ": was truncated during the read"));
}

// Catches: a socket or a FIFO that hangs the copy or is dropped in silence.
TEST(Archive, EntriesThatAreNoFilesAreNamed) {
  TestTree tree;
  tree.directory("t");
  KJ_SYSCALL(mkfifo(tree.at("t/fifo").cStr(), 0600));
  tree.file("t/f", "1");
  Archive archive(tree.at("t"));
  EXPECT_EQ(contents(gunzip(drain(archive))), "f 0 1");
  EXPECT_EQ(kj::strArray(archive.takeUnreadable(), ","),
            kj::str(tree.at("t/fifo"), ": is not a file, directory or symbolic link"));
}

// Catches: a relative path that is resolved in the daemon's working directory.
TEST(Archive, PathMustBeAbsolute) {
  auto failure = kj::runCatchingExceptions([] { Archive("etc"); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace talos::machined
