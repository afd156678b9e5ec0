// The installer on real block devices (loop devices on files), with the system call filter and the
// capabilities that the wrapper gives it. Needs root.
#include "machined/disk/installer/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <linux/blkpg.h>
#include <linux/capability.h>
#include <linux/loop.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/disk/gpt.h"
#include "common/disk/volume-labels.h"
#include "common/testing/provided.h"
#include "common/testing/sanitizers.h"
#include "common/testing/test-tree.h"
#include "machined/confined/sandbox/seccomp.h"
#include "machined/disk/installer/boot-slot-writer.h"
#include "machined/disk/installer/locked-disk.h"
#include "machined/disk/installer/synced-file.h"
#include "machined/disk/installer/system-disk-erasure.h"
#include "machined/disk/installer/system-installation.h"
#include "machined/disk/installer/user-disk-formatter.h"
#include "machined/disk/installer/volume-partitions.h"

namespace talos::install {
namespace {

using testing::HasSubstr;

// Gives the partitions to a kernel that reads no GPT, like that of some build machines.
void showPartitions(kj::StringPtr disk) {
  kj::AutoCloseFd fd(open(disk.cStr(), O_RDONLY | O_CLOEXEC));
  constexpr unsigned kSector = 512;
  auto read = [&](uint64_t offset, size_t size) {
    auto bytes = kj::heapArray<kj::byte>(size);
    KJ_SYSCALL(pread(fd, bytes.begin(), size, static_cast<off_t>(offset)));
    return kj::Array<const kj::byte>(kj::mv(bytes));
  };
  KJ_IF_MAYBE (table, gpt::read(read, kSector)) {
    for (auto i : kj::indices(table->partitions)) {
      auto& partition = table->partitions[i];
      struct blkpg_partition part = {};
      part.start = static_cast<long long>(partition.first * kSector);
      part.length = static_cast<long long>((partition.last - partition.first + 1) * kSector);
      part.pno = static_cast<int>(i + 1);
      struct blkpg_ioctl_arg ask = {BLKPG_ADD_PARTITION, 0, sizeof part, &part};
      if (ioctl(fd, BLKPG, &ask) != 0) {
        KJ_REQUIRE(errno == EBUSY, "BLKPG", disk, i);
      }
    }
  }
}

class LoopDisk {
 public:
  explicit LoopDisk(kj::String file, uint64_t size = 2048 * kMiB) {
    kj::AutoCloseFd content(open(file.cStr(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    KJ_SYSCALL(ftruncate(content, static_cast<off_t>(size)));
    kj::AutoCloseFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    for (unsigned tries = 0; tries < 100; ++tries) {
      int number;
      KJ_SYSCALL(number = ioctl(control, LOOP_CTL_GET_FREE));
      path = kj::str("/dev/loop", number);
      int raw = open(path.cStr(), O_RDWR | O_CLOEXEC);
      if (raw < 0) continue;  // another process has removed it again
      fd = kj::AutoCloseFd(raw);
      loop_config config{};
      config.fd = static_cast<__u32>(content.get());
      config.info.lo_flags = LO_FLAGS_PARTSCAN;
      if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) return;
      if (errno != EBUSY) KJ_FAIL_SYSCALL("LOOP_CONFIGURE", errno, path);
    }
    KJ_FAIL_REQUIRE("all loop devices are in use");
  }
  ~LoopDisk() noexcept(false) { ioctl(fd, LOOP_CLR_FD); }
  KJ_DISALLOW_COPY_AND_MOVE(LoopDisk);

  kj::String path;
  kj::String node(unsigned partition) const { return partitionNode(path, partition); }
  std::string begin(kj::StringPtr device, size_t size) {
    showPartitions(path);
    kj::AutoCloseFd in(open(device.cStr(), O_RDONLY | O_CLOEXEC));
    std::string bytes(size, 0);
    KJ_SYSCALL(pread(in, bytes.data(), size, 0), device);
    return bytes;
  }

 private:
  kj::AutoCloseFd fd;
};

void keepRightsOfInstaller() {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {};
  data[0].permitted = data[0].effective = data[0].inheritable = 1u << CAP_SYS_ADMIN;
  KJ_SYSCALL(syscall(SYS_capset, &header, data));
  KJ_SYSCALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  confine::installFilter("installer", nullptr);
}

// The real confinement, on the kernel of the test.
class OnThisKernel final : public Confinement {
 public:
  explicit OnThisKernel(kj::StringPtr disk) : disk(disk) {}
  void enter(StepKind kind, confine::LandlockPaths paths) override {
    real.enter(kind, kj::mv(paths));
  }
  kj::String step(kj::Function<kj::String(Confinement&)> body) override {
    auto result = real.step(kj::mv(body));
    showPartitions(disk);
    return result;
  }

 private:
  kj::StringPtr disk;
  RealConfinement real;
};

// Runs `body` like the program: in a new process with these rights. Returns the result, or the
// error.
std::string asInstaller(const LoopDisk& disk, kj::Function<kj::String(Confinement&)> body) {
  std::string result;
  auto run = [&](Confinement&) {
    keepRightsOfInstaller();
    OnThisKernel confinement(disk.path);
    return body(confinement);
  };
  RealConfinement outer;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { result = outer.step(kj::mv(run)).cStr(); })) {
    result = messageOf(*e).cStr();
  }
  return result;
}

bool isThere(kj::StringPtr device) {
  return access(device.cStr(), F_OK) == 0;
}

bool kernelHas(const std::string& fileSystem) {
  std::string known = readFile("/proc/filesystems").cStr();
  return known.find("\t" + fileSystem + "\n") != std::string::npos;
}

struct InstallerOnLoop : testing::Test {
  machined::TestTree tree;
  std::string said;
  Say say = [this](kj::StringPtr line) { said += std::string(line.cStr()) + "; "; };
  System system{.folder = nullptr, .image = nullptr, .arch = "amd64"_kj};
  kj::String folder = tree.at("install");

