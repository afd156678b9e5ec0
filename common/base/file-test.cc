#include "common/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/memory/zeroize.h"
#include "common/testing/freed-secrets.h"

namespace talos {
namespace {

struct Scratch {
  char path[32] = "/tmp/file-test-XXXXXX";
  Scratch() { KJ_ASSERT(mkdtemp(path) != nullptr); }
  ~Scratch() noexcept(false) { removeTree(path); }
  kj::String in(kj::StringPtr name) { return kj::str(path, "/", name); }
};

// Catches: a mode that the umask widens or narrows; temporary files that are not removed.
TEST(File, AtomicWriteHasTheExactModeAndLeavesNothing) {
  Scratch scratch;
  mode_t old = umask(077);
  KJ_DEFER(umask(old));
  writeFileAtomically(scratch.in("a"), "one"_kj, 0644);
  writeFileAtomically(scratch.in("a"), "two"_kj, 0640);
  struct stat st;
  ASSERT_EQ(stat(scratch.in("a").cStr(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0640);
  EXPECT_STREQ(readFile(scratch.in("a")).cStr(), "two");
  EXPECT_EQ(unlink(scratch.in("a").cStr()), 0);
  EXPECT_EQ(rmdir(scratch.path), 0) << "something besides the file was in the directory";
}

// Catches: a failed write that damages or removes the old file.
TEST(File, AFailedWriteChangesNothing) {
  Scratch scratch;
  makeDirectories(scratch.in("d/e"), 0755);
  // the path is a directory
  EXPECT_ANY_THROW(writeFileAtomically(scratch.in("d/e"), "x"_kj, 0644));
  struct stat st;
  ASSERT_EQ(stat(scratch.in("d/e").cStr(), &st), 0);
  EXPECT_TRUE(S_ISDIR(st.st_mode));
}

// Catches: copies of a secret that reading a file leaves in memory, also when that fails.
TEST(File, ReadingLeavesNoCopies) {
  Scratch scratch;
  kj::Vector<char> text(200'000);
  while (text.size() < 200'000) text.addAll("freed-secret-of-file "_kj);
  writeFileAtomically(scratch.in("secret"), text, 0600);
  {
    FreedSecrets freed("freed-secret-of-file");
    auto content = readFile(scratch.in("secret"));
    EXPECT_ANY_THROW(readFile(scratch.in("secret"), 150'000));
    EXPECT_EQ(freed.count(), 0u);
    kj::heapArray(content.asArray());
    EXPECT_EQ(freed.count(), 1u) << "it does not see anything";
    zeroize(content);
  }
}

// Catches: an unfinished file that stays after a power cut; another program's file that is mistaken
// for an unfinished one.
TEST(File, UnfinishedOnesAreRemoved) {
  Scratch scratch;
  // Its own writer, killed before the file had its name.
  auto child = fork();
  if (child == 0) {
    struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_FSIZE, &none);  // the first write ends it, by SIGXFSZ
    signal(SIGXFSZ, SIG_DFL);
    writeFileAtomically(scratch.in("config.yaml"), "x"_kj, 0644);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(namesIn(scratch.path).size(), 1u);
  constexpr kj::StringPtr kOthers[] = {"a"_kj,
                                       "a.yaml"_kj,
                                       "x.backup"_kj,
                                       "a.Xy12zZ"_kj,
                                       "a.b.000000"_kj,
                                       "unfinished-Xy12zZ"_kj,
                                       "a.unfinished-"_kj,
                                       "a.unfinished-Xy-2zZ"_kj};
  for (auto name : kOthers) writeFileAtomically(scratch.in(name), "x"_kj, 0644);
  makeDirectories(scratch.in("d.unfinished-Xy12zZ"));
  EXPECT_EQ(0, symlink("a", scratch.in("l.unfinished-Xy12zZ").cStr()));
  removeUnfinished(scratch.path);
  for (auto name : kOthers) EXPECT_EQ(access(scratch.in(name).cStr(), F_OK), 0) << name.cStr();
  EXPECT_EQ(namesIn(scratch.path).size(), kj::size(kOthers) + 2);
  removeUnfinished(scratch.in("absent"));
}

// Catches: the words of a system call shown to a user.
TEST(File, WritingSaysWhatIsWrong) {
  Scratch scratch;
  auto problem = [](kj::Function<void()> work) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { work(); })) return kj::str(messageOf(*e));
    return kj::String();
  };
  auto file = scratch.in("file"), below = scratch.in("file/below"), absent = scratch.in("no/file");
  writeFileAtomically(file, "x"_kj, 0600);
  EXPECT_EQ(problem([&] { makeDirectories(below); }),
            kj::str("cannot make the folder ", below, ": Not a directory"));
  EXPECT_EQ(problem([&] { writeFileAtomically(absent, "x"_kj, 0600); }),
            kj::str("cannot write ", absent, ": No such file or directory"));
}

TEST(File, ReadingSaysWhatIsWrong) {
  Scratch scratch;
  EXPECT_TRUE(tryReadFile(scratch.in("none")) == nullptr);
  writeFileAtomically(scratch.in("big"), "0123456789"_kj, 0600);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { readFile(scratch.in("big"), 9); })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kInvalidArgument);
  } else {
    FAIL() << "a file over the limit was read";
  }
  EXPECT_EQ(readFile("/proc/self/status").size() > 100, true) << "files without a size are empty";
}

// Catches: a read that ignores the offset; an end of file taken for a failure; a failure taken for
// an end.
TEST(File, ReadAtTakesWhatIsThere) {
  Scratch scratch;
  auto path = scratch.in("digits");
  writeFileAtomically(path, "0123456789"_kj, 0600);
  kj::AutoCloseFd fd(open(path.cStr(), O_RDONLY | O_CLOEXEC));
  auto at = [&](uint64_t offset, size_t size) {
    auto bytes = kj::heapArray<kj::byte>(size);
    auto n = readAt(fd, offset, bytes, path);
    return kj::str(bytes.slice(0, n).asChars());
  };
  EXPECT_EQ(at(3, 4), "3456");
  EXPECT_EQ(at(8, 4), "89");
  EXPECT_EQ(at(10, 4), "");
  kj::AutoCloseFd folder(open(scratch.path, O_RDONLY | O_CLOEXEC));
  kj::byte byte[1];
  EXPECT_ANY_THROW(readAt(folder, 0, byte, scratch.path)) << "a folder has no bytes";
}

// Catches: a removal of the target of a symbolic link.
TEST(File, RemoveTreeDoesNotFollowLinks) {
  Scratch scratch;
  makeDirectories(scratch.in("keep/x"));
  makeDirectories(scratch.in("gone/y"));
  ASSERT_EQ(symlink(scratch.in("keep").cStr(), scratch.in("gone/y/link").cStr()), 0);
  removeTree(scratch.in("gone"));
  EXPECT_NE(access(scratch.in("gone").cStr(), F_OK), 0);
  EXPECT_EQ(access(scratch.in("keep/x").cStr(), F_OK), 0);
  removeTree(scratch.in("gone"));  // absent is fine
}

}  // namespace
}  // namespace talos
