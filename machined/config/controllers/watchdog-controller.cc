#include "machined/config/controllers/watchdog-controller.h"

#include "common/base/error.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/feature-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr auto kTimerId = "timer"_kj;
constexpr auto kFeedInterval = "1s"_kj;  // a tick of process 1

// Formats a duration as in resources of Talos: "1m0s".
kj::String durationOf(unsigned seconds) {
  if (seconds < 60) return kj::str(seconds, "s");
  auto below = kj::str(seconds / 60 % 60, "m", seconds % 60, "s");
  return seconds < 3600 ? kj::mv(below) : kj::str(seconds / 3600, "h", below);
}

}  // namespace

kj::Array<Controller::Input> WatchdogTimerController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
}
kj::Array<kj::StringPtr> WatchdogTimerController::outputs() const {
  return typeNames<rpc::WatchdogTimerConfigSpec, rpc::WatchdogTimerStatusSpec>();
}

kj::Promise<void> WatchdogTimerController::reconcile(Store& store) {
  // Before the config is known, a device of the predecessor continues as it is.
  auto config = read(store);
  if (config == nullptr) co_return;
  auto& wanted = KJ_ASSERT_NONNULL(config);
  auto copy =
      wanted.map([](WantedWatchdog& w) { return WantedWatchdog{kj::str(w.device), w.seconds}; });
  kj::Maybe<kj::Exception> failed;
  try {
    co_await watchdog.apply(kj::mv(copy));
  } catch (...) {
    failed = kj::getCaughtExceptionAsKj();
  }
  write(store, wanted.map([](WantedWatchdog& w) -> const WantedWatchdog& { return w; }));
  kj::Vector<kj::String> problems;
  KJ_IF_MAYBE (e, failed) problems.add(kj::str("machine.watchdog: ", messageOf(*e)));
  auto report = last.report(kj::mv(problems), true);
  if (report.news) {
    for (auto& problem : report.list) warn(problem);
  }
  KJ_IF_MAYBE (e, failed) {
    // A driver may be loaded later.
    if (kindOf(*e) != ErrorKind::kUnimplemented) kj::throwFatalException(kj::mv(*e));
  }
}

void WatchdogTimerController::write(Store& store, kj::Maybe<const WantedWatchdog&> wanted) {
  Outputs<rpc::WatchdogTimerConfigSpec> configs(name());
  KJ_IF_MAYBE (w, wanted) {
    auto spec = configs.add(kTimerId);
    spec.setDevice(w->device);
    spec.setTimeout(durationOf(w->seconds));
  }
  configs.apply(store);
  Outputs<rpc::WatchdogTimerStatusSpec> statuses(name());
  KJ_IF_MAYBE (running, watchdog.running()) {
    auto spec = statuses.add(kTimerId);
    spec.setDevice(running->device);
    spec.setTimeout(durationOf(running->seconds));
    spec.setFeedInterval(kFeedInterval);
  }
  statuses.apply(store);
}

kj::Own<Controller> watchdogTimerController(ControllerDependencies& deps) {
  return kj::heap<WatchdogTimerController>(
      deps.watchdog,
      [&config = deps.config](Store& store) {
        return config.tryMachine(store).map(wantedWatchdog);
      },
      [&deps](kj::StringPtr problem) { deps.warn(problem); });
}

}  // namespace talos::machined
