#include "common/user/user-file.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/thread.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

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
  ~UserFile() noexcept override {
    for (auto name : {"SUDO_UID", "SUDO_GID", "SUDO_USER"}) unsetenv(name);
    removeTree(folder);
  }
  // Makes a folder `home` of a user, and optionally makes this user the caller of sudo.
  void makeHome(bool sudo) {
    KJ_SYSCALL(chmod(folder.cStr(), 0755));
    makeDirectories(in("home"));
    own("home", kUser);
    auto id = kj::str(kUser);
    if (sudo) {
      for (auto name : {"SUDO_UID", "SUDO_GID"}) setenv(name, id.cStr(), 1);
    }
  }
  void linkOf(uid_t user, kj::StringPtr target, kj::StringPtr name) {
    KJ_SYSCALL(symlink(target.cStr(), in(name).cStr()));
    KJ_SYSCALL(lchown(in(name).cStr(), user, user));
  }
  static std::string errorOf(kj::FunctionParam<void()> work) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { work(); })) return messageOf(*e).cStr();
    return "";
  }
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
  // Returns the error of the work in a process of this user.
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

TEST_F(UserFile, FileOfTheSudoCallerKeepsItsOwner) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
  makeHome(true);
  makeUserFolders(in("home/a/b/file"), 0700);
  writeUserFile(in("home/a/b/file"), "x"_kj);
  EXPECT_EQ(describe("home/a"), "4711:4711 700");
  EXPECT_EQ(describe("home/a/b"), "4711:4711 700");
  EXPECT_EQ(describe("home/a/b/file"), "4711:4711 600");
  KJ_SYSCALL(chmod(in("home/a/b/file").cStr(), 0666));
  writeUserFile(in("home/a/b/file"), "y"_kj);
  EXPECT_EQ(describe("home/a/b/file"), "4711:4711 600");
  EXPECT_EQ(readFile(in("home/a/b/file")), "y"_kj);
  {
    UserFileLock lock(in("home/a/b/file"));
    EXPECT_EQ(describe("home/a/b/file.lock"), "4711:4711 600");
  }
  EXPECT_NE(access(in("home/a/b/file.lock").cStr(), F_OK), 0);
  createUserFile(in("home/new"), "z"_kj);
  EXPECT_EQ(describe("home/new"), "4711:4711 600");
  writeUserFile(in("roots"), "r"_kj);
  EXPECT_EQ(describe("roots"), "0:0 600");
}

// Catches: a key of root that is given to the owner of a folder.
TEST_F(UserFile, RootGivesNothingAway) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
  makeHome(false);
  makeUserFolders(in("home/a/file"), 0700);
  writeUserFile(in("home/a/file"), "x"_kj);
  writeUserFile(in("home/file"), "x"_kj);
  for (auto name : {"home/a/file", "home/file"}) EXPECT_EQ(describe(name), "0:0 600");
  writeFileAtomically(in("home/theirs"), "theirs"_kj, 0644);
  for (bool sudo : {false, true}) {
    makeHome(sudo);
    own("home/theirs", kOther);
    EXPECT_EQ(errorOf([&]() { writeUserFile(in("home/theirs"), "x"_kj); }),
              kj::str(in("home/theirs"), " belongs to uid 4712; use a file of your own").cStr());
    EXPECT_EQ(readFile(in("home/theirs")), "theirs"_kj);
  }
  writeUserFile(in("home/file"), "y"_kj);  // root's, in the caller's folder
  EXPECT_EQ(describe("home/file"), "0:0 600");
}

