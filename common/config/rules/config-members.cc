// machine.network: links that are in a bond, bridge or VRF.

#include <map>
#include <set>
#include <string>

#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"

namespace talos::config {
namespace {

struct Master {
  std::string name;
  bool vrf = false;  // its members have addresses
};
using Masters = std::map<std::string, Master>;  // by the name of the member

// Checks the members of a bond, bridge or VRF; reports a link that is already in another one.
void checkMembersOf(Report& report, kj::StringPtr master, kj::StringPtr path, kj::StringPtr kind,
                    capnp::List<capnp::Text>::Reader members, Masters& masterOf) {
  size_t i = 0;
  for (auto member : members) {
    auto place = kj::str(path, ".interfaces[", i++, "]");
    auto [other, added] = masterOf.emplace(member.cStr(), Master{master.cStr(), kind == "VRF"});
    if (member == master) {
      report.error(place, kj::str("a ", kind, " cannot have itself as a link"));
    } else if (!added) {
      report.warn(place, kj::str("\"", member, "\" is already in ", other->second.name.c_str(),
                                 "; a link can be in only one bond, bridge or VRF"));
    }
  }
}

// Checks the bridge of which an entry makes its link a port.
void checkBridgePort(Report& report, kj::StringPtr path, Interface::Reader interface,
                     const std::set<std::string>& bridges, Masters& masterOf) {
  auto place = kj::str(path, ".bridgePort.master");
  kj::StringPtr master = interface.getBridgePort().getMaster(), name = interface.getInterface();
  if (master.size() == 0) {
    if (report.isWhollyRead(path)) report.laterError(place, kj::str("the bridge is missing"));
    return;
  }
  if (!isLinkName(master))
    return report.laterError(place, kj::str("\"", master, "\" is not a valid link name"));
  if (master == name)
    return report.laterError(place, kj::str("a bridge cannot have itself as a link"));
  if (!bridges.contains(master.cStr())) {
    // The node of a kept config leaves the link's addresses in place, and joins no bridge.
    return report.laterError(place, kj::str("no entry makes the bridge \"", master, "\""),
                             "add an entry with bridge for it");
  }
  if (name.size() == 0) return;  // a selected link
  auto [other, added] = masterOf.emplace(name.cStr(), Master{master.cStr()});
  if (added || other->second.name == master.cStr()) return;
  report.laterError(place,
                    kj::str("\"", name, "\" is already in ", other->second.name.c_str(),
                            "; a link can be in only one bond, bridge or VRF"),
                    "remove one of the two");
}

// Reports a VRF in another VRF, which the kernel refuses.
void checkVrfs(Report& report, Network::Reader network) {
  std::set<std::string> vrfs;
  for (auto interface : network.getInterfaces()) {
    if (interface.hasVrf() && !interface.getIgnore()) vrfs.insert(interface.getInterface().cStr());
  }
  size_t i = 0;
  for (auto interface : network.getInterfaces()) {
    auto path = kj::str("machine.network.interfaces[", i++, "].vrf.interfaces[");
    size_t j = 0;
    for (auto member : interface.getVrf().getInterfaces()) {
      auto place = kj::str(path, j++, "]");
      if (member == interface.getInterface() || !vrfs.contains(member.cStr())) continue;
      report.laterError(place, kj::str("\"", member, "\" is a VRF and cannot be in another VRF"),
                        "remove it");
    }
  }
}

}  // namespace

void checkMembers(Report& report, Network::Reader network) {
  Masters masterOf;
  std::set<std::string> bridges;
  size_t i = 0;
  for (auto interface : network.getInterfaces()) {
    auto path = kj::str("machine.network.interfaces[", i++, "]");
    if (interface.getIgnore()) continue;
    auto name = interface.getInterface();
    checkMembersOf(report, name, kj::str(path, ".bond"), "bond",
                   interface.getBond().getInterfaces(), masterOf);
    checkMembersOf(report, name, kj::str(path, ".bridge"), "bridge",
                   interface.getBridge().getInterfaces(), masterOf);
    checkMembersOf(report, name, kj::str(path, ".vrf"), "VRF", interface.getVrf().getInterfaces(),
                   masterOf);
    if (interface.hasBridge()) bridges.insert(name.cStr());
    size_t j = 0;
    for (auto member : interface.getBridge().getInterfaces()) {
      if (isLinkName(member)) {
        ++j;
        continue;
      }
      report.error(kj::str(path, ".bridge.interfaces[", j++, "]"),
                   kj::str("\"", member, "\" is not a valid link name"));
    }
  }
  i = 0;
  for (auto interface : network.getInterfaces()) {
    auto path = kj::str("machine.network.interfaces[", i++, "]");
    if (interface.getIgnore() || !interface.hasBridgePort()) continue;
    checkBridgePort(report, path, interface, bridges, masterOf);
  }
  i = 0;
  for (auto interface : network.getInterfaces()) {
    auto path = kj::str("machine.network.interfaces[", i++, "]");
    auto master = masterOf.find(interface.getInterface().cStr());
    if (interface.getIgnore() || master == masterOf.end() || master->second.vrf) continue;
    auto warn = [&](kj::StringPtr key, bool given) {
      if (!given) return;
      report.warn(kj::str(path, ".", key),
                  kj::str("has no effect: this link is part of ", master->second.name.c_str(),
                          " and cannot have addresses of its own"));
    };
    warn("cidr", interface.getCidr().size() > 0);
    warn("addresses", interface.getAddresses().size() > 0);
    warn("dhcp", interface.getDhcp());
    warn("vip", interface.hasVip());
  }
  checkVrfs(report, network);
}

}  // namespace talos::config
