#include "machined/config/controllers/sysctl-controller.h"

#include "common/base/error.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/controllers/machine-config-reader.h"

namespace talos::machined {

kj::Array<Controller::Input> SysctlController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
}

kj::Promise<void> SysctlController::reconcile(Store& store) {
  if (!sysctls.begun()) return kj::READY_NOW;
  KJ_IF_MAYBE (wanted, read(store)) return follow(kj::mv(*wanted));
  return kj::READY_NOW;
}

kj::Promise<void> SysctlController::follow(kj::Vector<WantedSysctl> wanted) {
  auto problems = co_await uv.blocking(
      [&sysctls = sysctls, wanted = kj::mv(wanted)]() { return sysctls.apply(wanted); });
  if (problems.news) {
    for (auto& p : problems.list) warn(p);
  }
  if (!problems.list.empty())
    fail(ErrorKind::kFailedPrecondition, kj::strArray(problems.list, "\n"));
}

kj::Own<Controller> sysctlController(ControllerDependencies& deps) {
  return kj::heap<SysctlController>(
      deps.uv, deps.sysctls,
      [&config = deps.config](Store& store) { return config.tryMachine(store).map(wantedSysctls); },
      [&deps](kj::StringPtr problem) { deps.warn(problem); });
}

kj::Promise<kj::Array<kj::String>> applySysctls(ControllerDependencies& deps, Store& store) {
  if (!deps.sysctls.begun()) {
    fail(ErrorKind::kUnavailable, "the boot has not set kernel parameters yet");
  }
  kj::Vector<WantedSysctl> wanted;
  KJ_IF_MAYBE (machine, deps.config.tryMachine(store)) wanted = wantedSysctls(*machine);
  auto problems = co_await deps.uv.blocking(
      [&sysctls = deps.sysctls, wanted = kj::mv(wanted)]() { return sysctls.apply(wanted); });
  if (problems.news) {
    for (auto& problem : problems.list) deps.warn(problem);
  }
  co_return problems.list.releaseAsArray();
}

}  // namespace talos::machined
