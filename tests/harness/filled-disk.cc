#include "tests/harness/filled-disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "tests/harness/process.h"

namespace talos::harness {
namespace {

constexpr uintmax_t kDiskSize = 320u << 20;
constexpr uintmax_t kAvailablePercent = 2;
constexpr double kDiskDeadline = 300;  // s

void expectDone(const std::vector<std::string>& words) {
  auto result = run(words, kDiskDeadline);
  EXPECT_EQ(result.status, 0) << words[0] << ": " << result.out << result.err;
}

}  // namespace

void inMountsOf(pid_t pid, const std::function<int()>& work) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int fd = open(("/proc/" + std::to_string(pid) + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC);
    _exit(fd < 0 || setns(fd, CLONE_NEWNS) < 0 || work() < 0 ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

FilledDisk::FilledDisk(const std::string& folder, pid_t node)
    : image(folder + "/disk"), node(node) {
  auto mounted = folder + "/mounted";
  std::filesystem::create_directories(mounted);
  std::ofstream(image).close();
  std::filesystem::resize_file(image, kDiskSize);
  expectDone({"mkfs.xfs", "-q", image});
  expectDone({"mount", "-o", "loop", image, mounted});
  auto space = std::filesystem::space(mounted);
  auto filled = space.available - space.capacity * kAvailablePercent / 100;
  expectDone({"fallocate", "-l", std::to_string(filled), mounted + "/file"});
  int tree = open_tree(AT_FDCWD, mounted.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  EXPECT_GE(tree, 0);
  expectDone({"umount", mounted});
  inMountsOf(node, [&] {
    mkdir(kMountedOn, 0700);
    return move_mount(tree, "", AT_FDCWD, kMountedOn, MOVE_MOUNT_F_EMPTY_PATH);
  });
  close(tree);
}

FilledDisk::~FilledDisk() {
  inMountsOf(node, [] { return umount2(kMountedOn, MNT_DETACH) < 0 ? -1 : rmdir(kMountedOn); });
  std::error_code ignored;
  std::filesystem::remove(image, ignored);
}

}  // namespace talos::harness
