#include "talosctl/cluster/containers/image-mount.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <linux/loop.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::container {
namespace {

constexpr unsigned kAttempts = 100;  // other processes may take the free device first

[[noreturn]] void failToMount(kj::StringPtr image, kj::StringPtr what) {
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot mount ", image, ": ", what, ": ", strerror(errno)));
}

kj::AutoCloseFd attach(int file, kj::StringPtr image, kj::String& device) {
  int raw = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  if (raw < 0) failToMount(image, "/dev/loop-control");
  kj::AutoCloseFd control(raw);
  for (unsigned attempt = 0; attempt < kAttempts; ++attempt) {
    int number = ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) failToMount(image, "find a free loop device");
    device = kj::str("/dev/loop", number);
    raw = open(device.cStr(), O_RDONLY | O_CLOEXEC);
    if (raw < 0) failToMount(image, device);
    kj::AutoCloseFd loop(raw);
    loop_config config{};
    config.fd = static_cast<uint32_t>(file);
    config.info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
    if (ioctl(loop, LOOP_CONFIGURE, &config) == 0) return loop;
    if (errno != EBUSY) failToMount(image, device);
  }
  failToMount(image, "all loop devices are in use");
}

}  // namespace

void mountImage(kj::StringPtr image, kj::StringPtr folder) {
  int raw = open(image.cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0) failToMount(image, "open");
  kj::AutoCloseFd file(raw);
  mountImage(file, image, folder);
}

void mountImage(int image, kj::StringPtr name, kj::StringPtr folder) {
  kj::String device;
  auto loop = attach(image, name, device);
  if (mount(device.cStr(), folder.cStr(), "squashfs", MS_RDONLY | MS_NODEV, nullptr) < 0) {
    failToMount(name, errno == ENODEV ? "this kernel has no squashfs"_kj : device);
  }
}

void mountImageFor(int pid, int image, kj::StringPtr place, kj::StringPtr target) {
  mountImage(image, "it", place);
  int raw = open_tree(AT_FDCWD, place.cStr(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  int problem = errno;
  unmountImage(place);  // the clone keeps it
  errno = problem;
  if (raw < 0) failToMount("it", "clone the mount");
  kj::AutoCloseFd tree(raw);
  auto path = kj::str("/proc/", pid, "/ns/mnt");
  raw = open(path.cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0) failToMount("it", path);
  kj::AutoCloseFd node(raw);
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  pid_t child;
  KJ_SYSCALL(child = fork());
  if (child == 0) {
    bool good = setns(node, CLONE_NEWNS) == 0 &&
                move_mount(tree, "", AT_FDCWD, target.cStr(), MOVE_MOUNT_F_EMPTY_PATH) == 0;
    int result = good ? 0 : errno;
    auto ignored = write(writing, &result, sizeof result);
    (void)ignored;
    _exit(0);
  }
  writing = nullptr;
  int result = ECHILD;
  if (read(reading, &result, sizeof result) != sizeof result) result = ECHILD;
  waitpid(child, nullptr, 0);
  errno = result;
  if (result != 0) failToMount("it", target);
}

void unmountImage(kj::StringPtr folder) {
  umount2(folder.cStr(), MNT_DETACH | UMOUNT_NOFOLLOW);
}

}  // namespace talos::container
