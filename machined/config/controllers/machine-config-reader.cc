#include "machined/config/controllers/machine-config-reader.h"

#include "common/base/error.h"
#include "common/base/texts.h"
#include "common/config/config.h"
#include "common/net/text-values.h"

namespace talos::machined {
namespace {

rpc::MachineType typeOf(config::MachineType type) {
  switch (type) {
    case config::MachineType::INIT:
      return rpc::MachineType::INIT;
    case config::MachineType::CONTROLPLANE:
      return rpc::MachineType::CONTROLPLANE;
    case config::MachineType::WORKER:
      return rpc::MachineType::JOIN;
  }
  return rpc::MachineType::UNKNOWN;
}

kj::Vector<NetworkConfig::Route> routesOf(capnp::List<config::Route>::Reader routes) {
  kj::Vector<NetworkConfig::Route> result;
  for (auto route : routes) {
    result.add(NetworkConfig::Route{.network = kj::str(route.getNetwork()),
                                    .gateway = kj::str(route.getGateway()),
                                    .metric = route.getMetric(),
                                    .source = kj::str(route.getSource()),
                                    .mtu = route.getMtu(),
                                    .onlink = route.getOnlink(),
                                    .type = route.getType()});
  }
  return result;
}

// Of a link or a VLAN.
template <typename Reader, typename Target>
void readAddressing(Reader link, bool dhcp, Target& target) {
  auto options = link.getDhcpOptions();
  target.dhcp4 = dhcp && (!link.hasDhcpOptions() || options.getIpv4());
  target.dhcp6 = dhcp && link.hasDhcpOptions() && options.getIpv6();
  target.dhcpMetric = options.getRouteMetric();
  if (link.getCidr().size() > 0) target.addresses.add(kj::str(link.getCidr()));
  for (auto address : link.getAddresses()) target.addresses.add(kj::str(address));
  target.routes = routesOf(link.getRoutes());
  target.mtu = link.getMtu();
}

// Of a control-plane node; the config's checks have refused it elsewhere.
kj::Maybe<NetworkConfig::Vip> vipOf(config::Vip::Reader vip) {
  if (vip.getIp().size() == 0) return nullptr;
  return NetworkConfig::Vip{
      kj::str(vip.getIp()),
      config::parseDuration(vip.getLeaseTTL()).orDefault(config::kDefaultVipLease)};
}

DeviceSelector selectorOf(config::DeviceSelector::Reader selector) {
  return {.busPath = kj::str(selector.getBusPath()),
          .hardwareAddress = kj::str(selector.getHardwareAddr()),
          .permanentAddress = kj::str(selector.getPermanentAddr()),
          .pciId = kj::str(selector.getPciID()),
          .driver = kj::str(selector.getDriver()),
          .physical = selector.getPhysical()};
}

NetworkConfig::Device deviceOf(config::Interface::Reader interface) {
  NetworkConfig::Device device;
  device.interface = kj::str(interface.getInterface());
  if (interface.hasDeviceSelector()) device.selector = selectorOf(interface.getDeviceSelector());
  device.ignore = interface.getIgnore();
  // One that gets both is refused by the config's checks; the address would win.
  readAddressing(interface, interface.getDhcp() && interface.getCidr().size() == 0, device);
  device.dummy = interface.getDummy();
  device.vip = vipOf(interface.getVip());
  for (auto entry : interface.getVlans()) {
    NetworkConfig::Vlan vlan;
    vlan.id = entry.getVlanId();
    readAddressing(entry, entry.getDhcp(), vlan);
    vlan.vip = vipOf(entry.getVip());
    device.vlans.add(kj::mv(vlan));
  }
  if (interface.hasBond()) device.bond = std::make_shared<const BondConfig>(interface.getBond());
  if (interface.hasBridge()) {
    device.bridge = std::make_shared<const BridgeConfig>(bridgeConfig(interface.getBridge()));
  }
  if (interface.hasWireguard()) {
    device.wireguard =
        std::make_shared<const WireguardConfig>(wireguardConfig(interface.getWireguard()));
  }
  return device;
}

NetworkConfig networkOf(config::Network::Reader network) {
  NetworkConfig result;
  result.hostname = kj::str(network.getHostname());
  for (auto server : network.getNameservers()) result.nameservers.add(kj::str(server));
  for (auto interface : network.getInterfaces()) result.devices.add(deviceOf(interface));
  return result;
}

TrustConfig trustOf(config::Config::Reader config) {
  auto cluster = config.getCluster();
  auto trustd = cluster.getTrustd();
  TrustConfig result;
  result.token = pki::Pem(kj::str(config.getMachine().getToken()));
  auto endpoint = config::parseEndpoint(cluster.getControlPlane().getEndpoint());
  if (endpoint.problem.size() == 0) result.hosts.add(kj::str(endpoint.value.host));
  for (auto san : cluster.getApiServer().getCertSANs()) result.hosts.add(kj::str(san));
  for (auto host : trustd.getEndpoints()) result.hosts.add(kj::str(host));
  result.dnsDomain = kj::str(cluster.getNetwork().getDnsDomain());
  result.anyAddress = trustd.getAnyAddress();
  KJ_IF_MAYBE (lifetime, config::parseDuration(trustd.getCertLifetime())) {
    result.certLifetime = *lifetime;
  }
  return result;
}

EtcdView etcdOf(config::Etcd::Reader etcd) {
  EtcdView result;
  result.authority = kj::str(etcd.getCa().getCrt().asChars());
  result.authorityKey = pki::Pem(kj::str(etcd.getCa().getKey().asChars()));
  result.image = kj::str(etcd.getImage());
  for (auto argument : etcd.getExtraArgs()) {
    result.extraArgs.add(
        EtcdView::Argument{kj::str(argument.getKey()), kj::str(argument.getValue())});
  }
  for (auto subnet : etcd.getAdvertisedSubnets()) result.advertisedSubnets.add(kj::str(subnet));
  for (auto subnet : etcd.getListenSubnets()) result.listenSubnets.add(kj::str(subnet));
  return result;
}

kj::Vector<kj::String> trustdEndpointsOf(config::Cluster::Reader cluster) {
  kj::Vector<kj::String> result;
  auto url = cluster.getControlPlane().getEndpoint();
  auto add = [&](kj::StringPtr host) {
    if (host.size() > 0) addOnce(result, kj::str(host));
  };
  if (url.size() > 0) add(config::parseEndpoint(url).value.host);
  for (auto endpoint : cluster.getTrustd().getEndpoints()) add(endpoint);
  return result;
}

}  // namespace

MachineConfigView viewOf(config::Config::Reader config) {
  auto machine = config.getMachine();
  MachineConfigView view;
  view.type = typeOf(machine.getType());
  view.authority = kj::str(machine.getCa().getCrt().asChars());
  view.authorityKey = pki::Pem(kj::str(machine.getCa().getKey().asChars()));
  for (auto san : machine.getCertSANs()) view.certSans.add(kj::str(san));
  // Whoever asks at the shared address may get to this machine.
  for (auto interface : machine.getNetwork().getInterfaces()) {
    auto add = [&](config::Vip::Reader shared) {
      if (shared.getIp().size() > 0) view.certSans.add(kj::str(shared.getIp()));
    };
    add(interface.getVip());
    for (auto vlan : interface.getVlans()) add(vlan.getVip());
  }
  view.trust = trustOf(config);
  view.authorityHash = kj::str(machine.getCaHash());
  view.trustdEndpoints = trustdEndpointsOf(config.getCluster());
  view.network = networkOf(machine.getNetwork());
  view.etcd = etcdOf(config.getCluster().getEtcd());
  view.timeDisabled = machine.getTime().getDisabled();
  for (auto server : machine.getTime().getServers()) {
    view.timeServers.add(kj::str(server));
    view.network.timeServers.add(kj::str(server));
  }
  return view;
}

void MachineConfigReader::know(KnownConfig document) {
  next = kj::mv(document);
}

bool MachineConfigReader::is(const kj::Maybe<KnownConfig>& known, kj::ArrayPtr<const char> text) {
  KJ_IF_MAYBE (k, known) return k->bytes() == text;
  return false;
}

kj::Maybe<const KnownConfig&> MachineConfigReader::document(Store& store) {
  KJ_IF_MAYBE (stored, store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)) {
    auto text = stored->getDocument().asArray();
    if (is(next, text)) {
      current = kj::mv(next);
      next = nullptr;
    }
    if (is(current, text)) return KJ_ASSERT_NONNULL(current);
  }
  return nullptr;
}

kj::Maybe<config::Config::Reader> MachineConfigReader::tryConfig(Store& store) {
  KJ_IF_MAYBE (config, document(store)) return config->get();
  return nullptr;
}

kj::Maybe<config::Machine::Reader> MachineConfigReader::tryMachine(Store& store) {
  return tryConfig(store).map([](config::Config::Reader config) { return config.getMachine(); });
}

config::Machine::Reader MachineConfigReader::machine(Store& store) {
  KJ_IF_MAYBE (machine, tryMachine(store)) return *machine;
  fail(ErrorKind::kNotFound, "no machine config");
}

kj::Maybe<MachineConfigView> MachineConfigReader::view(Store& store) {
  return document(store).map([](const KnownConfig& p) { return viewOf(p.get()); });
}

}  // namespace talos::machined
