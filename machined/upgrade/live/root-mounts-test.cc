// The switch of the root, in a mount namespace whose root is a model of an image.
#include "machined/upgrade/live/root-mounts.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string contentOf(kj::StringPtr path) {
  auto text = tryReadFile(path);
  KJ_IF_MAYBE (t, text) return t->cStr();
  return "none";
}

void write(kj::StringPtr path, kj::StringPtr text) {
  int raw;
  KJ_SYSCALL(raw = open(path.cStr(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755), path);
  kj::AutoCloseFd fd(raw);
  KJ_SYSCALL(::write(fd, text.begin(), text.size()));
}

void folder(kj::StringPtr path) {
  KJ_SYSCALL(mkdir(path.cStr(), 0755), path);
}

void tmpfs(kj::StringPtr path) {
  KJ_SYSCALL(mount("tmpfs", path.cStr(), "tmpfs", 0, nullptr), path);
}

void fillImage(kj::StringPtr top, kj::StringPtr name) {
  for (auto part : {"root", "proc", "var", "opt", "sbin"}) folder(kj::str(top, "/", part));
  write(kj::str(top, "/name"), name);
  write(kj::str(top, "/sbin/init"), "process 1");
  write(kj::str(top, "/opt/plugin"), "plugin");
}

// Enters a namespace whose root is a tmpfs with an image, shared as on a node.
void enterOldRoot(kj::StringPtr at) {
  KJ_SYSCALL(unshare(CLONE_NEWNS));
  KJ_SYSCALL(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
  tmpfs(at);
  fillImage(at, "old");
  KJ_SYSCALL(mount("/proc", kj::str(at, "/proc").cStr(), nullptr, MS_BIND | MS_REC, nullptr));
  // A chroot around the test would not be a mount point.
  int self, root;
  KJ_SYSCALL(self = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  KJ_SYSCALL(root = open(at.cStr(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  KJ_SYSCALL(setns(self, CLONE_NEWNS));
  KJ_SYSCALL(fchdir(root));
  KJ_SYSCALL(syscall(SYS_pivot_root, ".", "."));
  KJ_SYSCALL(umount2(".", MNT_DETACH));
  KJ_SYSCALL(chdir("/"));
  KJ_SYSCALL(mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr));
  tmpfs("/var");
  folder("/var/pod");
  folder("/var/later");
  tmpfs("/var/pod");
  write("/var/pod/volume", "data");
}

void mountNewRoot() {
  preparePlace();
  tmpfs(kNewRoot);
  fillImage(kNewRoot, "new");
}

// Runs `body` in a child, and returns the text that it returns, or its error.
std::string inChild(kj::Function<std::string()> body) {
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  pid_t pid;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    std::string text;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { text = body(); })) {
      text = kj::str("error: ", messageOf(*e)).cStr();
    }
    _exit(::write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<size_t>(n));
  }
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  return text;
}

// A process in the same mount namespace, or with `slave` in one that follows it, as a container's.
class Bystander {
 public:
  explicit Bystander(bool slave) {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    KJ_SYSCALL(pid = fork());
    if (pid == 0) {
      if (slave) {
        KJ_SYSCALL(unshare(CLONE_NEWNS));
        KJ_SYSCALL(mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr));
      }
      close(ends[0]);
      close(ends[1]);
      for (;;) pause();
    }
    close(ends[1]);
    char byte;
    KJ_ASSERT(read(ends[0], &byte, 1) == 0);  // its namespace is ready
    close(ends[0]);
  }
  ~Bystander() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  std::string sees(kj::StringPtr path) const {
    return contentOf(kj::str("/proc/", pid, "/root", path));
  }

 private:
  pid_t pid;
};

struct RootMounts : testing::Test {
  ~RootMounts() noexcept override { rmdir(at); }
  char at[32] = "/tmp/root-mounts-XXXXXX";
  void SetUp() override { ASSERT_NE(mkdtemp(at), nullptr); }

  std::string withOldRoot(kj::Function<std::string()> body) {
    return inChild([&]() {
      enterOldRoot(at);
      return body();
    });
  }
};

}  // namespace

// Catches: a switch after which a running process still has the old root, a mount is missing, or
// the old tree is still mounted.
TEST_F(RootMounts, ASwitchChangesTheRootOfEachProcessAndKeepsEachMount) {
  auto text = withOldRoot([]() {
    Bystander other(false);
    mountNewRoot();
    enterNewRoot(mountsOfRoot());
    std::string targets;
    for (auto& each : mountsOfRoot()) targets += std::string(each.target.cStr()) + " ";
    auto table = contentOf("/proc/self/mountinfo");
    bool isGone = table.find(" /root") == std::string::npos;
    return contentOf("/name") + " " + other.sees("/name") + " " + other.sees("/var/pod/volume") +
           " " + targets + (isGone ? "gone" : table);
  });
  EXPECT_EQ(text, "new new data /proc /var gone");
}

