#include "machined/config/controllers/time-status-controller.h"

#include "common/base/fill-list.h"
#include "common/net/text-values.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kTimeServersId = "timeservers"_kj;
constexpr kj::StringPtr kId = "node"_kj;
constexpr kj::StringPtr kDefaultServer = "pool.ntp.org"_kj;

// Returns the time servers of DHCP, or the default, from the specs.
kj::Array<kj::String> defaultServers(Store& store) {
  KJ_IF_MAYBE (spec, store.tryGet<rpc::TimeServerSpecSpec>(kTimeServersId)) {
    if (spec->getTimeServers().size() > 0) return textsOf(spec->getTimeServers());
  }
  return kj::arr(kj::str(kDefaultServer));
}

kj::Array<kj::String> serversOf(config::Config::Reader config, Store& store) {
  auto servers = config.getMachine().getTime().getServers();
  return servers.size() == 0 ? defaultServers(store) : textsOf(servers);
}

bool timedIsHealthy(Store& store) {
  KJ_IF_MAYBE (service, store.tryGet<rpc::ServiceSpec>("timed")) return service->getHealthy();
  return false;
}

uint64_t storedEpoch(Store& store) {
  KJ_IF_MAYBE (stored, store.tryGet<rpc::TimeStatusSpec>(kId)) return stored->getEpoch();
  return 0;
}

}  // namespace

kj::Array<Controller::Input> TimeStatusController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::ServiceSpec>("timed"),
                 input<rpc::TimeServerSpecSpec>(kTimeServersId));
}
kj::Array<kj::StringPtr> TimeStatusController::outputs() const {
  return typeNames<rpc::TimeStatusSpec>();
}

kj::Promise<void> TimeStatusController::reconcile(Store& store) {
  if (stepsBefore == nullptr) stepsBefore = storedEpoch(store);
  auto config = deps.readConfig(store);
  bool disabled = deps.container;
  kj::StringPtr missing;
  KJ_IF_MAYBE (c, config) {
    auto timeout = config::parseDuration(c->getMachine().getTime().getBootTimeout());
    deps.setBootTimeout(timeout.orDefault(0 * kj::SECONDS));
    disabled = disabled || c->getMachine().getTime().getDisabled();
    if (disabled) {
      deps.leaveAlone(deps.container ? "the clock is the host's"_kj : "machine.time.disabled"_kj);
    } else {
      deps.keepTime(serversOf(*c, store));
    }
  } else {
    missing = "no machine config yet";
    if (deps.beforeConfig && !deps.container) deps.keepTime(defaultServers(store));
  }

  auto seen = deps.seen();
  Outputs<rpc::TimeStatusSpec> outputs(name());
  auto spec = outputs.add(kId);
  spec.setSyncDisabled(disabled);
  spec.setSynced(disabled || timedIsHealthy(store));
  spec.setEpoch(int64_t(KJ_ASSERT_NONNULL(stepsBefore) + seen.steps));
  if (!disabled) {
    spec.setServer(seen.server);
    spec.setOffset(seen.offset);
    spec.setProblem(missing != nullptr ? missing : kj::StringPtr(seen.problem));
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

}  // namespace talos::machined
