#include "talosctl/cluster/processes/program-tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"

namespace talos::cluster {
namespace {

using ::testing::EndsWith;

struct ProgramTree : public ::testing::Test {
  kj::String folder;
  ProgramTree() {
    char path[] = "/var/program-tree-XXXXXX";  // /tmp is everybody's
    folder = kj::str(mkdtemp(path));
    KJ_SYSCALL(chmod(folder.cStr(), 0755));
    makeDirectories(tree());
    writeFileAtomically(kj::str(tree(), "/.stamp"), "0"_kj, 0644);
  }
  ~ProgramTree() noexcept override { removeTree(folder); }

  kj::String tree() { return kj::str(folder, "/build/root"); }
  // Without the name of the test's folder.
  std::string error() {
    KJ_IF_MAYBE (text, treeError(tree(), trustedOwners())) {
      std::string found = text->cStr();
      for (size_t at; (at = found.find(folder.cStr())) != std::string::npos;) {
        found.erase(at, folder.size());
      }
      return found;
    }
    return "";
  }
};

// Catches: programs that root runs out of a folder which somebody else has filled.
TEST_F(ProgramTree, OnlyOneThatNobodyElseCanChangeIsUsed) {
  EXPECT_EQ(error(), "");
  KJ_SYSCALL(chmod(kj::str(folder, "/build").cStr(), 0777));
  EXPECT_EQ(error(), "everybody can write to /build");
  KJ_SYSCALL(chmod(kj::str(folder, "/build").cStr(), 01777));
  EXPECT_EQ(error(), "everybody can write to /build");
  KJ_SYSCALL(chmod(kj::str(folder, "/build").cStr(), 0755));
  if (geteuid() == 0) {
    for (auto name : {"/build", "/build/root", "/build/root/.stamp"}) {
      KJ_SYSCALL(chown(kj::str(folder, name).cStr(), 4711, 0));
      EXPECT_EQ(error(), kj::str(name, " belongs to uid 4711").cStr());
      EXPECT_EQ(treeError(tree(), kj::arr(uid_t(0), uid_t(4711))), nullptr);
      KJ_SYSCALL(chown(kj::str(folder, name).cStr(), 0, 0));
    }
  }
  KJ_SYSCALL(unlink(kj::str(tree(), "/.stamp").cStr()));
  EXPECT_EQ(error(), "/build/root is not a build root: it has no .stamp");
}

// Catches: a tree whose root nobody else can change, with a program that somebody else wrote.
TEST_F(ProgramTree, ItsProgramsAndLibrariesAreCheckedToo) {
  auto library = kj::str(tree(), "/usr/lib/x86_64-linux-gnu/qemu/accel.so");
  auto link = kj::str(tree(), "/usr/bin/qemu");
  makeDirectories(kj::str(tree(), "/usr/lib/x86_64-linux-gnu/qemu"), 0755);
  makeDirectories(kj::str(tree(), "/usr/bin"), 0755);
  writeFileAtomically(library, "0"_kj, 0644);
  KJ_SYSCALL(symlink("../lib/x86_64-linux-gnu/qemu/accel.so", link.cStr()));
  EXPECT_EQ(error(), "");
  KJ_SYSCALL(chmod(library.cStr(), 0666));
  EXPECT_THAT(error(), EndsWith("/usr/lib/x86_64-linux-gnu/qemu/accel.so"));
  KJ_SYSCALL(chmod(library.cStr(), 0644));
  KJ_SYSCALL(chmod(kj::str(tree(), "/usr").cStr(), 0777));
  EXPECT_EQ(error(), "everybody can write to /build/root/usr");
  KJ_SYSCALL(chmod(kj::str(tree(), "/usr").cStr(), 0755));
  makeDirectories(kj::str(folder, "/open"), 0755);
  writeFileAtomically(kj::str(folder, "/open/qemu"), "0"_kj, 0644);
  KJ_SYSCALL(chmod(kj::str(folder, "/open").cStr(), 0777));
  KJ_SYSCALL(unlink(link.cStr()));
  KJ_SYSCALL(symlink(kj::str(folder, "/open/qemu").cStr(), link.cStr()));
  EXPECT_EQ(error(), "everybody can write to /open");
  KJ_SYSCALL(unlink(link.cStr()));
  KJ_SYSCALL(symlink("nowhere", link.cStr()));
  EXPECT_EQ(error(), "");
}

// Catches: a link that leads around the check.
TEST_F(ProgramTree, LinksAreFollowedFirst) {
  makeDirectories(kj::str(folder, "/open/root"), 0755);
  KJ_SYSCALL(
      rename(kj::str(tree(), "/.stamp").cStr(), kj::str(folder, "/open/root/.stamp").cStr()));
  KJ_SYSCALL(chmod(kj::str(folder, "/open").cStr(), 0777));
  KJ_SYSCALL(rmdir(tree().cStr()));
  KJ_SYSCALL(symlink("../open/root", tree().cStr()));
  EXPECT_EQ(error(), "everybody can write to /open");
}

}  // namespace
}  // namespace talos::cluster
