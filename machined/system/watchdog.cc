#include "machined/system/watchdog.h"

#include "common/base/error.h"
#include "common/net/text-values.h"
#include "machined/process1/init/held-watchdog.h"

namespace talos::machined {

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
    bool there = false;
    KJ_IF_MAYBE (h, held) there = h->running.device == w->device;
    if (!there) {
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
