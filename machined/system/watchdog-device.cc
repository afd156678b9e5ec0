#include "machined/system/watchdog-device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::machined {

kj::AutoCloseFd KernelWatchdogs::open(kj::StringPtr device) {
  int fd = ::open(device.cStr(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd >= 0) return kj::AutoCloseFd(fd);
  int error = errno;
  if (error == ENOENT) {
    fail(ErrorKind::kNotFound, kj::str("there is no ", device,
                                       "; machine.kernel.modules loads a driver that the kernel "
                                       "does not load by itself"));
  }
  if (error == EBUSY) {
    fail(ErrorKind::kConflict, kj::str("another process has ", device, " open"));
  }
  fail(ErrorKind::kFailedPrecondition, kj::str("cannot open ", device, ": ", strerror(error)));
}

kj::String KernelWatchdogs::deviceOf(int fd) {
  char path[256];
  auto size = readlink(kj::str("/proc/self/fd/", fd).cStr(), path, sizeof(path));
  return size < 0 ? kj::String() : kj::heapString(path, static_cast<size_t>(size));
}

void KernelWatchdogs::setTimeout(int fd, unsigned seconds) {
  int value = static_cast<int>(seconds);
  if (ioctl(fd, WDIOC_SETTIMEOUT, &value) == 0) return;
  int error = errno;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("a timeout of ", seconds, "s is refused: ",
               error == EINVAL ? "the device has another range" : strerror(error)));
}

unsigned KernelWatchdogs::timeout(int fd) {
  int value = 0;
  return ioctl(fd, WDIOC_GETTIMEOUT, &value) == 0 && value > 0 ? static_cast<unsigned>(value) : 0;
}

bool KernelWatchdogs::endless(kj::StringPtr device) {
  constexpr auto kFolder = "/dev/"_kj;
  if (!device.startsWith(kFolder)) return false;
  KJ_IF_MAYBE (text, tryReadFile(kj::str(sys, "/", device.slice(kFolder.size()), "/nowayout"))) {
    return text->startsWith("1");
  }
  return false;
}

}  // namespace talos::machined
