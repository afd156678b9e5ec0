#include "talosctl/archive/extract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/tar/test-tar.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

struct Extract : public ::testing::Test {
  kj::String base;
  kj::String target;
  Extract() {
    char path[] = "/tmp/talosctl-extract-XXXXXX";
    base = kj::str(mkdtemp(path));
    target = kj::str(base, "/target");
  }
  ~Extract() noexcept override { removeTree(base); }

  // Returns the error, or "".
  std::string extract(TestTar& tar, size_t step = 1000, size_t cut = 0) {
    auto bytes = gzip(tar.finish());
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   Extractor extractor(target);
                   auto all = bytes.slice(0, bytes.size() - cut);
                   for (size_t at = 0; at < all.size(); at += step)
                     extractor.feed(all.slice(at, kj::min(at + step, all.size())));
                   extractor.finish();
                   skipped = kj::strArray(extractor.skipped(), ";");
                 })) {
      return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    }
    return "";
  }
  kj::String skipped;
  std::string content(kj::StringPtr path) {
    KJ_IF_MAYBE (text, tryReadFile(kj::str(base, "/", path))) return text->cStr();
    return "absent";
  }
  mode_t mode(kj::StringPtr path) {
    struct stat s = {};
    lstat(kj::str(base, "/", path).cStr(), &s);
    return s.st_mode;
  }
};

TEST_F(Extract, MakesFilesDirectoriesAndLinks) {
  TestTar tar;
  tar.directory("./", 0755);
  tar.directory("locked", 0555);
  tar.file("locked/inside", 0640, "one");
  tar.file("deep/er/file", 04755, "two");
  tar.symlink("link", "/etc/passwd");
  tar.hardLink("hard", "locked/inside");
  tar.member("fifo", '6', 0644, "");
  for (size_t step : {size_t(1), size_t(100000)}) {
    removeTree(target);
    ASSERT_EQ(extract(tar, step), "");
    EXPECT_EQ(content("target/locked/inside"), "one");
    EXPECT_EQ(content("target/deep/er/file"), "two");
    EXPECT_EQ(content("target/hard"), "one");
    EXPECT_EQ(mode("target/locked") & 07777, 0555u);
    EXPECT_EQ(mode("target/deep/er/file") & 07777, 0755u);  // without set-uid
    EXPECT_TRUE(S_ISLNK(mode("target/link")));
    EXPECT_EQ(mode("target/fifo"), 0u);
    EXPECT_THAT(skipped.cStr(), HasSubstr("fifo"));
  }
}

// Catches every way in which an archive could write outside the target.
TEST_F(Extract, NothingLeadsOutside) {
  auto refused = [&](auto&& fill, const char* error) {
    TestTar tar;
    fill(tar);
    EXPECT_THAT(extract(tar), HasSubstr(error));
    removeTree(target);
  };
  refused([](TestTar& t) { t.file("../evil", 0644, "x"); }, "outside of the target");
  refused([&](TestTar& t) { t.file(kj::str(base, "/evil"), 0644, "x"); }, "outside of the target");
  refused([](TestTar& t) { t.file("a/../../evil", 0644, "x"); }, "outside of the target");
  refused([](TestTar& t) { t.hardLink("h", "../evil"); }, "outside of the target");
  refused([&](TestTar& t) { t.symlink("out", base), t.file("out/evil", 0644, "x"); },
          "in its path as a directory");
  refused([&](TestTar& t) { t.symlink("out", kj::str(base, "/evil")), t.file("out", 0644, "x"); },
          "Conflict");
  refused([&](TestTar& t) { t.symlink("out", base), t.directory("out", 0777); },
          "in its path as a directory");
  EXPECT_EQ(content("evil"), "absent");
}

TEST_F(Extract, NeverOverwrites) {
  makeDirectories(target);
  writeFileAtomically(kj::str(target, "/file"), "mine"_kj, 0600);
  TestTar tar;
  tar.file("file", 0644, "theirs");
  EXPECT_THAT(extract(tar), HasSubstr("Conflict: file: cannot create it: File exists"));
  EXPECT_EQ(content("target/file"), "mine");
  writeFileAtomically(kj::str(base, "/plain"), "x"_kj, 0600);
  target = kj::str(base, "/plain");
  EXPECT_THAT(extract(tar), HasSubstr("cannot extract into"));
}

// Catches an incomplete file that is left as if it were complete.
TEST_F(Extract, ACutArchiveLeavesNoHalfFile) {
  TestTar tar;
  tar.file("whole", 0644, "first");
  kj::Vector<char> noise;  // does not compress, so that the cut is inside it
  unsigned seed = 1;
  for (int i = 0; i < 100'000; ++i) noise.add(char('a' + rand_r(&seed) % 26));
  tar.file("half", 0644, kj::heapString(noise.asPtr()));
  EXPECT_THAT(extract(tar, 1000, 20'000), HasSubstr("truncated after"));
  EXPECT_EQ(content("target/whole"), "first");
  EXPECT_EQ(content("target/half"), "absent");
}

TEST_F(Extract, RefusesWhatIsNoArchive) {
  Extractor extractor(target);
  EXPECT_THAT(kj::str(KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&]() {
                        extractor.feed("hello"_kj.asBytes());
                      })).getDescription())
                  .cStr(),
              HasSubstr("not send a valid gzip stream"));
}

}  // namespace
}  // namespace talos::talosctl
