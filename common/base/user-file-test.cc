#include "common/base/user-file.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"

namespace talos {
namespace {

constexpr uid_t kUser = 4711, kOther = 4712;

struct UserFile : public ::testing::Test {
  kj::String folder;
  UserFile() {
    char path[] = "/tmp/user-file-XXXXXX";
    folder = kj::str(mkdtemp(path));
  }
  ~UserFile() noexcept override { removeTree(folder); }
  kj::String in(kj::StringPtr name) { return kj::str(folder, "/", name); }
  void own(kj::StringPtr name, uid_t user) { KJ_SYSCALL(chown(in(name).cStr(), user, user)); }
  // "4711:4711 600"
  std::string describe(kj::StringPtr name) {
    struct stat found;
    KJ_SYSCALL(stat(in(name).cStr(), &found));
    char text[64];
    snprintf(text, sizeof text, "%u:%u %o", found.st_uid, found.st_gid, found.st_mode & 07777);
    return text;
  }
  // The error of the work in a process of this user.
  std::string errorAs(uid_t user, kj::FunctionParam<void()> work) {
    int ends[2];
    KJ_SYSCALL(pipe(ends));
    kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
    auto child = fork();
    if (child == 0) {
      if (setgid(user) != 0 || setuid(user) != 0) _exit(1);
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { work(); })) {
        auto text = messageOf(*e);
        if (write(writing, text.begin(), text.size()) < 0) _exit(1);
      }
      _exit(0);
    }
    writing = nullptr;
    int status = -1;
    KJ_SYSCALL(waitpid(child, &status, 0));
    EXPECT_EQ(status, 0);
    return kj::FdInputStream(kj::mv(reading)).readAllText().cStr();
  }
};

TEST_F(UserFile, RootLeavesItTheUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  makeDirectories(in("home"));
  own("home", kUser);
  makeUserFolders(in("home/a/b/file"), 0700);
  writeUserFile(in("home/a/b/file"), "x"_kj);
  EXPECT_EQ(describe("home/a"), "4711:4711 700");
  EXPECT_EQ(describe("home/a/b"), "4711:4711 700");
  EXPECT_EQ(describe("home/a/b/file"), "4711:4711 600");
  KJ_SYSCALL(chmod(in("home/a/b/file").cStr(), 0666));
  own("home/a/b/file", kOther);
  writeUserFile(in("home/a/b/file"), "y"_kj);
  EXPECT_EQ(describe("home/a/b/file"), "4712:4712 600");
  EXPECT_EQ(readFile(in("home/a/b/file")), "y"_kj);
}

// Catches: a file that changes hands because a folder is shared.
TEST_F(UserFile, AUserDoesNotTakeAnothersFile) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  KJ_SYSCALL(chmod(folder.cStr(), 0777));
  writeFileAtomically(in("file"), "theirs"_kj, 0644);
  own("file", kOther);
  EXPECT_EQ(errorAs(kUser, [&]() { writeUserFile(in("file"), "mine"_kj); }),
            kj::str(in("file"), " belongs to uid 4712; use a file of your own").cStr());
  EXPECT_EQ(readFile(in("file")), "theirs"_kj);
  EXPECT_EQ(errorAs(kOther, [&]() { writeUserFile(in("file"), "new"_kj); }), "");
  EXPECT_EQ(readFile(in("file")), "new"_kj);
  EXPECT_EQ(describe("file"), "4712:4712 600");
  EXPECT_EQ(errorAs(kUser, [&]() { writeUserFile(in("other"), "x"_kj); }), "");
  struct stat found;
  KJ_SYSCALL(stat(in("other").cStr(), &found));
  EXPECT_EQ(found.st_uid, kUser);
}

// Catches: a link that becomes a file, also one that leads to no file yet.
TEST_F(UserFile, LinksAreFollowed) {
  makeDirectories(in("d"));
  KJ_SYSCALL(symlink("d/next", in("link").cStr()));
  KJ_SYSCALL(symlink(in("d/real").cStr(), in("d/next").cStr()));
  EXPECT_EQ(withoutLinks(in("link")), in("d/real"));
  for (auto text : {"one"_kj, "two"_kj}) {
    writeUserFile(in("link"), text);
    EXPECT_EQ(readFile(in("d/real")), text);
  }
  EXPECT_EQ(kj::strArray(namesIn(in("d")), " "), "next real"_kj);
  KJ_SYSCALL(symlink("round", in("round").cStr()));
  EXPECT_ANY_THROW(writeUserFile(in("round"), "x"_kj));
}

TEST_F(UserFile, OneHasTheLock) {
  KJ_SYSCALL(symlink("real", in("link").cStr()));
  {
    UserFileLock lock(in("link"));
    for (auto name : {"link", "real"}) EXPECT_ANY_THROW(UserFileLock(in(name)));
    EXPECT_EQ(kj::strArray(namesIn(folder), " "), "link link.lock real.lock"_kj);
  }
  {
    UserFileLock lock(in("real"));
    EXPECT_ANY_THROW(UserFileLock(in("link")));  // and leaves nothing
    EXPECT_EQ(kj::strArray(namesIn(folder), " "), "link real.lock"_kj);
  }
  EXPECT_EQ(kj::strArray(namesIn(folder), " "), "link"_kj);
}

}  // namespace
}  // namespace talos
