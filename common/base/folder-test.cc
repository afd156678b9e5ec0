#include "common/base/folder.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/exception.h>
#include <kj/function.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "common/base/file.h"
#include "common/testing/test-tree.h"

namespace talos {
namespace {

kj::String list(kj::StringPtr folder, size_t most = SIZE_MAX) {
  return kj::strArray(namesIn(folder, most), " ");
}

// Returns the error of an operation on a folder that cannot be read.
kj::String complaint(kj::Function<void()> operation) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(operation)) return kj::str(e->getDescription());
  return kj::str("nothing");
}

// Calls `work` with every fsync(2) failing with EIO, and returns the error that it throws; empty if
// it did not notice, which means that it did not call fsync(2). The filter of system calls is for
// one thread, and ends with it.
kj::String failureWithoutFsync(kj::Function<void()> work) {
  kj::String failure;
  std::thread thread([&] {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program{sizeof filter / sizeof *filter, filter};
    auto thrown = kj::runCatchingExceptions([&] {
      KJ_SYSCALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
      KJ_SYSCALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
      work();
    });
    KJ_IF_MAYBE (e, thrown) failure = kj::str(e->getDescription());
  });
  thread.join();
  return failure;
}

// Catches: the order of the disk, which differs from run to run; a hidden file that is left out of
// a folder that is emptied; the folder itself and the one above among its names.
TEST(Folder, ListsWhatIsDirectlyInIt) {
  machined::TestTree tree;
  for (auto name : {"b"_kj, ".hidden"_kj, "a"_kj, "B"_kj, "..."_kj}) tree.file(name, "");
  tree.directory("c");
  tree.file("c/below", "");
  EXPECT_STREQ("... .hidden B a b c", list(tree.root).cStr());
  EXPECT_STREQ("below", list(tree.at("c")).cStr());
  EXPECT_STREQ("", list(tree.at("absent")).cStr());
  EXPECT_EQ(2u, namesIn(tree.root, 2).size());
  EXPECT_EQ(0u, namesIn(tree.root, 0).size());
}

// Catches: an unreadable folder that is taken for empty, so that its data is lost.
TEST(Folder, SaysWhichOneItCannotRead) {
  machined::TestTree tree;
  tree.file("a", "");
  auto path = tree.at("a");
  EXPECT_NE(nullptr, strstr(complaint([&] { namesIn(path); }).cStr(), path.cStr()));
  EXPECT_NE(nullptr, strstr(complaint([&] { syncFolder(path); }).cStr(), path.cStr()));
  auto absent = tree.at("absent");
  EXPECT_NE(nullptr, strstr(complaint([&] { syncFolder(absent); }).cStr(), absent.cStr()));
  EXPECT_STREQ("nothing", complaint([&] { syncFolder(tree.root); }).cStr());
}

// Catches: a folder that is opened and not flushed.
TEST(Folder, IsFlushed) {
  machined::TestTree tree;
  auto failure = failureWithoutFsync([&] { syncFolder(tree.root); });
  EXPECT_NE(nullptr, strstr(failure.cStr(), tree.root.cStr())) << failure.cStr();
}

// Catches: a folder that is removed with its content, or keeps some of it; a link that is followed;
// a removal of the one entry that must stay.
TEST(Folder, FolderIsEmptiedButForTheKeptEntry) {
  machined::TestTree tree;
  tree.directory("elsewhere");
  tree.file("elsewhere/a", "");
  for (auto name : {"full"_kj, "full/c"_kj}) tree.directory(name);
  for (auto name : {"full/a"_kj, "full/b"_kj, "full/c/below"_kj, "full/.hidden"_kj}) {
    tree.file(name, "");
  }
  tree.link("full/link", tree.at("elsewhere"));
  emptyFolder(tree.at("full"), tree.at("full/b"));
  EXPECT_STREQ("b", list(tree.at("full")).cStr());
  emptyFolder(tree.at("full"));
  EXPECT_STREQ("", list(tree.at("full")).cStr());
  EXPECT_EQ(0, access(tree.at("full").cStr(), F_OK));
  EXPECT_STREQ("a", list(tree.at("elsewhere")).cStr());
}

TEST(Folder, OfAPath) {
  EXPECT_STREQ("/a/b", folderOf("/a/b/c").cStr());
  EXPECT_STREQ("/", folderOf("/a").cStr());
  EXPECT_STREQ(".", folderOf("a").cStr());
  EXPECT_STREQ("a", folderOf("a/b").cStr());
}

// Catches: a file that stays; a file that cannot be removed but is reported as removed.
TEST(RemoveDurably, RemovesAFile) {
  machined::TestTree tree;
  tree.directory("a");
  tree.file("a/b", "x");
  removeDurably(tree.at("a/b"));
  EXPECT_NE(0, access(tree.at("a/b").cStr(), F_OK));
  EXPECT_EQ(0, access(tree.at("a").cStr(), F_OK));
  removeDurably(tree.at("a/b"));  // absent
  removeDurably(tree.at("c/b"));
  auto e = kj::runCatchingExceptions([&] { removeDurably(tree.at("a")); });
  EXPECT_NE(nullptr, strstr(KJ_ASSERT_NONNULL(e).getDescription().cStr(), "/a"));
}

// Catches: a file that is back after a power cut, because its folder was not flushed; and a write
// where there was nothing to remove.
TEST(RemoveDurably, FlushesTheFolder) {
  machined::TestTree tree;
  tree.file("b", "x");
  auto failure = failureWithoutFsync([&] { removeDurably(tree.at("b")); });
  EXPECT_NE(nullptr, strstr(failure.cStr(), tree.root.cStr())) << failure.cStr();
  EXPECT_STREQ("", failureWithoutFsync([&] { removeDurably(tree.at("b")); }).cStr());
}

}  // namespace
}  // namespace talos
