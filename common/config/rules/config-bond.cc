// Checks bond and wireguard of machine.network.interfaces[], and the firewall. An option that the
// kernel's bonding driver refuses or ignores in a mode is a warning: the link still works, though
// differently from the config.

#include <set>
#include <string>

#include "common/base/node-layout.h"
#include "common/bond/bond-options.h"
#include "common/config/rules/config-check.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"

namespace talos::config {
namespace {

constexpr auto kFirewall = "machine.network.firewall"_kj;

constexpr size_t kWireguardKeyBytes = 32;

// Reports values that are out of range in every mode, and removes them from `options`.
void checkRanges(Report& report, kj::StringPtr path, netlink::BondOptions& options) {
  for (auto& rule : netlink::bondRules()) {
    auto& value = options[rule.option];
    if (!value || (*value <= rule.most && *value >= rule.least)) continue;
    report.error(kj::str(path, ".", rule.name),
                 kj::str(*value, *value > rule.most ? " is too large" : " is too small"),
                 kj::str("must be ", rule.least, " to ", rule.most));
    value.reset();
  }
}

// Warns of options that the kernel refuses, or ignores, in this mode or together with others.
void checkTogether(Report& report, kj::StringPtr path, Bond::Reader bond,
                   const netlink::BondOptions& options) {
  netlink::effectiveBond(options, [&](kj::StringPtr option, kj::StringPtr problem) {
    report.warn(kj::str(path, ".", option), kj::str("this ", problem));
  });
  auto& primary = netlink::ruleOf(netlink::BondOption::kPrimary);
  bool fits = primary.fits(options.mode());
  if (bond.getPrimary().size() > 0 && !fits) {
    report.warn(kj::str(path, ".primary"),
                kj::str("this ", netlink::usedOnlyIn(primary, options.mode())));
  }
  bool reselects = bond.getPrimaryReselect() != BondPrimaryReselect::ALWAYS;
  if (bond.getPrimary().size() == 0 && fits && reselects) {
    report.warn(kj::str(path, ".primaryReselect"), kj::str("this has no effect without primary"));
  }
}

void checkMonitoring(Report& report, kj::StringPtr path, Bond::Reader bond) {
  auto delay = [&](kj::StringPtr key, uint32_t value) {
    if (bond.getMiimon() == 0 || value % bond.getMiimon() == 0) return;
    report.warn(kj::str(path, ".", key), kj::str(value, " is not a multiple of miimon (",
                                                 bond.getMiimon(), "); the kernel rounds it down"));
  };
  delay("updelay", bond.getUpdelay());
  delay("downdelay", bond.getDowndelay());
  delay("peerNotifyDelay", bond.getPeerNotifyDelay());
  if (bond.getArpInterval() > 0 && bond.getArpIPTarget().size() == 0) {
    report.warn(kj::str(path, ".arpInterval"), kj::str("this has no effect without arpIPTarget"));
  }
  if (bond.getArpIPTarget().size() > netlink::kMostBondTargets)
    report.error(kj::str(path, ".arpIPTarget"), kj::str("too many targets; at most 16"));
  size_t i = 0;
  for (auto target : bond.getArpIPTarget()) {
    auto place = kj::str(path, ".arpIPTarget[", i++, "]");
    bool good = false;
    KJ_IF_MAYBE (ip, Ip::parse(target)) good = ip->family() == AF_INET;
    if (!good) report.error(place, kj::str("\"", target, "\" is not an IPv4 address"));
  }
}

void checkPeer(Report& report, kj::StringPtr path, WireguardPeer::Reader peer) {
  if (peer.getPublicKey().size() > 0 && !isKey(peer.getPublicKey(), kWireguardKeyBytes)) {
    report.laterError(kj::str(path, ".publicKey"), kj::str("not valid base64 of 32 bytes"),
                      "use the output of `wg pubkey`");
  }
  auto endpoint = peer.getEndpoint();
  if (endpoint.size() > 0 && !isHostAndPort(endpoint, true)) {
    report.error(kj::str(path, ".endpoint"), kj::str("\"", endpoint, "\" is not host:port"),
                 "for example 209.202.254.14:8172");
  }
  auto keepalive = peer.getPersistentKeepaliveInterval();
  if (keepalive.size() > 0) {
    auto place = kj::str(path, ".persistentKeepaliveInterval");
    KJ_IF_MAYBE (interval, parseDuration(keepalive)) {
      if (*interval > 65535 * kj::SECONDS)
        report.error(place, kj::str("\"", keepalive, "\" is too long"), "at most 65535s");
      // The kernel counts whole seconds; 0 is off.
      if (*interval > 0 * kj::SECONDS && *interval < 1 * kj::SECONDS)
        report.laterError(place, kj::str("\"", keepalive, "\" is too short"), "at least 1s");
    } else {
      report.error(place, kj::str("\"", keepalive, "\" is not a duration"), "for example 25s");
    }
  }
  size_t i = 0;
  for (auto network : peer.getAllowedIPs()) {
    auto place = kj::str(path, ".allowedIPs[", i++, "]");
    if (Prefix::parse(network) == nullptr) {
      report.laterError(place, kj::str("\"", network, "\" is not a valid network"),
                        "use address/length, for example 192.168.88.0/24");
    }
  }
}

bool isAboutApi(FirewallRule::Reader rule) {
  if (rule.getProtocol() != "tcp") return false;
  for (auto ports : rule.getPorts()) {
    if (ports.getFirst() <= kApidPort && kApidPort <= ports.getLast()) return true;
  }
  return false;
}

}  // namespace

void checkDeviceSelector(Report& report, kj::StringPtr path, DeviceSelector::Reader selector) {
  bool some = selector.getPhysical();
  auto pattern = [&](kj::StringPtr key, kj::StringPtr text, kj::StringPtr letters,
                     kj::StringPtr hint) {
    some = some || text.size() > 0;
    for (char c : text) {
      bool good = letters.size() == 0 ? c > ' ' : letters.findFirst(c) != nullptr;
      if (good) continue;
      report.error(kj::str(path, ".", key), kj::str("no link can match \"", text, "\""), hint);
      return;
    }
  };
  constexpr auto kHex = "0123456789abcdefABCDEF:*"_kj;
  pattern("busPath", selector.getBusPath(), "", "for example 0000:00:03.0 or 0000:00:*");
  pattern("hardwareAddr", selector.getHardwareAddr(), kHex,
          "for example 52:54:00:12:34:56 or 52:54:00:*");
  pattern("permanentAddr", selector.getPermanentAddr(), kHex,
          "for example 52:54:00:12:34:56 or 52:54:00:*");
  pattern("pciID", selector.getPciID(), kHex,
          "use vendor:product, for example 1af4:1000 or 1af4:*");
  pattern("driver", selector.getDriver(), "", "for example virtio_net");
  if (!some) {
    report.error(path, kj::str("empty: this selects no link"),
                 "set busPath, hardwareAddr, permanentAddr, pciID, driver or physical: true");
  }
}

void checkBond(Report& report, kj::StringPtr path, Bond::Reader bond) {
  auto members = kj::str(path, ".interfaces");
  bool selects = bond.getDeviceSelectors().size() > 0;
  if (bond.getInterfaces().size() == 0 && !selects)
    report.warn(members, kj::str("the bond has no links, so it has no carrier"),
                "for example [eth0, eth1]");
  if (bond.getInterfaces().size() > 0 && selects)
    report.error(kj::str(path, ".deviceSelectors"), kj::str("interfaces is set as well"),
                 "remove one of the two");
  for (auto n : kj::indices(bond.getDeviceSelectors())) {
    checkDeviceSelector(report, kj::str(path, ".deviceSelectors[", n, "]"),
                        bond.getDeviceSelectors()[n]);
  }
  std::set<std::string> names;
  size_t i = 0;
  for (auto member : bond.getInterfaces()) {
    auto place = kj::str(members, "[", i++, "]");
    if (!isLinkName(member))
      report.error(place, kj::str("\"", member, "\" is not a valid link name"));
    names.insert(member.cStr());
  }
  auto primary = bond.getPrimary();
  if (primary.size() > 0 && !selects && names.count(primary.cStr()) == 0) {
    report.error(kj::str(path, ".primary"),
                 kj::str("\"", primary, "\" is not one of the bond's interfaces"));
  }
  auto system = bond.getAdActorSystem();
  if (system.size() > 0 && !isUnicastMac(system)) {
    report.error(kj::str(path, ".adActorSystem"),
                 kj::str("\"", system, "\" is not a unicast MAC address"),
                 "for example 02:00:00:00:00:01");
  }
  auto options = netlink::bondOptions(bond);
  checkRanges(report, path, options);
  checkTogether(report, path, bond, options);
  checkMonitoring(report, path, bond);
}

void checkWireguard(Report& report, kj::StringPtr path, Wireguard::Reader wireguard) {
  auto key = wireguard.getPrivateKey();
  if (key.size() > 0 && !isKey(key, kWireguardKeyBytes)) {
    report.laterError(kj::str(path, ".privateKey"), kj::str("not valid base64 of 32 bytes"),
                      "use the output of `wg genkey`");
  }
  std::set<std::string> keys;
  size_t i = 0;
  for (auto peer : wireguard.getPeers()) {
    auto place = kj::str(path, ".peers[", i++, "]");
    checkPeer(report, place, peer);
    if (peer.getPublicKey().size() > 0 && !keys.insert(peer.getPublicKey().cStr()).second)
      report.error(kj::str(place, ".publicKey"), kj::str("duplicate key: another peer has it too"));
  }
}

void checkFirewall(Report& report, Firewall::Reader firewall) {
  auto rules = firewall.getRules();
  for (auto i : kj::indices(rules)) {
    if (!isAboutApi(rules[i])) continue;
    bool closed = rules[i].getSubnets().size() == 0;
    if (firewall.getBlock()) {
      if (!closed) return;
    } else if (closed) {
      report.warn(kj::str(kFirewall, ".rules[", i, "]"),
                  kj::str("the rule closes TCP ", kApidPort,
                          " to all, so no client reaches the API of the node"),
                  "set ingress to the networks of its clients");
    }
  }
  if (!firewall.getBlock()) return;
  report.warn(
      kFirewall,
      kj::str("no rule opens TCP ", kApidPort, ", so no client reaches the API of the node"),
      "add a NetworkRuleConfig with this port");
}

}  // namespace talos::config