// Catches: a link of a user by which root writes or reads what the user cannot.
TEST_F(UserFile, ALinkLeadsRootNowhereElse) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
  makeDirectories(in("open"), 0755);
  makeDirectories(in("closed"), 0700);
  for (auto name : {"open/file", "closed/file"}) writeFileAtomically(in(name), "root's"_kj, 0600);
  makeHome(false);
  linkOf(kUser, "../open", "home/open");
  linkOf(kUser, "../closed", "home/closed");
  linkOf(kUser, "../open/file", "home/file");
  linkOf(kUser, "../open/new", "home/new");
  for (bool sudo : {false, true}) {
    makeHome(sudo);
    for (auto name : {"home/open/file", "home/closed/file", "home/file", "home/new",
                      "home/open/new", "home/closed/new"}) {
      EXPECT_NE(errorOf([&]() { writeUserFile(in(name), "x"_kj); }), "") << name;
      EXPECT_NE(errorOf([&]() { UserFileLock lock(in(name)); }), "") << name;
    }
    for (auto name : {"home/open/a/b", "home/closed/a/b"}) {
      EXPECT_NE(errorOf([&]() { makeUserFolders(in(name), 0700); }), "") << name;
    }
    for (auto name : {"home/open/made", "home/closed/made"}) {
      EXPECT_NE(errorOf([&]() { createUserFile(in(name), "x"_kj); }), "") << name;
    }
  }
  EXPECT_EQ(errorOf([&]() { writeUserFile(in("home/file"), "x"_kj); }),
            kj::str(in("home/file"),
                    " is a link of uid 4711, which root does not follow; name the file that it "
                    "leads to")
                .cStr());
  EXPECT_NE(errorOf([&]() { tryReadUserFile(in("home/closed/file"), 100); }), "");
  for (auto name : {"open", "closed"}) {
    EXPECT_EQ(kj::strArray(namesIn(in(name)), " "), "file"_kj);
    EXPECT_EQ(readFile(kj::str(in(name), "/file")), "root's"_kj);
  }
  EXPECT_EQ(KJ_ASSERT_NONNULL(tryReadUserFile(in("closed/file"), 100)), "root's"_kj);
  linkOf(kUser, "real", "home/own");
  writeUserFile(in("home/own"), "x"_kj);
  EXPECT_EQ(describe("home/real"), "4711:4711 600");
}

TEST_F(UserFile, GroupsOfTheCallerCountAndRootsReturn) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
  makeHome(false);
  makeDirectories(in("shared"), 0770);
  KJ_SYSCALL(chown(in("shared").cStr(), 0, kOther));
  auto mayWrite = [&](kj::ArrayPtr<const gid_t> groups) {
    kj::Maybe<SudoCaller> caller = SudoCaller{kUser, kUser, {}};
    KJ_ASSERT_NONNULL(caller).groups.addAll(groups);
    ActAs acting(caller);
    return mkdir(in("shared/x").cStr(), 0700) == 0;
  };
  gid_t before[64];
  int count = getgroups(64, before);
  EXPECT_FALSE(mayWrite(nullptr));
  const gid_t groups[] = {kOther};
  EXPECT_TRUE(mayWrite(groups));
  EXPECT_EQ(describe("shared/x"), "4711:4711 700");
  EXPECT_EQ(setfsuid(-1), 0);
  EXPECT_EQ(setfsgid(-1), static_cast<int>(getegid()));
  gid_t after[64];
  ASSERT_EQ(getgroups(64, after), count);
  for (int i = 0; i < count; ++i) EXPECT_EQ(after[i], before[i]);
}

// Catches: a folder that becomes a link between the check and the write, by which root replaces a
// file of root, or puts a key where it does not belong.
TEST_F(UserFile, AFolderThatIsExchangedLeadsRootNowhereElse) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
  makeHome(false);
  makeDirectories(in("home/folder"));
  own("home/folder", kUser);
  makeDirectories(in("root"));
  linkOf(kUser, in("root"), "home/link");
  writeFileAtomically(in("root/config"), "root's"_kj, 0600);
  std::atomic<bool> done = false;
  auto folderPath = in("home/folder"), linkPath = in("home/link");
  kj::Thread other([&]() {
    while (!done) {
      renameat2(AT_FDCWD, folderPath.cStr(), AT_FDCWD, linkPath.cStr(), RENAME_EXCHANGE);
    }
  });
  KJ_DEFER(done = true);
  unsigned written = 0, refused = 0;
  auto intact = [&]() {
    return namesIn(in("root")).size() == 1 &&
           KJ_ASSERT_NONNULL(tryReadFile(in("root/config"), 100)) == "root's"_kj;
  };
  for (unsigned i = 0; i < 3000 && intact(); ++i) {
    auto count = [&](std::string error) { ++(error == "" ? written : refused); };
    count(errorOf([&]() { writeUserFile(in("home/folder/config"), "x"_kj); }));
    count(errorOf([&]() { createUserFile(in(kj::str("home/folder/key", i)), "x"_kj); }));
  }
  for (unsigned i = 0; i < 3000 && intact(); ++i) {
    errorOf([&]() { makeUserFolders(in(kj::str("home/folder/new", i, "/key")), 0700); });
  }
  EXPECT_TRUE(intact());
  EXPECT_GT(written, 0u);
  EXPECT_GT(refused, 0u);
}

