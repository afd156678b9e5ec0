#include "talosctl/cluster/containers/image-mount.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/io.h>
#include <linux/loop.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

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

void unmountImage(kj::StringPtr folder) {
  umount2(folder.cStr(), MNT_DETACH | UMOUNT_NOFOLLOW);
}

}  // namespace talos::container
