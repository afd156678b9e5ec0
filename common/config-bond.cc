// machine.network.interfaces[].bond and .wireguard. What the kernel's bonding driver refuses or
// ignores in a mode is a warning: the link still works, though otherwise than written.

#include <set>
#include <string>

#include "common/config-check.h"
#include "common/config-value.h"
#include "common/config.h"
#include "common/ip.h"

namespace talos::config {
namespace {

constexpr size_t kArpTargets = 16, kWireguardKeyBytes = 32;

// The modes in which an option has a meaning.
class Modes {
 public:
  constexpr Modes(std::initializer_list<BondMode> modes) {
    for (auto mode : modes) bits |= 1u << static_cast<unsigned>(mode);
  }
  bool has(BondMode mode) const { return bits >> static_cast<unsigned>(mode) & 1; }

 private:
  unsigned bits = 0;
};

constexpr Modes kLacp = {BondMode::LACP};
constexpr Modes kRoundRobin = {BondMode::BALANCE_RR};
constexpr Modes kAdaptive = {BondMode::BALANCE_TLB, BondMode::BALANCE_ALB};
constexpr Modes kPrimary = {BondMode::ACTIVE_BACKUP, BondMode::BALANCE_TLB, BondMode::BALANCE_ALB};
constexpr Modes kArp = {BondMode::BALANCE_RR, BondMode::ACTIVE_BACKUP, BondMode::BALANCE_XOR,
                        BondMode::BROADCAST};

void checkModes(Report& report, kj::StringPtr path, Bond::Reader bond) {
  auto mode = bond.getMode();
  auto only = [&](kj::StringPtr key, bool used, const Modes& modes, kj::StringPtr names) {
    if (used && !modes.has(mode))
      report.warn(kj::str(path, ".", key), kj::str("this has a meaning only in ", names));
  };
  only("lacpRate", bond.getLacpRate() != BondLacpRate::SLOW, kLacp, "mode 802.3ad");
  only("adSelect", bond.getAdSelect() != BondAdSelect::STABLE, kLacp, "mode 802.3ad");
  only("adActorSysPrio", bond.getAdActorSysPrio() != 65535 && bond.getAdActorSysPrio() != 0, kLacp,
       "mode 802.3ad");
  only("adUserPortKey", bond.getAdUserPortKey() != 0, kLacp, "mode 802.3ad");
  only("adActorSystem", bond.getAdActorSystem().size() > 0, kLacp, "mode 802.3ad");
  only("packetsPerSlave", bond.getPacketsPerSlave() > 1, kRoundRobin, "mode balance-rr");
  only("tlbDynamicLb", bond.getTlbDynamicLb() != 1, kAdaptive, "modes balance-tlb and balance-alb");
  only("primary", bond.getPrimary().size() > 0, kPrimary,
       "modes active-backup, balance-tlb and balance-alb");
  auto arp = "modes balance-rr, active-backup, balance-xor and broadcast"_kj;
  only("arpInterval", bond.getArpInterval() != 0, kArp, arp);
  only("arpValidate", bond.getArpValidate() != BondArpValidate::NONE, kArp, arp);
}

void checkMonitoring(Report& report, kj::StringPtr path, Bond::Reader bond) {
  auto delay = [&](kj::StringPtr key, uint32_t value) {
    auto place = kj::str(path, ".", key);
    if (value == 0) return;
    if (bond.getMiimon() == 0) {
      report.warn(place, kj::str("without miimon this has no effect"));
    } else if (value % bond.getMiimon() != 0) {
      report.warn(place, kj::str(value, " is not a multiple of miimon (", bond.getMiimon(),
                                 "); the kernel rounds it down"));
    }
  };
  delay("updelay", bond.getUpdelay());
  delay("downdelay", bond.getDowndelay());
  delay("peerNotifyDelay", bond.getPeerNotifyDelay());
  if (bond.getMiimon() > 0 && bond.getArpInterval() > 0) {
    report.warn(kj::str(path, ".arpInterval"),
                kj::str("miimon is set as well; the kernel takes one of the two"));
  }
  if (bond.getArpInterval() > 0 && bond.getArpIPTarget().size() == 0) {
    report.warn(kj::str(path, ".arpInterval"),
                kj::str("without arpIPTarget this monitors nothing"));
  }
  if (bond.getArpIPTarget().size() > kArpTargets)
    report.error(kj::str(path, ".arpIPTarget"), kj::str("there can be 16 targets at most"));
  size_t i = 0;
  for (auto target : bond.getArpIPTarget()) {
    auto place = kj::str(path, ".arpIPTarget[", i++, "]");
    bool good = false;
    KJ_IF_MAYBE (ip, Ip::parse(target)) good = ip->family() == AF_INET;
    if (!good) report.error(place, kj::str("\"", target, "\" is not an IPv4 address"));
  }
}

void checkRanges(Report& report, kj::StringPtr path, Bond::Reader bond) {
  auto atMost = [&](kj::StringPtr key, uint64_t value, uint64_t limit) {
    if (value > limit) {
      report.error(kj::str(path, ".", key), kj::str(value, " is too large"),
                   kj::str("it is from 0 to ", limit));
    }
  };
  atMost("resendIgmp", bond.getResendIgmp(), 255);
  atMost("allSlavesActive", bond.getAllSlavesActive(), 1);
  atMost("tlbDynamicLb", bond.getTlbDynamicLb(), 1);
  atMost("packetsPerSlave", bond.getPacketsPerSlave(), 65535);
  atMost("lpInterval", bond.getLpInterval(), 0x7fffffff);
  atMost("adUserPortKey", bond.getAdUserPortKey(), 1023);
}

void checkPeer(Report& report, kj::StringPtr path, WireguardPeer::Reader peer) {
  if (peer.getPublicKey().size() > 0 && !isKey(peer.getPublicKey(), kWireguardKeyBytes)) {
    report.warn(kj::str(path, ".publicKey"),
                kj::str("this is not the base64 of 32 octets; the link will not come up"));
  }
  auto endpoint = peer.getEndpoint();
  if (endpoint.size() > 0 && !isHostAndPort(endpoint, true)) {
    report.error(kj::str(path, ".endpoint"), kj::str("\"", endpoint, "\" is not host:port"),
                 "as 209.202.254.14:8172");
  }
  auto keepalive = peer.getPersistentKeepaliveInterval();
  if (keepalive.size() > 0) {
    auto place = kj::str(path, ".persistentKeepaliveInterval");
    KJ_IF_MAYBE (interval, parseDuration(keepalive)) {
      if (*interval > 65535 * kj::SECONDS)
        report.error(place, kj::str("\"", keepalive, "\" is too long"), "it is 65535s at most");
    } else {
      report.error(place, kj::str("\"", keepalive, "\" is not a duration"), "as 25s");
    }
  }
  size_t i = 0;
  for (auto network : peer.getAllowedIPs()) {
    auto place = kj::str(path, ".allowedIPs[", i++, "]");
    if (Prefix::parse(network) == nullptr) {
      report.warn(place, kj::str("\"", network, "\" is no network; the link will not come up"),
                  "address/length, as 192.168.88.0/24");
    }
  }
}

}  // namespace

void checkBond(Report& report, kj::StringPtr path, Bond::Reader bond) {
  auto members = kj::str(path, ".interfaces");
  if (bond.getInterfaces().size() == 0)
    report.error(members, kj::str("a bond needs at least one link"), "as [eth0, eth1]");
  std::set<std::string> names;
  size_t i = 0;
  for (auto member : bond.getInterfaces()) {
    auto place = kj::str(members, "[", i++, "]");
    if (!isLinkName(member))
      report.error(place, kj::str("\"", member, "\" is not a name of a link"));
    names.insert(member.cStr());
  }
  auto primary = bond.getPrimary();
  if (primary.size() > 0 && names.count(primary.cStr()) == 0) {
    report.error(kj::str(path, ".primary"),
                 kj::str("\"", primary, "\" is not one of the bond's interfaces"));
  }
  auto system = bond.getAdActorSystem();
  if (system.size() > 0 && !isUnicastMac(system)) {
    report.error(kj::str(path, ".adActorSystem"),
                 kj::str("\"", system, "\" is not the MAC address of one station"),
                 "as 02:00:00:00:00:01");
  }
  checkModes(report, path, bond);
  checkMonitoring(report, path, bond);
  checkRanges(report, path, bond);
}

void checkWireguard(Report& report, kj::StringPtr path, Wireguard::Reader wireguard) {
  auto key = wireguard.getPrivateKey();
  if (key.size() > 0 && !isKey(key, kWireguardKeyBytes)) {
    report.warn(kj::str(path, ".privateKey"),
                kj::str("this is not the base64 of 32 octets; the link will not come up"),
                "wg genkey makes one");
  }
  std::set<std::string> keys;
  size_t i = 0;
  for (auto peer : wireguard.getPeers()) {
    auto place = kj::str(path, ".peers[", i++, "]");
    checkPeer(report, place, peer);
    if (peer.getPublicKey().size() > 0 && !keys.insert(peer.getPublicKey().cStr()).second)
      report.error(kj::str(place, ".publicKey"), kj::str("another peer has the same key"));
  }
}

}  // namespace talos::config