  ~InstallerOnLoop() noexcept override {}
  void SetUp() override {
    ASSERT_EQ(0u, getuid()) << "these tests need root";
    if (kSanitized) GTEST_SKIP() << "a program with sanitizers needs more calls";
    TALOS_NEEDS(isThere("/dev/loop-control"), "loop-devices", "there are no loop devices");
    tree.directory("install");
    for (auto name : {"vmlinuz"_kj, "initramfs"_kj, "BOOTX64.EFI"_kj}) {
      tree.file(kj::str("install/", name), kj::str("the file ", name));
    }
    tree.file("install/boot.img", std::string(512, 'b').c_str());
    tree.file("install/core.img", std::string(4096, 'c').c_str());
    tree.file("root.sqsh", "hsqs the system");
    system.folder = folder;
    system.image = tree.at("root.sqsh");
  }
  std::string installOn(LoopDisk& disk, InstallOptions options = {}) {
    options.disk = disk.path;
    options.arguments = "a=1";
    return asInstaller(disk, [&](Confinement& confinement) {
      return kj::str(write(kj::mv(options), system, say, confinement) ? "written" : "left");
    });
  }
  // Installs the program of a BIOS and the names; also EFI if the test's kernel has its file
  // system.
  std::string finishOn(LoopDisk& disk) { return finishOn(disk, kernelHas("vfat")); }
  std::string finishOn(LoopDisk& disk, bool bootLoader) {
    return asInstaller(disk, [&](Confinement& confinement) {
      finish(disk.path, bootLoader, system, say, confinement);
      return kj::str("finished");
    });
  }
};

// Catches: a system call, a file or a device that an installation needs and that its filter or its
// steps refuse; an installer that takes an installed disk for an empty one.
TEST_F(InstallerOnLoop, InstallsUnderItsFilter) {
  TALOS_NEEDS(kernelHas("xfs"), "xfs", "a kernel without XFS");
  LoopDisk disk(tree.at("disk"));
  LoopDisk image(tree.at("image"), kMiB);  // as the root of a machine is one
  system.image = kj::str(image.path);
  ASSERT_EQ(installOn(disk), "written");
  EXPECT_EQ(disk.begin(disk.node(3), 4), "XFSB");
  EXPECT_EQ(finishOn(disk), "finished");
  EXPECT_EQ(finishOn(disk), "finished") << "again, it changes nothing";
  EXPECT_EQ(asInstaller(disk,
                        [&](Confinement& confinement) {
                          auto found = readSlotsOf(disk.node(3), confinement);
                          return kj::str(nameOf(found.state.confirmed), found.systems.size());
                        }),
            "A1");
  EXPECT_THAT(installOn(disk), HasSubstr("it holds an installed node"));
  InstallOptions wipe;
  wipe.wipe = true;
  EXPECT_EQ(installOn(disk, kj::mv(wipe)), "written");
}

// Catches: a machine that is made startable although machine.install.bootloader is false, or not
// although it is true.
TEST_F(InstallerOnLoop, TheBootLoaderIsWrittenWhenItIsWanted) {
  TALOS_NEEDS(kernelHas("xfs") && kernelHas("vfat"), "xfs", "a kernel without XFS or FAT");
  for (bool bootLoader : {false, true}) {
    LoopDisk disk(tree.at(bootLoader ? "with" : "without"));
    ASSERT_EQ(installOn(disk), "written");
    EXPECT_EQ(finishOn(disk, bootLoader), "finished");
    // Without a boot loader a BIOS continues with the next device, by its interrupt 18h.
    EXPECT_EQ(disk.begin(disk.path, 2), bootLoader ? "bb" : "\xCD\x18");
  }
}

// Catches: content of the disk that the decision does not consider.
TEST_F(InstallerOnLoop, WhatWasFoundIsKept) {
  LoopDisk disk(tree.at("disk"));
  InstallOptions options;
  options.found.volumes.add(machined::FoundOnDisk::Volume{kj::str("ext4"), kj::str("photos")});
  EXPECT_THAT(installOn(disk, kj::mv(options)), HasSubstr("it holds ext4 \"photos\""));
  EXPECT_TRUE(disk.begin(disk.path, 1024) == std::string(1024, 0));
}

// Catches: the same for a disk of the user, and for the requests about one partition.
TEST_F(InstallerOnLoop, DividesAndFormats) {
  LoopDisk disk(tree.at("disk"));
  uint64_t sizes[] = {400 * kMiB, 0};
  auto divided = [&]() {
    return asInstaller(disk, [&](Confinement& confinement) {
      return kj::str(divide(disk.path, sizes, {}, say, confinement) ? "divided" : "left");
    });
  };
  EXPECT_EQ(divided(), "divided");
  EXPECT_EQ(disk.begin(disk.node(2), 4), "XFSB");
  EXPECT_EQ(divided(), "left");
  auto formatted = [&]() {
    return asInstaller(disk, [&](Confinement& confinement) {
      format(disk.node(1), "DATA", kMiB, confinement);
      return kj::str("formatted");
    });
  };
  EXPECT_THAT(formatted(), HasSubstr("is not empty"));
  EXPECT_EQ(asInstaller(disk,
                        [&](Confinement& confinement) {
                          clearHead(disk.node(1), kMiB, confinement);
                          return kj::str("clear");
                        }),
            "clear");
  EXPECT_EQ(formatted(), "formatted");
}

// Volumes of documents on a disk.
struct VolumesOnLoop : InstallerOnLoop {
  kj::Own<LoopDisk> held;

