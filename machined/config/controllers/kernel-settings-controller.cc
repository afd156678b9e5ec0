#include "machined/config/controllers/kernel-settings-controller.h"

#include "common/base/error.h"
#include "machined/config/controllers/machine-config-reader.h"

namespace talos::machined {

kj::Array<Controller::Input> KernelSettingsController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
}

kj::Promise<void> KernelSettingsController::reconcile(Store& store) {
  if (!settings.begun()) return kj::READY_NOW;
  KJ_IF_MAYBE (wanted, read(store)) return follow(kj::mv(*wanted));
  return kj::READY_NOW;
}

kj::Promise<void> KernelSettingsController::follow(WantedKernel wanted) {
  auto problems = co_await uv.blocking(
      [&settings = settings, wanted = kj::mv(wanted)]() { return settings.apply(wanted); });
  for (auto& p : problems.news) warn(p);
  if (problems.retry) fail(ErrorKind::kFailedPrecondition, kj::strArray(problems.list, "\n"));
}

kj::Own<Controller> kernelSettingsController(ControllerDependencies& deps) {
  return kj::heap<KernelSettingsController>(
      deps.uv, deps.kernel,
      [&config = deps.config](Store& store) { return config.tryMachine(store).map(wantedKernel); },
      [&deps](kj::StringPtr problem) { deps.warn(problem); });
}

kj::Promise<kj::Array<kj::String>> applyKernelSettings(ControllerDependencies& deps, Store& store) {
  if (!deps.kernel.begun()) {
    fail(ErrorKind::kUnavailable, "the boot has not set kernel parameters yet");
  }
  WantedKernel wanted;
  KJ_IF_MAYBE (machine, deps.config.tryMachine(store)) wanted = wantedKernel(*machine);
  auto problems = co_await deps.uv.blocking(
      [&settings = deps.kernel, wanted = kj::mv(wanted)]() { return settings.apply(wanted); });
  for (auto& problem : problems.news) deps.warn(problem);
  kj::Maybe<WantedWatchdog> watchdog;
  KJ_IF_MAYBE (machine, deps.config.tryMachine(store)) watchdog = wantedWatchdog(*machine);
  co_await deps.watchdog.apply(kj::mv(watchdog)).catch_([&problems](kj::Exception&& e) {
    problems.list.add(kj::str("machine.watchdog: ", messageOf(e)));
  });
  co_return problems.list.releaseAsArray();
}

}  // namespace talos::machined
