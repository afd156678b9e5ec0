#include "machined/screen/screen-controller.h"

#include "common/base/version.h"
#include "common/tls/pki.h"
#include "machined/config/maintenance-notice.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

namespace {

void addNames(Store& store, ScreenFacts& facts) {
  for (auto spec : store.list<rpc::HostnameSpecSpec>())
    facts.hostname = kj::str(spec.getHostname());
  for (auto spec : store.list<rpc::NodeAddressSpec>()) {
    if (spec.id() == "current") facts.addresses = reachableAddresses(spec);
  }
  for (auto spec : store.list<rpc::MachineTypeSpec>()) {
    auto type = spec.getType();
    facts.role = kj::str(type == rpc::MachineType::UNKNOWN ? ""_kj
                         : type == rpc::MachineType::JOIN  ? "worker"_kj
                                                           : "control plane"_kj);
  }
  for (auto spec : store.list<rpc::ApiCertificateSpec>()) {
    auto certificate = spec.getServer().getCrt();
    if (certificate.size() > 0) {
      facts.fingerprint = pki::fingerprint(kj::str(certificate.asChars()));
    }
  }
}

void addMachine(Store& store, ScreenFacts& facts) {
  for (auto spec : store.list<rpc::MachineStatusSpec>()) {
    facts.revertsAt = kj::str(spec.getRevertsAt());
    for (auto problem : spec.getProblems()) facts.problems.add(kj::str(problem));
  }
  for (auto spec : store.list<rpc::ServiceSpec>()) {
    ++facts.services;
    facts.servicesUp += spec.getHealthy();
  }
  for (auto spec : store.list<rpc::UpgradeStatusSpec>()) {
    auto stage = spec.getStage();
    bool underWay = stage == "waiting" || stage == "fetching" || stage == "writing" ||
                    stage == "staged" || stage == "rebooting" || stage == "trying";
    if (!underWay) continue;
    facts.progress =
        kj::str("upgrade: ", stage, spec.getTarget().size() > 0 ? " of " : "", spec.getTarget(),
                spec.getReason().size() > 0 ? ", " : "", spec.getReason());
  }
}

void addCluster(Store& store, ScreenFacts& facts) {
  for (auto spec : store.list<rpc::EtcdStatusSpec>()) {
    facts.etcd = kj::str(spec.getPhase());
    bool member = spec.getPhase() == "member";
    if (member) {
      facts.etcd = kj::str("member; the leader is ", spec.getLeader(), "; ", spec.getTolerates(),
                           " of ", spec.getVoters(), " may fail");
    } else if (spec.getMessage().size() > 0) {
      // "waiting for a cluster" already includes the phase.
      bool namesPhase = spec.getMessage().startsWith(spec.getPhase());
      facts.etcd = namesPhase ? kj::str(spec.getMessage())
                              : kj::str(spec.getPhase(), ": ", spec.getMessage());
      facts.problems.add(kj::str("etcd: ", spec.getMessage()));
    }
  }
  for (auto spec : store.list<rpc::NodeStatusSpec>()) {
    facts.kubernetes = kj::str(spec.getReady() ? "Ready" : "not Ready",
                               spec.getUnschedulable() ? ", cordoned" : "",
                               spec.getMessage().size() > 0 ? ": " : "", spec.getMessage());
  }
  kj::Vector<kj::String> shared;
  for (auto spec : store.list<rpc::VipStatusSpec>()) {
    auto where = spec.getState() == "holder"   ? kj::str(" is here")
                 : spec.getHolder().size() > 0 ? kj::str(" is on ", spec.getHolder())
                                               : kj::str(" is nowhere");
    shared.add(kj::str(spec.id(), where));
  }
  facts.shared = kj::strArray(shared, ", ");
}

// Returns true for the links that a person at the machine can do something about: not those of
// pods.
bool isShown(rpc::LinkStatusSpec::Reader link) {
  bool isHardware = link.getType() == "ether" && link.getKind().size() == 0;
  return isHardware || link.getLogical();
}

kj::StringPtr stateOf(rpc::LinkStatusSpec::Reader link) {
  for (auto flag : link.getFlags()) {
    if (flag == "UP") return link.getLinkState() ? "up"_kj : "no carrier"_kj;
  }
  return "down"_kj;
}

void addLinks(Store& store, ScreenFacts& facts) {
  for (auto spec : store.list<rpc::LinkStatusSpec>()) {
    if (!isShown(spec)) continue;
    ScreenLink link{kj::str(spec.id()), kj::str(stateOf(spec)), {}, {}};
    kj::Vector<kj::StringPtr> hardware;
    for (kj::StringPtr part : {spec.getHardwareAddress(), spec.getDriver(), spec.getBusPath()}) {
      if (part.size() > 0) hardware.add(part);
    }
    link.hardware = kj::strArray(hardware, " ");
    for (auto address : store.list<rpc::AddressStatusSpec>()) {
      if (address.getLinkName() == spec.id()) link.addresses.add(kj::str(address.getAddress()));
    }
    facts.links.add(kj::mv(link));
  }
}

void addNetwork(Store& store, ScreenFacts& facts) {
  addLinks(store, facts);
  for (auto route : store.list<rpc::RouteStatusSpec>()) {
    bool isDefault = route.getDestination().size() == 0 && route.getGateway().size() > 0 &&
                     route.getTable() == "main";
    if (isDefault) {
      facts.gateways.add(kj::str(route.getGateway(), " on ", route.getLinkName()));
    }
  }
  for (auto spec : store.list<rpc::ResolverSpecSpec>()) {
    for (auto server : spec.getDnsServers()) facts.nameServers.add(kj::str(server));
  }
  for (auto spec : store.list<rpc::TimeServerSpecSpec>()) {
    for (auto server : spec.getTimeServers()) facts.timeServers.add(kj::str(server));
  }
  for (auto spec : store.list<rpc::NetworkStatusSpec>()) {
    for (auto problem : spec.getProblems()) facts.networkProblems.add(kj::str(problem));
  }
}

}  // namespace

kj::Array<Controller::Input> ScreenController::inputs() const {
  kj::Vector<Input> inputs;
  inputs.addAll(kj::arr(input<rpc::HostnameSpecSpec>(), input<rpc::NodeAddressSpec>(),
                        input<rpc::MachineTypeSpec>(), input<rpc::ApiCertificateSpec>(),
                        input<rpc::MachineStatusSpec>(), input<rpc::ServiceSpec>(),
                        input<rpc::UpgradeStatusSpec>(), input<rpc::EtcdStatusSpec>(),
                        input<rpc::NodeStatusSpec>(), input<rpc::VipStatusSpec>()));
  if (withNetwork) {
    inputs.addAll(kj::arr(input<rpc::LinkStatusSpec>(), input<rpc::AddressStatusSpec>(),
                          input<rpc::RouteStatusSpec>(), input<rpc::ResolverSpecSpec>(),
                          input<rpc::TimeServerSpecSpec>(), input<rpc::NetworkStatusSpec>()));
  }
  return inputs.releaseAsArray();
}

kj::Promise<void> ScreenController::reconcile(Store& store) {
  ScreenFacts facts;
  auto now = progress();
  facts.version = kj::str(buildVersion().tag);
  facts.stage = kj::mv(now.stage);
  addNames(store, facts);
  addMachine(store, facts);
  if (now.text.size() > 0) facts.progress = kj::mv(now.text);
  addCluster(store, facts);
  if (withNetwork) addNetwork(store, facts);
  show(kj::mv(facts));
  return kj::READY_NOW;
}

}  // namespace talos::machined