// Catches: mounts for pods that a switch unmounts with the old tree; a container that no longer
// gets the volumes that a kubelet mounts for it.
TEST_F(RootMounts, APodThatFollowsTheMountsFollowsThemAfterASwitch) {
  auto text = withOldRoot([]() {
    Bystander pod(true);
    mountNewRoot();
    enterNewRoot(mountsOfRoot());
    tmpfs("/var/later");
    write("/var/later/volume", "later");
    auto late = pod.sees("/var/later/volume");
    KJ_SYSCALL(umount("/var/later"));
    return pod.sees("/var/pod/volume") + " " + late + " " + pod.sees("/var/later/volume");
  });
  EXPECT_EQ(text, "data later none");
}

// Catches: a mount that a kubelet makes or removes while the new root is prepared, and that the new
// root lacks or keeps.
TEST_F(RootMounts, AMountDuringThePreparationIsInBothRoots) {
  auto text = withOldRoot([]() {
    mountNewRoot();
    auto place = kj::str(kNewRoot, "/var");
    KJ_SYSCALL(mount("/var", place.cStr(), nullptr, MS_BIND | MS_REC, nullptr));
    tmpfs("/var/later");
    write("/var/later/volume", "later");
    KJ_SYSCALL(umount("/var/pod"));
    return contentOf(kj::str(kNewRoot, "/var/later/volume")) + " " +
           contentOf(kj::str(kNewRoot, "/var/pod/volume"));
  });
  EXPECT_EQ(text, "later none");
}

// Catches: a brain that dies in the middle of a switch, after which the next switch fails, or which
// leaves the whole old root mounted; a clean-up that unmounts what is in use.
TEST_F(RootMounts, WhatACrashLeavesIsTakenAway) {
  auto text = withOldRoot([]() {
    mountNewRoot();
    auto place = kj::str(kNewRoot, "/var");
    KJ_SYSCALL(mount("/var", place.cStr(), nullptr, MS_BIND | MS_REC, nullptr));
    clearPlace();
    auto before = contentOf("/name") + " " + contentOf("/var/pod/volume");
    // A crash right after the switch itself.
    mountNewRoot();
    for (auto& each : mountsOfRoot()) {
      KJ_SYSCALL(mount(each.target.cStr(), kj::str(kNewRoot, each.target).cStr(), nullptr,
                       MS_BIND | MS_REC, nullptr));
    }
    KJ_SYSCALL(syscall(SYS_pivot_root, kNewRoot.cStr(), kj::str(kNewRoot, kPlace).cStr()));
    clearPlace();
    clearPlace();
    return before + " " + contentOf("/name") + " " + contentOf("/var/pod/volume");
  });
  EXPECT_EQ(text, "old data new data");
}

// Catches: an upgrade without a reboot, and the one after it, of which only the first works.
TEST_F(RootMounts, SwitchesFollowEachOther) {
  auto text = withOldRoot([]() {
    for (auto turn = 0; turn < 3; ++turn) {
      mountNewRoot();
      enterNewRoot(mountsOfRoot());
    }
    return contentOf("/name") + " " + contentOf("/var/pod/volume");
  });
  EXPECT_EQ(text, "new data");
}

// Catches: a switch to an image in which a mount has no place, which stops in its middle.
TEST_F(RootMounts, APlaceThatTheImageLacksIsNamedBefore) {
  auto text = withOldRoot([]() {
    folder("/extra");
    tmpfs("/extra");
    mountNewRoot();
    auto missing = placesMissing(mountsOfRoot());
    auto failure = kj::runCatchingExceptions([] { enterNewRoot(mountsOfRoot()); });
    clearPlace();
    return std::string(kj::strArray(missing, " ").cStr()) + " " +
           (failure == nullptr ? "entered" : contentOf("/name"));
  });
  EXPECT_EQ(text, "/extra old");
}

// Catches: another process 1, or other files below an overlay, that take over unnoticed; a part
// that differs only because a mount covers it.
TEST_F(RootMounts, PartsAreComparedAsTheImagesHaveThem) {
  auto text = withOldRoot([]() {
    for (auto part : {"/var/upper", "/var/work"}) folder(part);
    KJ_SYSCALL(mount("overlay", "/opt", "overlay", 0,
                     "lowerdir=/opt,upperdir=/var/upper,workdir=/var/work"));
    write("/opt/plugin", "changed by the node");
    mountNewRoot();
    auto mounts = mountsOfRoot();
    auto differing = [&]() {
      return kj::strArray(differingParts(fixedParts(true, mounts), fixedParts(false, mounts)),
                          ", ");
    };
    auto same = differing();
    write(kj::str(kNewRoot, "/opt/plugin"), "newer");
    write(kj::str(kNewRoot, "/sbin/init"), "newer");
    return std::string(kj::str("[", same, "] [", differing(), "]").cStr());
  });
  EXPECT_EQ(text, "[] [process 1, the files of /opt]");
}

// Catches: a daemon that keeps running with a program that the new system has changed; one that is
// restarted although nothing in it has changed.
TEST_F(RootMounts, AProgramOfTheOldRootIsRecognized) {
  auto text = withOldRoot([]() {
    // The test's own program stands for a daemon: it was started from a root before the old one.
    bool isOld = runsOldFiles(getpid());
    bool isKnown = runsOldFiles(1 << 30);
    return std::string(isOld ? "old" : "kept") + (isKnown ? " known" : " ended");
  });
  EXPECT_EQ(text, "old ended");
}

}  // namespace talos::machined