// Catches: a relative path that is refused, or whose folders are made elsewhere.
TEST_F(UserFile, RelativePathsNameFoldersAsWell) {
  char before[4096];
  KJ_ASSERT(getcwd(before, sizeof before) != nullptr);
  KJ_SYSCALL(chdir(folder.cStr()));
  KJ_DEFER(KJ_SYSCALL(chdir(before)));
  makeUserFolders("./one/../two//three/file", 0700);
  writeUserFile("./one/../two//three/file", "x"_kj);
  createUserFile("two/other", "y"_kj);
  EXPECT_EQ(KJ_ASSERT_NONNULL(tryReadFile(in("two/three/file"), 100)), "x"_kj);
  EXPECT_EQ(KJ_ASSERT_NONNULL(tryReadFile(in("two/other"), 100)), "y"_kj);
  EXPECT_EQ(errorOf([&]() { createUserFile("two/other", "z"_kj); }), "two/other already exists");
}

// Catches: a second key in place of the first; a key that is written to the target of a link.
TEST_F(UserFile, ANewFileReplacesNothing) {
  createUserFile(in("file"), "one"_kj);
  EXPECT_EQ(readFile(in("file")), "one"_kj);
  EXPECT_EQ(describe("file").substr(describe("file").size() - 3), "600");
  KJ_SYSCALL(symlink("nothing", in("link").cStr()));
  for (auto name : {"file", "link"}) {
    EXPECT_EQ(errorOf([&]() { createUserFile(in(name), "two"_kj); }),
              kj::str(in(name), " already exists").cStr());
  }
  EXPECT_EQ(readFile(in("file")), "one"_kj);
  EXPECT_EQ(kj::strArray(namesIn(folder), " "), "file link"_kj);
}

// Makes fchown(2) of this process fail from now on, as on a file system that has no groups.
void failFchown(int error) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchown, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof code / sizeof code[0], code};
  KJ_SYSCALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  KJ_SYSCALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

// Catches: a file system or a user namespace in which groups cannot be set.
TEST_F(UserFile, AGroupThatCannotBeSetIsNoError) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
  KJ_SYSCALL(chmod(folder.cStr(), 0777));
  for (int error : {EINVAL, ENOSYS, EPERM, EIO}) {
    for (gid_t group : {kUser, kOther}) {
      writeFileAtomically(in("file"), "old"_kj, 0600);
      KJ_SYSCALL(chown(in("file").cStr(), kUser, group));
      auto failed = errorAs(kUser, [&]() {
        failFchown(error);
        writeUserFile(in("file"), "new"_kj);
      });
      bool matters = error == EIO && group == kOther;
      EXPECT_EQ(failed.find("fchown") != std::string::npos, matters) << error << failed;
      EXPECT_EQ(readFile(in("file")), matters ? "old"_kj : "new"_kj) << error;
    }
  }
}

// Catches: a file that changes hands because a folder is shared.
TEST_F(UserFile, AUserDoesNotTakeAnothersFile) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
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
  for (auto text : {"one"_kj, "two"_kj}) {
    writeUserFile(in("link"), text);
    EXPECT_EQ(readFile(in("d/real")), text);
  }
  EXPECT_EQ(kj::strArray(namesIn(in("d")), " "), "next real"_kj);
  KJ_SYSCALL(symlink("round", in("round").cStr()));
  EXPECT_ANY_THROW(writeUserFile(in("round"), "x"_kj));
}

TEST_F(UserFile, LockIsHeldByOneProcess) {
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
