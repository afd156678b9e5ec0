#include "machined/system/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/text-values.h"
#include "machined/process1/init/held-watchdog.h"

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

constexpr kj::Duration kDefaultTimeout = 60 * kj::SECONDS;

kj::Maybe<WantedWatchdog> wantedWatchdog(config::Machine::Reader machine) {
  auto watchdog = machine.getWatchdog();
  if (watchdog.getDevice().size() == 0) return nullptr;
  auto timeout = config::parseDuration(watchdog.getTimeout()).orDefault(kDefaultTimeout);
  return WantedWatchdog{kj::str(watchdog.getDevice()), unsigned(timeout / kj::SECONDS)};
}

kj::Maybe<const Watchdog::Running&> Watchdog::running() const {
  KJ_IF_MAYBE (h, held) return h->running;
  return nullptr;
}

kj::Promise<void> Watchdog::apply(kj::Maybe<WantedWatchdog> wanted) {
  auto done = kj::newPromiseAndFulfiller<void>();
  auto before = last.addBranch();
  last = done.promise.fork();
  KJ_DEFER(done.fulfiller->fulfill());
  co_await before;
  co_await follow(kj::mv(wanted));
}

kj::Promise<void> Watchdog::follow(kj::Maybe<WantedWatchdog> wanted) {
  if (scope != KernelScope::kAll) {
    if (wanted == nullptr) co_return;
    fail(ErrorKind::kUnimplemented,
         "not used, because this node is a container and the kernel is its host's");
  }
  co_await recover();
  KJ_IF_MAYBE (w, wanted) {
    bool isHeld = false;
    KJ_IF_MAYBE (h, held) isHeld = h->running.device == w->device;
    if (!isHeld) {
      co_await stop();
      co_await start(kj::str(w->device));
    }
    co_await setTimeout(w->seconds);
  } else {
    co_await stop();
  }
}

// Restores the predecessor's device.
kj::Promise<void> Watchdog::recover() {
  if (recovered) co_return;
  recovered = true;
  KJ_IF_MAYBE (fd, process1.takeHeld(process1::kWatchdog)) {
    auto found = co_await uv.blocking([&devices = devices, fd = fd->get()] {
      return Running{devices.deviceOf(fd), devices.timeout(fd)};
    });
    held = Held{kj::mv(*fd), kj::mv(found)};
  }
}

kj::Promise<void> Watchdog::stop() {
  KJ_IF_MAYBE (h, held) {
    bool endless = co_await uv.blocking([&devices = devices, device = kj::str(h->running.device)] {
      return devices.endless(device);
    });
    if (endless) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("the driver of ", h->running.device,
                   " does not let it be stopped (nowayout); it is fed until the machine restarts"));
    }
    // Process 1 then has the last descriptor, and stops the device when it closes it.
    held = nullptr;
    co_await process1.drop(process1::kWatchdog);
  }
}

kj::Promise<void> Watchdog::start(kj::String device) {
  auto opened = co_await uv.blocking(
      [&devices = devices, device = kj::str(device)] { return devices.open(device); });
  co_await process1.hold(process1::kWatchdog,
                         opened.get());  // the device runs: feed it before anything else
  auto seconds =
      co_await uv.blocking([&devices = devices, fd = opened.get()] { return devices.timeout(fd); });
  held = Held{kj::mv(opened), {kj::mv(device), seconds}};
}

kj::Promise<void> Watchdog::setTimeout(unsigned seconds) {
  auto& h = KJ_ASSERT_NONNULL(held);
  if (h.running.seconds == seconds) co_return;
  auto refused = co_await uv.blocking([&devices = devices, fd = h.fd.get(), seconds] {
    return kj::runCatchingExceptions([&] { devices.setTimeout(fd, seconds); });
  });
  h.running.seconds =
      co_await uv.blocking([&devices = devices, fd = h.fd.get()] { return devices.timeout(fd); });
  KJ_IF_MAYBE (e, refused) {
    fail(kindOf(*e),
         kj::str(h.running.device, ": ", messageOf(*e), "; it has ", h.running.seconds, "s now"));
  }
}

}  // namespace talos::machined
