#include "machined/config/controllers/host-dns-controller.h"

#include "common/base/fill-list.h"
#include "common/base/node-layout.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/text/texts.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/controllers/hosts-controller.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr uint16_t kDnsPort = 53;

using HostSpec = rpc::HostDnsConfigSpec::Host;

// Adds a name, and the same without its domain.
void addWithShort(kj::Vector<kj::String>& names, kj::StringPtr name) {
  if (name.size() == 0) return;
  addOnce(names, kj::str(name));
  KJ_IF_MAYBE (dot, name.findFirst('.')) addOnce(names, kj::str(name.slice(0, *dot)));
}

// Returns the entries of the config, then the names of this node.
kj::Vector<HostLine> knownHosts(Store& store, config::Machine::Reader machine) {
  auto lines = hostLines(machine);
  auto address = ownAddress(store);
  if (address.size() == 0) return lines;
  for (auto spec : store.list<rpc::HostnameSpecSpec>()) {
    HostLine own{kj::str(address), {}};
    own.names.add(kj::str(spec.getHostname()));
    if (spec.getDomainname().size() > 0) {
      own.names.add(kj::str(spec.getHostname(), ".", spec.getDomainname()));
    }
    lines.add(kj::mv(own));
  }
  return lines;
}

// Returns a line for each address of a member of the cluster.
kj::Vector<HostLine> memberHosts(Store& store) {
  kj::Vector<HostLine> lines;
  for (auto member : store.list<rpc::MemberSpec>()) {
    for (auto address : member.getAddresses()) {
      HostLine line{kj::str(address), {}};
      addWithShort(line.names, member.id());
      addWithShort(line.names, member.getHostname());
      lines.add(kj::mv(line));
    }
  }
  return lines;
}

void fillHost(HostSpec::Builder out, const HostLine& line) {
  out.setAddress(line.address);
  fillTexts(out.initNames(static_cast<unsigned>(line.names.size())), line.names);
}

void fill(rpc::HostDnsConfigSpec::Builder out, Store& store, config::Config::Reader config) {
  auto dns = hostDnsOf(config);
  if (!dns.enabled) return;
  out.setEnabled(true);
  kj::Vector<kj::String> listen;
  listen.add(Endpoint{Ip::require(kHostDnsAddress), kDnsPort}.toString());
  for (auto& address : dns.serviceAddresses) listen.add(Endpoint{address, kDnsPort}.toString());
  fillTexts(out.initListenAddresses(static_cast<unsigned>(listen.size())), listen);
  if (!dns.serviceAddresses.empty()) {
    out.setServiceHostDnsAddress(dns.serviceAddresses.front().toString());
  }
  auto hosts = knownHosts(store, config.getMachine());
  fillList(out.initHosts(static_cast<unsigned>(hosts.size())), hosts, fillHost);
  if (!config.getMachine().getFeatures().getHostDNS().getResolveMemberNames()) return;
  out.setResolveMemberNames(true);
  auto members = memberHosts(store);
  fillList(out.initMembers(static_cast<unsigned>(members.size())), members, fillHost);
}

class HostDnsController final : public Controller {
 public:
  explicit HostDnsController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "network.HostDnsController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::HostnameSpecSpec>(),
                   input<rpc::NodeAddressSpec>(), input<rpc::MemberSpec>());
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::HostDnsConfigSpec>(); }

  kj::Promise<void> reconcile(Store& store) override {
    auto known = config.tryConfig(store);
    if (known == nullptr && store.tryGet<rpc::HostDnsConfigSpec>(kHostDnsId) != nullptr) {
      return kj::READY_NOW;
    }
    Outputs<rpc::HostDnsConfigSpec> outputs(name());
    auto spec = outputs.add(kHostDnsId);
    KJ_IF_MAYBE (c, known) fill(spec, store, *c);
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

HostDns hostDnsOf(config::Config::Reader config) {
  HostDns dns;
  auto features = config.getMachine().getFeatures().getHostDNS();
  dns.enabled = features.getEnabled();
  if (!dns.enabled || !features.getForwardKubeDNSToHost()) return dns;
  bool four = false, six = false;
  for (auto& subnet : config::podSubnets(config.getCluster())) {
    KJ_IF_MAYBE (prefix, Prefix::parse(subnet)) {
      (prefix->address.family() == AF_INET ? four : six) = true;
    }
  }
  if (four) dns.serviceAddresses.add(Ip::require(kHostDnsPodAddress4));
  if (six) dns.serviceAddresses.add(Ip::require(kHostDnsPodAddress6));
  return dns;
}

kj::Own<Controller> hostDnsController(ControllerDependencies& deps) {
  return kj::heap<HostDnsController>(deps.config);
}

}  // namespace talos::machined
