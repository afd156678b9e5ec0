#include "talosctl/cluster/processes/program-tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::cluster {
namespace {

using ::testing::EndsWith;

struct ProgramTree : public ::testing::Test {
  kj::String folder;
  ProgramTree() {
    char path[] = "/var/program-tree-XXXXXX";  // every user can write to /tmp
    folder = kj::str(mkdtemp(path));
    KJ_SYSCALL(chmod(folder.cStr(), 0755));
    makeDirectories(tree());
    writeFileAtomically(kj::str(tree(), "/.stamp"), "0"_kj, 0644);
  }
  ~ProgramTree() noexcept override { removeTree(folder); }

  kj::String tree() { return kj::str(folder, "/build/root"); }
  // Returns the error without the name of the test's folder.
  std::string error() {
    KJ_IF_MAYBE (text, buildRootError(tree(), trustedOwners())) {
      std::string found = text->cStr();
      for (size_t at; (at = found.find(folder.cStr())) != std::string::npos;) {
        found.erase(at, folder.size());
      }
      return found;
    }
    return "";
  }
};

// Catches: programs that root runs from a folder which another user has filled.
TEST_F(ProgramTree, OnlyOneThatNobodyElseCanChangeIsUsed) {
  EXPECT_EQ(error(), "");
  KJ_SYSCALL(chmod(kj::str(folder, "/build").cStr(), 0777));
  EXPECT_EQ(error(), "everybody can write to /build");
  KJ_SYSCALL(chmod(kj::str(folder, "/build").cStr(), 0755));
  if (geteuid() == 0) {
    for (auto name : {"/build", "/build/root", "/build/root/.stamp"}) {
      KJ_SYSCALL(chown(kj::str(folder, name).cStr(), 4711, 0));
      EXPECT_EQ(error(), kj::str(name, " belongs to uid 4711").cStr());
      EXPECT_EQ(buildRootError(tree(), kj::arr(uid_t(0), uid_t(4711))), nullptr);
      KJ_SYSCALL(chown(kj::str(folder, name).cStr(), 0, 0));
    }
  }
  KJ_SYSCALL(unlink(kj::str(tree(), "/.stamp").cStr()));
  EXPECT_EQ(error(), "/build/root is not a build root: it has no .stamp");
}

// Catches: a tree with a protected root, but with a program that another user wrote.
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

// Catches: a refusal of a tree in a private folder in /tmp; a tree that another user has made or
// can replace there; a folder as /tmp in a tree, to which other users add files that are loaded.
TEST_F(ProgramTree, AFolderAsTmpMayBeAbove) {
  auto build = kj::str(folder, "/build"), usr = kj::str(tree(), "/usr");
  makeDirectories(kj::str(usr, "/bin"), 0755);
  KJ_SYSCALL(chmod(build.cStr(), 01777));
  EXPECT_EQ(error(), "");
  EXPECT_EQ(pathError(kj::str(tree(), "/.stamp"), trustedOwners()), nullptr);
  KJ_SYSCALL(chmod(tree().cStr(), 01777));
  EXPECT_EQ(error(), "everybody can write to /build/root");
  KJ_SYSCALL(chmod(tree().cStr(), 0755));
  KJ_SYSCALL(chmod(usr.cStr(), 01777));
  EXPECT_EQ(error(), "everybody can write to /build/root/usr");
  KJ_SYSCALL(chmod(usr.cStr(), 0755));
  KJ_SYSCALL(chmod(kj::str(usr, "/bin").cStr(), 01777));
  EXPECT_EQ(error(), "everybody can write to /build/root/usr/bin");
  KJ_SYSCALL(chmod(kj::str(usr, "/bin").cStr(), 0755));
  auto file = kj::str(build, "/disk.img");
  writeFileAtomically(file, "0"_kj, 0644);
  auto refusal = pathError(file, trustedOwners());
  EXPECT_EQ(KJ_ASSERT_NONNULL(refusal), kj::str("everybody can write to ", build))
      << "its name may be a link of another user to another file";
  if (geteuid() == 0) {
    KJ_SYSCALL(chown(tree().cStr(), 4711, 0));
    EXPECT_EQ(error(), "/build/root belongs to uid 4711");
    KJ_SYSCALL(chown(tree().cStr(), 0, 0));
    KJ_SYSCALL(chown(build.cStr(), 4711, 0));
    EXPECT_EQ(error(), "/build belongs to uid 4711") << "its owner may rename all in it";
  }
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

// Catches: a tree from which root runs programs, unchecked because the user has named it.
TEST_F(ProgramTree, ANamedTreeIsCheckedAsWell) {
  constexpr kj::StringPtr kProgram = "/usr/bin/program-of-a-tree"_kj;
  auto program = kj::str(tree(), kProgram), link = kj::str(folder, "/link");
  makeDirectories(kj::str(tree(), "/usr/bin"), 0755);
  writeFileAtomically(program, "0"_kj, 0755);
  KJ_SYSCALL(unlink(kj::str(tree(), "/.stamp").cStr()));  // a named tree need not be a build root
  auto found = [&](kj::StringPtr root) -> std::string {
    kj::Maybe<kj::String> result;
    auto failure = kj::runCatchingExceptions(
        [&]() { result = findProgram(root, kProgram, true, "do this").program; });
    KJ_IF_MAYBE (e, failure) result = messageOf(*e);
    std::string text = KJ_ASSERT_NONNULL(result).cStr();
    for (size_t at; (at = text.find(folder.cStr())) != std::string::npos;) {
      text.erase(at, folder.size());
    }
    return text;
  };
  constexpr auto kAdvice =
      "; use a tree of root or of your own, in a folder that others cannot write to";
  auto refused = [&](const char* error) {
    return kj::str("cannot run /build/root", kProgram, ": ", error, kAdvice);
  };
  EXPECT_EQ(found(tree()), "/build/root/usr/bin/program-of-a-tree");
  KJ_SYSCALL(symlink("build/root", link.cStr()));
  EXPECT_EQ(found(link), "/build/root/usr/bin/program-of-a-tree") << "not what a link may become";
  KJ_SYSCALL(chmod(program.cStr(), 0777));
  EXPECT_EQ(found(tree()),
            refused("everybody can write to /build/root/usr/bin/program-of-a-tree").cStr());
  KJ_SYSCALL(chmod(program.cStr(), 0755));
  KJ_SYSCALL(chmod(kj::str(folder, "/build").cStr(), 0777));
  EXPECT_EQ(found(link), refused("everybody can write to /build").cStr());
  KJ_SYSCALL(chmod(kj::str(folder, "/build").cStr(), 0755));
  if (geteuid() == 0) {
    KJ_SYSCALL(chown(program.cStr(), 4711, 0));
    EXPECT_EQ(found(tree()),
              refused("/build/root/usr/bin/program-of-a-tree belongs to uid 4711").cStr());
  }
  EXPECT_EQ(found(kj::str(folder, "/none")),
            "cannot find /none/usr/bin/program-of-a-tree or /usr/bin/program-of-a-tree; do this");
}

}  // namespace
}  // namespace talos::cluster
