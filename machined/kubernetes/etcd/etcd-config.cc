#include "machined/kubernetes/etcd/etcd-config.h"

#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/config/config.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/net/ip.h"
#include "common/text/texts.h"
#include "common/tls/node-certificate.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/trust/trust-config.h"
#include "machined/kubernetes/etcd/assigned-addresses.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

template <typename Subnets>
bool inSubnets(kj::StringPtr address, const Subnets& subnets) {
  auto ip = Ip::parse(address);
  if (ip == nullptr) return false;
  for (kj::StringPtr text : subnets) {
    KJ_IF_MAYBE (subnet, Prefix::parse(text)) {
      if (subnet->contains(KJ_ASSERT_NONNULL(ip))) return true;
    }
  }
  return false;
}

kj::Vector<kj::String> selectedOf(const kj::Vector<kj::String>& addresses,
                                  const config::SubnetFilter& subnets,
                                  const kj::Vector<kj::String>& ofPods) {
  kj::Vector<kj::String> result;
  for (auto& address : addresses) {
    KJ_IF_MAYBE (ip, Ip::parse(address)) {
      if (subnets.selects(*ip, contains(ofPods, address))) result.add(kj::str(address));
    }
  }
  return result;
}

// Returns the canonical form of a name or an address.
kj::String canonical(kj::StringPtr host) {
  KJ_IF_MAYBE (ip, Ip::parse(host)) return ip->toString();
  return canonicalName(host);
}

EtcdNodeContext nodeContext(Store& store) {
  EtcdNodeContext node;
  for (auto spec : store.list<rpc::HostnameSpecSpec>()) node.hostname = kj::str(spec.getHostname());
  for (auto vip : store.list<rpc::VipSpecSpec>()) node.shared.add(kj::str(vip.id()));
  node.addresses = currentAddresses(store);
  auto assigned = assignedAddresses(store);
  node.pods = kj::mv(assigned.pods);
  KJ_IF_MAYBE (present, store.tryGet<rpc::EtcdConfigSpec>(kEtcdId)) {
    kj::Vector<kj::String> ordered;
    for (auto address : present->getAddresses()) {
      bool away = !contains(node.addresses, address) && contains(assigned.all, address);
      if (away) ordered.add(kj::str(address));
    }
    for (auto& address : node.addresses) ordered.add(kj::mv(address));
    node.addresses = kj::mv(ordered);
  }
  return node;
}

}  // namespace

bool runsEtcd(config::Config::Reader config) {
  auto machine = config.getMachine();
  return config::isControlPlane(machine.getType()) &&
         hasKey(config.getCluster().getEtcd().getCa()) && machine.getCa().getKey().size() > 0;
}

kj::OneOf<kj::Own<capnp::MallocMessageBuilder>, EtcdWaits> planEtcd(config::Config::Reader config,
                                                                    const EtcdNodeContext& node) {
  auto etcd = config.getCluster().getEtcd();
  config::SubnetFilter advertisedSubnets(etcd.getAdvertisedSubnets()),
      listenSubnets(etcd.getListenSubnets());
  auto lacks = [](kj::StringPtr key, const config::SubnetFilter& subnets) {
    return EtcdWaits{kj::str("an address ", subnets.describe(), " (", key, ")")};
  };
  if (node.hostname.size() == 0) return EtcdWaits{kj::str("the host name")};
  kj::Vector<kj::String> own, shared;
  for (auto& address : node.shared) shared.add(canonical(address));
  for (auto& address : node.addresses) {
    if (!contains(shared, canonical(address))) own.add(kj::str(address));
  }
  auto pods = config::podSubnets(config.getCluster()),
       services = config::serviceSubnets(config.getCluster());
  kj::Vector<kj::String> ofPods;
  for (auto& address : own) {
    if (contains(node.pods, address) || inSubnets(address, pods) || inSubnets(address, services)) {
      ofPods.add(kj::str(address));
    }
  }
  auto advertised = selectedOf(own, advertisedSubnets, ofPods);
  if (advertised.empty() && etcd.getAdvertisedSubnets().size() == 0) {
    return EtcdWaits{kj::str("an address of this node")};
  }
  if (advertised.empty()) return lacks("cluster.etcd.advertisedSubnets", advertisedSubnets);
  // For etcd an empty list would mean every address.
  auto listen = selectedOf(own, listenSubnets, ofPods);
  if (listen.empty()) return lacks("cluster.etcd.listenSubnets", listenSubnets);

  kj::Vector<kj::String> peers;
  for (auto& host : trustdEndpoints(config)) {
    auto text = canonical(host);
    bool known = contains(own, text) || contains(shared, text);
    if (known || text == canonicalName(node.hostname)) continue;
    addOnce(peers, kj::mv(text));
  }
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = message->initRoot<rpc::EtcdConfigSpec>();
  spec.setName(node.hostname);
  spec.setImage(etcd.getImage());
  spec.setExtraArgs(etcd.getExtraArgs());
  fillTexts(spec.initAddresses(advertised.size()), advertised);
  if (etcd.getListenSubnets().size() > 0) {
    fillTexts(spec.initListenAddresses(listen.size()), listen);
  }
  fillTexts(spec.initPeers(peers.size()), peers);
  fillTexts(spec.initShared(shared.size()), shared);
  spec.setAuthorities(
      kj::str(etcd.getCa().getCrt().asChars(), "\n", acceptedCas(etcd.getAcceptedCAs())));
  spec.setBootstraps(config.getMachine().getType() == config::MachineType::INIT);
  return kj::mv(message);
}

kj::Maybe<kj::String> whatEtcdWaitsFor(Store& store, config::Config::Reader config) {
  if (!runsEtcd(config)) return nullptr;
  auto planned = planEtcd(config, nodeContext(store));
  KJ_IF_MAYBE (waits, planned.tryGet<EtcdWaits>()) return kj::mv(waits->what);
  return nullptr;
}

kj::Array<Controller::Input> EtcdConfigController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::NodeAddressSpec>(),
                 input<rpc::AddressStatusSpec>(), input<rpc::LinkStatusSpec>(),
                 input<rpc::HostnameSpecSpec>(), input<rpc::VipSpecSpec>());
}
kj::Array<kj::StringPtr> EtcdConfigController::outputs() const {
  return typeNames<rpc::EtcdConfigSpec>();
}

kj::Promise<void> EtcdConfigController::reconcile(Store& store) {
  Outputs<rpc::EtcdConfigSpec> outputs(name());
  KJ_IF_MAYBE (config, readConfig(store)) {
    if (runsEtcd(*config)) {
      auto planned = planEtcd(*config, nodeContext(store));
      KJ_SWITCH_ONEOF(planned) {
        KJ_CASE_ONEOF(message, kj::Own<capnp::MallocMessageBuilder>) {
          outputs.set(kEtcdId, message->getRoot<rpc::EtcdConfigSpec>());
          lastLogged = kj::str();
        }
        KJ_CASE_ONEOF(waits, EtcdWaits) {
          if (waits.what != lastLogged) log::info("etcd waits", {{"for", waits.what}});
          lastLogged = kj::mv(waits.what);
          // A link that is down for a moment must not stop the member.
          KJ_IF_MAYBE (present, store.tryGet<rpc::EtcdConfigSpec>(kEtcdId)) {
            outputs.set(kEtcdId, *present).setWaitsFor(lastLogged);
          }
        }
      }
    }
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

kj::Own<Controller> etcdConfigController(ControllerDependencies& deps) {
  return kj::heap<EtcdConfigController>(KJ_BIND_METHOD(deps.config, tryConfig));
}

}  // namespace talos::machined