  ~VolumesOnLoop() noexcept override {}
  void SetUp() override {
    InstallerOnLoop::SetUp();
    if (!IsSkipped()) held = kj::heap<LoopDisk>(tree.at("disk"), 64 * kMiB);
  }

  std::string add(kj::StringPtr name, uint64_t offset, uint64_t size, kj::StringPtr foreign = "",
                  bool swap = false) {
    return asInstaller(*held, [&](Confinement& confinement) {
      machined::FoundOnDisk found;
      if (foreign.size() > 0) {
        found.volumes.add(machined::FoundOnDisk::Volume{kj::str(foreign), kj::str("photos")});
      }
      addPartition(held->path, {.name = name, .offset = offset, .size = size, .swap = swap},
                   kj::mv(found), say, confinement);
      return kj::str("added");
    });
  }
  std::string finish(kj::StringPtr name) {
    return asInstaller(*held, [&](Confinement& confinement) {
      finishPartition(held->path, name, confinement);
      return kj::str("finished");
    });
  }
  std::string grow(kj::StringPtr name, uint64_t size) {
    return asInstaller(*held, [&](Confinement& confinement) {
      return kj::str(growPartition(held->path, name, size, confinement) ? "grown" : "left");
    });
  }
  std::string names() {
    std::string all;
    auto table = Disk(held->path, Disk::Use::kShared).table();
    for (auto& p : KJ_ASSERT_NONNULL(table).partitions) {
      all += kj::str(p.name, (p.attributes & kUnfinishedVolume) != 0 ? "? " : " ").cStr();
    }
    return all;
  }
  void write(uint64_t offset, kj::StringPtr text) {
    auto sector = kj::heapArray<kj::byte>(512);
    memset(sector.begin(), 0, sector.size());
    memcpy(sector.begin(), text.begin(), text.size());
    Disk(held->path, Disk::Use::kShared).write(offset, sector);
  }
  bool isEmpty(uint64_t offset) {
    return isZero(Disk(held->path, Disk::Use::kShared).read(offset, 4096));
  }
};

// Catches: a missing right; a partition that the kernel does not show while another one is in use;
// remains of an earlier owner in a new volume; a volume with data that is emptied.
TEST_F(VolumesOnLoop, AreMadeBesideThoseInUseAndNeverEmptiedLater) {
  write(18 * kMiB, "remains");
  EXPECT_EQ("added", add("u-a", 2 * kMiB, 20 * kMiB));
  EXPECT_EQ("u-a? ", names());
  EXPECT_TRUE(isEmpty(18 * kMiB));
  write(2 * kMiB, "half a file system");
  EXPECT_EQ("added", add("u-a", 2 * kMiB, 20 * kMiB)) << "after a cut";
  EXPECT_TRUE(isEmpty(2 * kMiB));
  EXPECT_EQ("finished", finish("u-a"));
  EXPECT_EQ("finished", finish("u-a"));
  EXPECT_EQ("u-a ", names());
  auto refusal =
      held->path.cStr() + std::string(" cannot be used: it has the finished volume u-a already");
  EXPECT_EQ(refusal, add("u-a", 2 * kMiB, 20 * kMiB)) << "an empty one, too";
  write(2 * kMiB, "data");
  EXPECT_EQ(refusal, add("u-a", 2 * kMiB, 20 * kMiB));

  showPartitions(held->path);
  kj::AutoCloseFd inUse(open(held->node(1).cStr(), O_RDONLY | O_CLOEXEC));
  ASSERT_GE(inUse.get(), 0);
  EXPECT_EQ("added", add("u-b", 30 * kMiB, 5 * kMiB));
  EXPECT_TRUE(isThere(held->node(2)));
  EXPECT_EQ("finished", finish("u-b"));
  EXPECT_EQ("u-a u-b ", names());
  EXPECT_EQ("grown", grow("u-b", 12 * kMiB));
  EXPECT_EQ("left", grow("u-b", 12 * kMiB));
  EXPECT_EQ(12 * kMiB, sizeOf(openFile(held->node(2))));
  EXPECT_FALSE(isEmpty(2 * kMiB));
}

TEST_F(VolumesOnLoop, DiskOfOthersIsNotWritten) {
  auto refusal = held->path.cStr() + std::string(" cannot be used: it holds ");
  EXPECT_EQ(refusal + "ext4 \"photos\"", add("u-a", 2 * kMiB, kMiB, "ext4"));
  write(0, "unknown");
  EXPECT_EQ(refusal + "data of an unknown kind", add("u-a", 2 * kMiB, kMiB));
  EXPECT_TRUE(isEmpty(kMiB));
  write(0, "");
  write(8 * kMiB, "data");
  EXPECT_EQ(refusal + "data of an unknown kind", add("u-a", 2 * kMiB, kMiB));
  EXPECT_TRUE(isEmpty(0));
}

// Catches: an empty disk that belongs to another program.
TEST_F(VolumesOnLoop, DiskInUseIsNotDivided) {
  kj::AutoCloseFd inUse(open(held->path.cStr(), O_RDONLY | O_CLOEXEC | O_EXCL));
  ASSERT_GE(inUse.get(), 0);
  EXPECT_EQ(held->path.cStr() + std::string(" cannot be used: it is in use: something on it is "
                                            "mounted, or it is part of another device"),
            add("u-a", 2 * kMiB, kMiB));
  EXPECT_TRUE(isEmpty(0));
}

TEST_F(VolumesOnLoop, SwapIsMadeOnAPartition) {
  auto make = [&](unsigned number) {
    return asInstaller(*held, [&](Confinement& confinement) {
      makeSwap(held->node(number), confinement);
      return kj::str("made");
    });
  };
  EXPECT_EQ("added", add("s-a", 2 * kMiB, 20 * kMiB, "", true));
  EXPECT_EQ("added", add("s-b", 22 * kMiB, 2 * kMiB));
  showPartitions(held->path);
  EXPECT_EQ("made", make(1));
  EXPECT_EQ("made", make(1)) << "again, after a boot";
  EXPECT_EQ("SWAPSPACE2", held->begin(held->node(1), 4096).substr(4096 - 10));
  EXPECT_EQ(held->node(2).cStr() +
                std::string(" cannot be used as swap: its partition \"s-b\" is not one for swap"),
            make(2));
  write(2 * kMiB + 4096 - 512, "data");
  EXPECT_NE(std::string::npos, make(1).find("is not empty and holds no swap"));
}

// Catches: a missing right for a reset, or for a disk that has grown.
TEST_F(InstallerOnLoop, ErasesAndGrows) {
  TALOS_NEEDS(kernelHas("xfs"), "xfs", "a kernel without XFS");
  LoopDisk disk(tree.at("disk"));
  ASSERT_EQ(installOn(disk), "written");
  ASSERT_EQ(finishOn(disk), "finished");
  EXPECT_EQ(asInstaller(disk,
                        [&](Confinement& confinement) {
                          return kj::str(grow(disk.path, {}, confinement) ? "grown" : "left");
                        }),
            "grown");
  EXPECT_EQ(
      asInstaller(disk,
                  [&](Confinement& confinement) {
                    kj::StringPtr labels[] = {"BOOT"_kj, "EFI"_kj, "EPHEMERAL"_kj};
                    return kj::str(erase(disk.path, labels, say, confinement) ? "erased" : "left");
                  }),
      "erased");
  EXPECT_EQ(disk.begin(disk.node(6), 4), std::string(4, 0));
}

// Tries everything that a compromised step might try; returns the names of successful attempts.
kj::String possible(kj::StringPtr otherDisk) {
  kj::Vector<kj::StringPtr> works;
  auto attempt = [&](kj::StringPtr name, long result) {
    if (result >= 0) works.add(name);
  };
  attempt("disk", open(otherDisk.cStr(), O_RDONLY | O_CLOEXEC));
  attempt("disk-write", open(otherDisk.cStr(), O_WRONLY | O_CLOEXEC));
  attempt("passwd", open("/etc/passwd", O_RDONLY | O_CLOEXEC));
  attempt("root", open("/", O_RDONLY | O_CLOEXEC));
  attempt("create", open("/tmp/installer-step", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  attempt("environ", open("/proc/1/environ", O_RDONLY | O_CLOEXEC));
  attempt("mount", mount("none", "/tmp", "tmpfs", 0, nullptr));
  attempt("umount", umount2("/proc", MNT_DETACH));
  bool module = syscall(SYS_finit_module, 0, "", 0) == 0 || (errno != EPERM && errno != ENOSYS);
  attempt("module", module ? 0 : -1);
  attempt("signal", kill(getppid(), 0));
  attempt("limits", prlimit(getppid(), RLIMIT_CPU, nullptr, nullptr));
  attempt("socket", socket(AF_UNIX, SOCK_STREAM, 0));
  attempt("chroot", chroot("/tmp"));
  char* argv[] = {const_cast<char*>("/usr/bin/env"), nullptr};
  attempt("exec", execve(argv[0], argv, argv + 1));
  return kj::strArray(works, " ");
}

// Catches: a step, compromised by a disk, that reaches another disk, the node's files, or the
// kernel.
TEST_F(InstallerOnLoop, AStepReachesItsDiskAndNothingElse) {
  TALOS_NEEDS(confine::Landlock::version() >= 6, "landlock-6",
              "this kernel does not restrict as much");
  LoopDisk own(tree.at("own")), other(tree.at("other"));
  auto tried = [&](StepKind kind, kj::Function<confine::LandlockPaths()> paths) {
    return asInstaller(own, [&](Confinement& confinement) {
      return confinement.step([&](Confinement& inner) {
        inner.enter(kind, paths());
        return possible(other.path);
      });
    });
  };
  auto none = []() { return confine::LandlockPaths(); };
  EXPECT_EQ(tried(StepKind::kFiles, none), "");
  EXPECT_EQ(tried(StepKind::kDisk, none), "");
  EXPECT_EQ(tried(StepKind::kDisk,
                  [&]() {
                    kj::String nodes[] = {kj::str(own.path)};
                    return pathsToFormat(nodes);
                  }),
            "");
  EXPECT_EQ(asInstaller(own,
                        [&](Confinement& confinement) {
                          kj::String nodes[] = {kj::str(own.path)};
                          confinement.enter(StepKind::kDisk, pathsToFormat(nodes));
                          return kj::str(open(own.path.cStr(), O_RDWR | O_CLOEXEC) >= 0);
                        }),
            "true")
      << "its own disk is not among that";
}

// Catches: an error of a step that loses its kind or its text; a step that outlives the installer;
// a crash that counts as a result.
TEST_F(InstallerOnLoop, TheResultOfAStep) {
  RealConfinement confinement;
  EXPECT_EQ(confinement.step([](Confinement&) { return kj::str("a\nb"); }), "a\nb");
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 confinement.step([](Confinement&) -> kj::String {
                   fail(ErrorKind::kNotFound, "there is no disk x");
                 });
               })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kNotFound);
    EXPECT_EQ(messageOf(*e), "there is no disk x");
  } else {
    ADD_FAILURE() << "no error";
  }
  for (bool kills : {true, false}) {
    auto failure = kj::runCatchingExceptions([&]() {
      confinement.step([&](Confinement&) -> kj::String {
        if (kills) kill(getpid(), SIGKILL);
        _exit(0);
      });
    });
    EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
                HasSubstr(kills ? "killed by signal 9" : "without a result"));
  }
  auto failure = kj::runCatchingExceptions(
      [&]() { confinement.step([](Confinement&) { return kj::heapString(1 << 20); }); });
  EXPECT_NE(failure, nullptr) << "as much as it likes";
}

}  // namespace
}  // namespace talos::install
