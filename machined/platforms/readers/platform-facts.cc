#include "machined/platforms/readers/platform-facts.h"

#include "common/base/annotation.h"
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/net/text-values.h"
#include "common/text/ascii.h"
#include "common/yaml/yaml.h"

namespace talos::platforms {
namespace {

// Parses 255.255.255.0, or 24.
kj::Maybe<unsigned> lengthOf(kj::StringPtr mask, const Ip& address) {
  KJ_IF_MAYBE (number, mask.tryParseAs<unsigned>()) {
    if (*number <= address.bits()) return *number;
    return nullptr;
  }
  auto parsed = KJ_UNWRAP_OR_RETURN(Ip::parse(mask), nullptr);
  if (parsed.family() != address.family()) return nullptr;
  return maskLength(parsed);
}

void fillRoutes(capnp::List<config::Route>::Builder out, kj::ArrayPtr<const Route> routes) {
  for (auto i : kj::indices(routes)) {
    auto& route = routes[i];
    out[i].setNetwork(route.destination.toString());
    KJ_IF_MAYBE (gateway, route.gateway) {
      out[i].setGateway(gateway->toString());
    }
    out[i].setMetric(route.metric);
    out[i].setOnlink(route.onlink);
  }
}

// Fills an interface or a VLAN.
template <typename Builder>
void fillAddressing(Builder out, const Interface& link) {
  out.setMtu(link.mtu);
  auto prefixes = link.addresses();
  auto addresses = out.initAddresses(prefixes.size());
  for (auto i : kj::indices(prefixes)) addresses.set(i, prefixes[i].toString());
  fillRoutes(out.initRoutes(link.routes().size()), link.routes());
  if (!link.dhcp4 && !link.dhcp6) return;
  out.setDhcp(true);
  auto options = out.initDhcpOptions();
  options.setIpv4(link.dhcp4);
  options.setIpv6(link.dhcp6);
  options.setRouteMetric(link.dhcpMetric);
}

void fillBond(config::Bond::Builder out, const Bond& bond) {
  kj::Vector<kj::StringPtr> names, addresses;
  for (auto& member : bond.members) (macOf(member) == nullptr ? names : addresses).add(member);
  fillTexts(out.initInterfaces(names.size()), names);
  auto selectors = out.initDeviceSelectors(addresses.size());
  for (auto i : kj::indices(addresses)) selectors[i].setHardwareAddr(addresses[i]);
  out.setMode(bond.mode);
  out.setXmitHashPolicy(bond.hashPolicy);
  out.setLacpRate(bond.lacpRate);
  out.setMiimon(bond.miimon);
  out.setUpdelay(bond.upDelay);
  out.setDowndelay(bond.downDelay);
}

void fillInterface(config::Interface::Builder out, const Interface& link) {
  if (link.mac.size() > 0) {
    out.initDeviceSelector().setHardwareAddr(link.mac);
  } else {
    out.setInterface(link.name);
  }
  fillAddressing(out, link);
  KJ_IF_MAYBE (bond, link.bond) {
    fillBond(out.initBond(), *bond);
  }
  auto vlans = out.initVlans(link.vlans.size());
  for (auto i : kj::indices(link.vlans)) {
    vlans[i].setVlanId(link.vlans[i].id);
    fillAddressing(vlans[i], link.vlans[i].link);
  }
}

void fillMetadata(rpc::PlatformMetadataSpec::Builder out, const PlatformFacts& facts) {
  out.setPlatform(facts.platform);
  out.setHostname(facts.hostname);
  out.setRegion(facts.region);
  out.setZone(facts.zone);
  out.setInstanceType(facts.instanceType);
  out.setInstanceId(facts.instanceId);
  out.setProviderId(facts.providerId);
  out.setSpot(facts.spot);
  out.setInternalDns(facts.internalDns);
  out.setExternalDns(facts.externalDns);
}

template <typename Enum>
bool setByName(kj::StringPtr text, Enum& value) {
  if (text.size() == 0) return true;
  for (auto each : capnp::Schema::from<Enum>().getEnumerants()) {
    if (!annotation::isCalled(each, text)) continue;
    value = static_cast<Enum>(each.getOrdinal());
    return true;
  }
  return false;
}

}  // namespace

bool setEnum(kj::StringPtr text, config::BondMode& value) {
  return setByName(text, value);
}
bool setEnum(kj::StringPtr text, config::BondXmitHashPolicy& value) {
  return setByName(text, value);
}
bool setEnum(kj::StringPtr text, config::BondLacpRate& value) {
  return setByName(text, value);
}

kj::Maybe<Prefix> prefixOf(kj::StringPtr address, kj::StringPtr mask) {
  kj::String before = kj::str(address), behind = kj::str(mask);
  KJ_IF_MAYBE (slash, address.findFirst('/')) {
    before = kj::heapString(address.slice(0, *slash));
    behind = kj::str(address.slice(*slash + 1));
    if (behind.size() == 0) return nullptr;
  }
  auto ip = KJ_UNWRAP_OR_RETURN(Ip::parse(before), nullptr);
  if (behind.size() == 0) return Prefix::host(ip);
  return Prefix{ip, KJ_UNWRAP_OR_RETURN(lengthOf(behind, ip), nullptr)};
}

kj::Maybe<kj::String> macOf(kj::StringPtr text) {
  constexpr size_t kDigits = 12;
  kj::Vector<char> digits;
  for (char c : lowerCase(text)) {
    if (c == ':' || c == '-' || c == 0) continue;
    digits.add(c);
  }
  if (digits.size() != kDigits) return nullptr;
  kj::Vector<char> mac;
  for (auto i : kj::indices(digits)) {
    if (i > 0 && i % 2 == 0) mac.add(':');
    mac.add(digits[i]);
  }
  auto result = kj::heapString(mac.begin(), mac.size());
  if (!config::isUnicastMac(result)) return nullptr;
  return result;
}

kj::Maybe<unsigned> numberIn(kj::StringPtr text, unsigned least, unsigned most) {
  auto integer = KJ_UNWRAP_OR_RETURN(codec::parseInteger(text), nullptr);
  bool fits = integer.magnitude >= least && integer.magnitude <= most &&
              (!integer.negative || integer.magnitude == 0);
  if (!fits) return nullptr;
  return static_cast<unsigned>(integer.magnitude);
}

unsigned metricOf(const Ip& gateway) {
  return gateway.family() == AF_INET6 ? kRouteMetric6 : kRouteMetric;
}

Interface& PlatformFacts::interfaceOf(kj::StringPtr mac, kj::StringPtr name) {
  auto address = macOf(mac).orDefault(kj::String());
  if (mac.size() > 0 && address.size() == 0) invalid(name, mac, "hardware address");
  for (auto& each : interfaces) {
    if (address.size() > 0 ? each.mac == address : each.mac.size() == 0 && each.name == name) {
      return each;
    }
  }
  if (interfaces.size() == kMostInterfaces) {
    fail(ErrorKind::kInvalidArgument, kj::str("more than ", kMostInterfaces, " interfaces"));
  }
  auto& made = interfaces.add();
  made.mac = kj::mv(address);
  made.name = kj::str(name);
  return made;
}

Interface& PlatformFacts::interfaceOf(kj::StringPtr macOrName) {
  return interfaceOf(macOf(macOrName) == nullptr ? ""_kj : macOrName, macOrName);
}

void PlatformFacts::external(kj::StringPtr text) {
  constexpr auto kWhere = "external addresses"_kj;
  if (text.size() == 0) return;
  auto ip = KJ_UNWRAP_OR_RETURN(Ip::parse(text), invalid(kWhere, text, "address"));
  if (!ip.isUnicast()) return;
  for (auto& other : externalAddresses) {
    if (other == ip) return;
  }
  if (hasRoom(externalAddresses.size(), kMostAddresses, kWhere, "addresses")) {
    externalAddresses.add(ip);
  }
}

void PlatformFacts::resolver(kj::StringPtr text) {
  constexpr auto kWhere = "DNS servers"_kj;
  if (text.size() == 0) return;
  auto ip = KJ_UNWRAP_OR_RETURN(Ip::parse(text), invalid(kWhere, text, "address"));
  if (hasRoom(resolvers.size(), kMostAddresses, kWhere, "addresses")) {
    addOnce(resolvers, ip.toString());
  }
}

bool PlatformFacts::hasRoom(size_t size, size_t most, kj::StringPtr where, kj::StringPtr noun) {
  if (size < most) return true;
  problem(where, ": more than ", most, " ", noun, "; the others are ignored");
  return false;
}

void PlatformFacts::addAddress(Interface& link, const Prefix& prefix) {
  if (hasRoom(link.addressList.size(), kMostAddresses, link.name, "addresses")) {
    link.addressList.add(prefix);
  }
}

void PlatformFacts::addRoute(Interface& link, Route route) {
  if (hasRoom(link.routeList.size(), kMostRoutes, link.name, "routes")) {
    link.routeList.add(kj::mv(route));
  }
}

void PlatformFacts::addDefaultRoute(Interface& link, const Ip& gateway, unsigned metric) {
  addRoute(link, Route{Prefix::all(gateway.family()), gateway, metric});
}

kj::Maybe<Prefix> PlatformFacts::addAddress(Interface& link, kj::StringPtr text,
                                            kj::StringPtr mask) {
  auto prefix = prefixOf(text, mask);
  KJ_IF_MAYBE (found, prefix) {
    addAddress(link, *found);
  } else {
    bool masked = Ip::parse(text) != nullptr && mask.size() > 0;
    invalid(link.name, kj::str(text, masked ? "/" : "", masked ? mask : ""_kj), "address");
  }
  return prefix;
}

kj::Maybe<Ip> PlatformFacts::gatewayOf(kj::StringPtr link, kj::StringPtr text) {
  if (text.size() == 0) return nullptr;
  auto gateway = Ip::parse(text);
  if (gateway == nullptr) invalid(link, text, "gateway");
  return gateway;
}

void PlatformFacts::addDefaultRoute(Interface& link, kj::StringPtr gateway) {
  KJ_IF_MAYBE (ip, gatewayOf(link.name, gateway)) addDefaultRoute(link, *ip, metricOf(*ip));
}

void PlatformFacts::setMtu(Interface& link, kj::StringPtr text) {
  if (text.size() == 0 || text == "0") return;
  KJ_IF_MAYBE (mtu, numberIn(text, kSmallestMtu, kLargestMtu)) {
    link.mtu = *mtu;
  } else {
    invalid(link.name, text, kj::str("MTU (", kSmallestMtu, " to ", kLargestMtu, ")"));
  }
}

kj::Maybe<uint16_t> PlatformFacts::vlanIdOf(kj::StringPtr link, kj::StringPtr text) {
  KJ_IF_MAYBE (id, numberIn(text, 0, kLargestVlan)) return static_cast<uint16_t>(*id);
  invalid(link, text, kj::str("VLAN id (0 to ", kLargestVlan, ")"));
  return nullptr;
}

void PlatformFacts::invalid(kj::StringPtr where, kj::StringPtr text, kj::StringPtr noun) {
  if (text.size() == 0) return problem(where, ": ", noun, " is missing; ignored");
  problem(where, ": \"", text, "\" is not a valid ", noun, "; ignored");
}

void PlatformFacts::unsupported(kj::StringPtr where, kj::StringPtr subject) {
  problem(where, ": ", subject, " is not supported; ignored");
}

void PlatformFacts::fill(rpc::PlatformFacts::Builder out) const {
  fillMetadata(out.initMetadata(), *this);
  auto network = out.initNetwork();
  network.setHostname(hostname);
  auto list = network.initInterfaces(interfaces.size());
  for (auto i : kj::indices(interfaces)) fillInterface(list[i], interfaces[i]);
  fillTexts(network.initNameservers(resolvers.size()), resolvers);
  fillTexts(out.initTimeServers(timeServers.size()), timeServers);
  auto external = out.initExternalAddresses(externalAddresses.size());
  for (auto i : kj::indices(externalAddresses)) external.set(i, externalAddresses[i].toString());
  fillTexts(out.initProblems(problems.size()), problems);
}

}  // namespace talos::platforms
