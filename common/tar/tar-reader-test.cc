#include "common/tar/tar-reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>

#include "common/tar/test-tar.h"

namespace talos {
namespace {

using ::testing::HasSubstr;

// Records the events of a reader: "file path mode size mtime link: content".
struct Recorder final : public TarVisitor {
  kj::Vector<kj::String> lines;
  kj::Vector<char> content;
  kj::String head;
  void entry(const TarEntry& e) override {
    static constexpr kj::StringPtr kinds[] = {"file"_kj, "dir"_kj, "symlink"_kj, "hardlink"_kj,
                                              "other"_kj};
    head = kj::str(kinds[int(e.kind)], " ", e.path, " ", e.mode, " ", e.size, " ", e.modified,
                   e.link.size() > 0 ? " -> " : "", e.link);
    content.clear();
  }
  void data(kj::ArrayPtr<const kj::byte> bytes) override { content.addAll(bytes.asChars()); }
  void end() override { lines.add(kj::str(head, ": ", content.asPtr())); }
};

struct Read {
  std::string entries, problem;
};

// Feeds the archive in pieces of `step` bytes.
Read read(kj::ArrayPtr<const kj::byte> archive, size_t step) {
  TarReader reader;
  Recorder recorder;
  Read result;
  for (size_t at = 0; at < archive.size() && result.problem.empty(); at += step) {
    KJ_IF_MAYBE (p, reader.feed(archive.slice(at, kj::min(at + step, archive.size())), recorder)) {
      result.problem = p->cStr();
    }
  }
  if (result.problem.empty()) {
    KJ_IF_MAYBE (p, reader.finish()) result.problem = p->cStr();
  }
  result.entries = kj::strArray(recorder.lines, "\n").cStr();
  return result;
}

kj::Array<kj::byte> sample() {
  TestTar tar;
  tar.directory("etc/", 0755);
  tar.file("etc/hostname", 0644, "node-1\n");
  tar.symlink("etc/link", "../outside");
  tar.pax(
      {{"path", "a/very/long/name"}, {"size", "3"}, {"mtime", "1615000000.25"}, {"comment", "x"}});
  tar.file("ignored", 0600, "abc");
  tar.longName("gnu/long/name");
  tar.file("ignored", 0600, "");
  tar.member("null", '3', 0666, "");
  tar.prefixed("usr/lib", "os-release", 0444, "NAME=x");
  return tar.finish();
}

// Catches a reader that depends on how the bytes are cut.
TEST(Tar, ReadsEveryKindInAnyPieces) {
  auto archive = sample();
  for (size_t step :
       {size_t(1), size_t(7), size_t(511), size_t(512), size_t(513), archive.size()}) {
    auto r = read(archive, step);
    EXPECT_EQ(r.problem, "");
    EXPECT_EQ(r.entries,
              "dir etc/ 493 0 1000: \n"
              "file etc/hostname 420 7 1000: node-1\n\n"
              "symlink etc/link 511 0 1000 -> ../outside: \n"
              "file a/very/long/name 384 3 1615000000: abc\n"
              "file gnu/long/name 384 0 1000: \n"
              "other null 438 0 1000: \n"
              "file usr/lib/os-release 292 6 1000: NAME=x");
  }
}

// Catches a cut archive that is taken for a whole one.
TEST(Tar, TellsWhenItIsCut) {
  auto archive = sample();
  size_t ends =
      archive.size() - 1024;  // two zero blocks end it; one may be missing, as many writers do
  for (size_t n = 1; n < ends; n += 37) {
    auto r = read(archive.slice(0, n), 4096);
    if (r.problem.empty()) EXPECT_EQ(n % 512, 0u) << n;
  }
  EXPECT_THAT(read(archive.slice(0, 700), 4096).problem, HasSubstr("truncated after"));
}

TEST(Tar, RefusesBrokenHeaders) {
  auto archive = sample();
  archive[0] ^= 1;
  EXPECT_THAT(read(archive, 512).problem, HasSubstr("not a valid tar header at byte 0"));
  for (kj::StringPtr records : {"9999 path=x\n", "0 path=x\n", "10 pathxy\n", "10 path=ab",
                                "x path=x\n", "\n", "16 size=-100000\n"}) {
    TestTar tar;
    tar.member("pax", 'x', 0644, records);
    tar.file("f", 0644, "");
    EXPECT_THAT(read(tar.finish(), 512).problem, HasSubstr("not a valid pax record"))
        << records.cStr();
  }
  TestTar huge;
  huge.declared("long", 'L', uint64_t(TarReader::kMaxHeader) + 1);
  EXPECT_THAT(read(huge.finish(), 512).problem, HasSubstr("extended header at byte 0: 1048577"));
}

TEST(Tar, SizesInBase256) {
  TestTar tar;
  tar.base256("big", "12345");
  EXPECT_EQ(read(tar.finish(), 100).entries, "file big 420 5 1000: 12345");
}

// Catches every way out of the target directory.
TEST(Tar, SafePaths) {
  auto parts = [](kj::StringPtr path) -> std::string {
    KJ_IF_MAYBE (p, safePath(path)) return kj::strArray(*p, "|").cStr();
    return "refused";
  };
  EXPECT_EQ(parts("a/b"), "a|b");
  EXPECT_EQ(parts("./a//b/."), "a|b");
  EXPECT_EQ(parts("..."), "...");
  for (kj::StringPtr bad :
       {"/etc/passwd", "..", "a/../../b", "../a", "a/..", "", ".", "./", "//"}) {
    EXPECT_EQ(parts(bad), "refused") << bad.cStr();
  }
  EXPECT_EQ(parts(kj::StringPtr("a\0b", 3)), "refused");
}

}  // namespace
}  // namespace talos
