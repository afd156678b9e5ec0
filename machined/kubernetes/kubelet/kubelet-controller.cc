#include "machined/kubernetes/kubelet/kubelet-controller.h"

#include <unistd.h>

#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "machined/kubernetes/etcd/assigned-addresses.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

kj::Vector<kj::String> addressesOfNode(Store& store) {
  kj::Vector<kj::String> own;
  for (auto& address : currentAddresses(store)) {
    if (store.tryGet<rpc::VipSpecSpec>(address) == nullptr) own.add(kj::mv(address));
  }
  return own;
}

KubeletNodeContext nodeContext(Store& store) {
  KubeletNodeContext at;
  for (auto spec : store.list<rpc::HostnameSpecSpec>()) {
    at.hostname = kj::str(spec.getHostname());
    at.domainname = kj::str(spec.getDomainname());
  }
  at.addresses = addressesOfNode(store);
  at.assigned = assignedAddresses(store);
  return at;
}

}  // namespace

kj::Array<Controller::Input> KubeletController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>("v1alpha1"), input<rpc::HostnameSpecSpec>(),
                 input<rpc::NodeAddressSpec>(), input<rpc::AddressStatusSpec>(),
                 input<rpc::LinkStatusSpec>(), input<rpc::VipSpecSpec>());
}
kj::Array<kj::StringPtr> KubeletController::outputs() const {
  return typeNames<rpc::NodenameSpec, rpc::KubeletSpecSpec, rpc::KubeletSecretsSpec>();
}

kj::Promise<void> KubeletController::reconcile(Store& store) {
  Outputs<rpc::NodenameSpec> names(name());
  Outputs<rpc::KubeletSpecSpec> specs(name());
  Outputs<rpc::KubeletSecretsSpec> secrets(name());
  auto apply = [&]() {
    names.apply(store);
    secrets.apply(store);
    specs.apply(store);
    return kj::READY_NOW;
  };
  auto found = readConfig(store);
  KJ_IF_MAYBE (config, found) {
    kj::Vector<kj::String> before;
    KJ_IF_MAYBE (spec, store.tryGet<rpc::KubeletSpecSpec>(kKubeletId)) {
      for (auto address : spec->getNodeIPs()) before.add(kj::str(address));
    }
    auto at = nodeContext(store);
    at.sharesDisk = sharesDisk;
    at.memoryFile = memoryFile;
    auto spec = specs.add(kKubeletId);
    auto waits = planKubeletSecrets(*config, secrets.add(kKubeletId));
    if (waits == nullptr) waits = planKubelet(*config, at, before, spec);
    KJ_IF_MAYBE (w, waits) {
      if (w->what != lastLogged) log::info("the kubelet waits", {{"for", w->what}});
      lastLogged = kj::mv(w->what);
      return kj::READY_NOW;
    }
    lastLogged = kj::str();
    warnOfLabels(config->getMachine());
    warnOfRelease(*config);
    auto nodename = names.add(kNodenameId);
    nodename.setNodename(spec.getNodename());
    nodename.setHostname(at.hostname);
  }
  return apply();
}

void KubeletController::warnOfLabels(config::Machine::Reader machine) {
  auto labels = kj::strArray(refusedLabels(machine), ", ");
  if (labels != refused && labels.size() > 0) {
    log::warn("a worker may not give itself these labels of machine.nodeLabels",
              {{"labels", labels}});
  }
  refused = kj::mv(labels);
}

void KubeletController::warnOfRelease(config::Config::Reader config) {
  auto warning = assumedRelease(config).orDefault([] { return kj::String(); });
  if (warning != assumed && warning.size() > 0) log::warn(warning);
  assumed = kj::mv(warning);
}

kj::Maybe<kj::String> missingForKubelet(Store& store, config::Config::Reader config) {
  kj::Vector<kj::String> before;
  KJ_IF_MAYBE (spec, store.tryGet<rpc::KubeletSpecSpec>(kKubeletId)) {
    for (auto address : spec->getNodeIPs()) before.add(kj::str(address));
  }
  SecretMessage secrets;
  capnp::MallocMessageBuilder settings;
  auto waits = planKubeletSecrets(config, secrets.initRoot<rpc::KubeletSecretsSpec>());
  if (waits == nullptr) {
    waits =
        planKubelet(config, nodeContext(store), before, settings.initRoot<rpc::KubeletSpecSpec>());
  }
  return waits.map([](KubeletWaits& missing) { return kj::mv(missing.what); });
}

kj::Own<Controller> kubeletController(ControllerDependencies& deps) {
  bool inContainer = deps.platform == "container";
  // The file exists from the start of the container, and stays.
  bool limited = inContainer && access(kMemoryOfContainer.cStr(), F_OK) == 0;
  return kj::heap<KubeletController>(
      [&config = deps.config](Store& store) {
        return config.document(store).map([](const KnownConfig& known) { return known.get(); });
      },
      inContainer, limited ? kMemoryOfContainer : ""_kj);
}

}  // namespace talos::machined
