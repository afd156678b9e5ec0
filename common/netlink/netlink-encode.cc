#include <kj/debug.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/veth.h>
#include <net/if.h>

#include "common/base/error.h"
#include "common/netlink/netlink-codec.h"

namespace talos::netlink {
namespace {

constexpr uint16_t kRequest = NLM_F_REQUEST | NLM_F_ACK;
constexpr uint16_t kCreate = kRequest | NLM_F_CREATE | NLM_F_EXCL;
constexpr uint16_t kReplace = kRequest | NLM_F_CREATE | NLM_F_REPLACE;

// --- links
constexpr size_t kMaxName = IFNAMSIZ - 1;

void putName(MessageBuilder& out, uint16_t attribute, kj::StringPtr name) {
  if (name.size() == 0 || name.size() > kMaxName) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("link name \"", name, "\": must have 1 to ", kMaxName, " characters"));
  }
  out.putText(attribute, name);
}

void putBridge(MessageBuilder& out, const BridgeOptions& options) {
  if (options.stp) out.putU32(IFLA_BR_STP_STATE, *options.stp ? 1 : 0);
  if (options.vlanFiltering) out.putU8(IFLA_BR_VLAN_FILTERING, *options.vlanFiltering ? 1 : 0);
}

void putNumber(MessageBuilder& out, uint16_t attribute, uint8_t bytes, uint32_t value) {
  if (bytes == 1) {
    out.putU8(attribute, value);
  } else if (bytes == 2) {
    out.putU16(attribute, value);
  } else {
    out.putU32(attribute, value);
  }
}

void putTargets(MessageBuilder& out, uint16_t attribute, const std::vector<Ip>& targets) {
  out.nest(attribute, [&] {
    for (size_t i = 0; i < targets.size(); ++i) out.put(i, targets[i].bytes());
  });
}

void putBond(MessageBuilder& out, const BondOptions& options) {
  for (auto& rule : bondRules()) {
    auto& value = options[rule.option];
    if (value) putNumber(out, uint16_t(rule.option), rule.bytes, *value);
  }
  if (options.arpTargets) putTargets(out, IFLA_BOND_ARP_IP_TARGET, *options.arpTargets);
  if (options.nsTargets) putTargets(out, IFLA_BOND_NS_IP6_TARGET, *options.nsTargets);
  if (options.actorSystem) {
    out.put(IFLA_BOND_AD_ACTOR_SYSTEM,
            kj::arrayPtr(options.actorSystem->data(), options.actorSystem->size()));
  }
}

// Puts the other end of the pair, which the kernel makes with this one.
void putPeer(MessageBuilder& out, const Veth& veth, uint32_t group) {
  out.nest(VETH_INFO_PEER, [&] {
    out.header<ifinfomsg>();
    putName(out, IFLA_IFNAME, veth.peer);
    if (group != 0) out.putU32(IFLA_GROUP, group);
  });
}

void putKind(MessageBuilder& out, const LinkKind& kind, uint32_t group) {
  auto named = [&](kj::StringPtr name) { out.putText(IFLA_INFO_KIND, name); };
  auto data = [&](auto&& fill) { out.nest(IFLA_INFO_DATA, fill); };
  KJ_SWITCH_ONEOF(kind) {
    KJ_CASE_ONEOF(bridge, Bridge) {
      named("bridge");
      if (bridge.options != BridgeOptions{}) data([&] { putBridge(out, bridge.options); });
    }
    KJ_CASE_ONEOF(dummy, Dummy) {
      named("dummy");
    }
    KJ_CASE_ONEOF(vlan, Vlan) {
      named("vlan");
      data([&] {
        out.putU16(IFLA_VLAN_ID, vlan.id);
        out.putU16Big(IFLA_VLAN_PROTOCOL, vlan.protocol);
      });
    }
    KJ_CASE_ONEOF(bond, Bond) {
      named("bond");
      if (!bond.options.empty()) data([&] { putBond(out, bond.options); });
    }
    KJ_CASE_ONEOF(wireguard, Wireguard) {
      named("wireguard");
    }
    KJ_CASE_ONEOF(vrf, Vrf) {
      named("vrf");
      data([&] { out.putU32(IFLA_VRF_TABLE, vrf.table); });
    }
    KJ_CASE_ONEOF(veth, Veth) {
      named("veth");
      data([&] { putPeer(out, veth, group); });
    }
  }
}

// Encodes a change of the data of a link's kind.
template <typename F>
kj::Array<kj::byte> encodeData(unsigned index, kj::StringPtr kind, F&& fill) {
  MessageBuilder out(RTM_NEWLINK, kRequest);
  out.header<ifinfomsg>().ifi_index = index;
  out.nest(IFLA_LINKINFO, [&] {
    out.putText(IFLA_INFO_KIND, kind);
    out.nest(IFLA_INFO_DATA, [&] { fill(out); });
  });
  return out.finish();
}

kj::Array<kj::byte> encodeSetLink(const SetLink& set) {
  MessageBuilder out(RTM_NEWLINK, kRequest);
  auto& header = out.header<ifinfomsg>();
  header.ifi_index = set.index;
  KJ_IF_MAYBE (up, set.up) {
    header.ifi_change = IFF_UP;
    header.ifi_flags = *up ? IFF_UP : 0;
  }
  if (set.hardwareAddress) {
    out.put(IFLA_ADDRESS, kj::arrayPtr(set.hardwareAddress->data(), set.hardwareAddress->size()));
  }
  KJ_IF_MAYBE (mtu, set.mtu) out.putU32(IFLA_MTU, *mtu);
  KJ_IF_MAYBE (master, set.master) out.putU32(IFLA_MASTER, *master);
  return out.finish();
}

kj::Array<kj::byte> encodeRenameLink(const RenameLink& rename) {
  MessageBuilder out(RTM_NEWLINK, kRequest);
  out.header<ifinfomsg>().ifi_index = rename.index;
  putName(out, IFLA_IFNAME, rename.name);
  return out.finish();
}

kj::Array<kj::byte> encodeAddLink(const AddLink& add) {
  MessageBuilder out(RTM_NEWLINK, kCreate);
  out.header<ifinfomsg>();
  putName(out, IFLA_IFNAME, add.name);
  KJ_IF_MAYBE (vlan, add.kind.tryGet<Vlan>()) out.putU32(IFLA_LINK, vlan->parent);
  if (add.group != 0) out.putU32(IFLA_GROUP, add.group);
  if (add.mtu != 0) out.putU32(IFLA_MTU, add.mtu);
  out.nest(IFLA_LINKINFO, [&] { putKind(out, add.kind, add.group); });
  return out.finish();
}

kj::Array<kj::byte> encodeSetBond(const SetBond& set) {
  return encodeData(set.index, "bond", [&](MessageBuilder& out) { putBond(out, set.options); });
}

kj::Array<kj::byte> encodeSetBridge(const SetBridge& set) {
  return encodeData(set.index, "bridge", [&](MessageBuilder& out) { putBridge(out, set.options); });
}

kj::Array<kj::byte> encodeDeleteLink(const DeleteLink& del) {
  MessageBuilder out(RTM_DELLINK, kRequest);
  out.header<ifinfomsg>().ifi_index = del.index;
  return out.finish();
}

// --- addresses and routes
void putIp(MessageBuilder& out, uint16_t attribute, const Ip& ip) {
  out.put(attribute, ip.bytes());
}

kj::Array<kj::byte> encodeAddress(uint16_t type, uint16_t flags, const Address& address,
                                  std::optional<uint32_t> lifetime = {}) {
  MessageBuilder out(type, flags);
  auto& header = out.header<ifaddrmsg>();
  header.ifa_family = address.prefix.address.family();
  header.ifa_prefixlen = address.prefix.length;
  header.ifa_scope = address.scope;
  header.ifa_index = address.link;
  putIp(out, IFA_LOCAL, address.prefix.address);
  putIp(out, IFA_ADDRESS, address.prefix.address);
  if (type == RTM_NEWADDR) {
    if (address.scope != RT_SCOPE_HOST) {
      KJ_IF_MAYBE (broadcast, address.prefix.broadcast()) putIp(out, IFA_BROADCAST, *broadcast);
    }
    if (address.flags != 0) out.putU32(IFA_FLAGS, address.flags);
    if (address.protocol != 0) out.putU8(IFA_PROTO, address.protocol);
    if (lifetime) {
      ifa_cacheinfo times{};
      times.ifa_valid = *lifetime;
      out.put(IFA_CACHEINFO, kj::arrayPtr(&times, 1).asBytes());
    }
  }
  return out.finish();
}

kj::Array<kj::byte> encodeRoute(uint16_t type, uint16_t flags, const Route& route) {
  MessageBuilder out(type, flags);
  auto& header = out.header<rtmsg>();
  header.rtm_family = route.destination.address.family();
  header.rtm_dst_len = route.destination.length;
  header.rtm_table = route.table < 256 ? route.table : uint8_t(RT_TABLE_UNSPEC);
  header.rtm_protocol = route.protocol;
  header.rtm_scope = route.scope;
  header.rtm_type = route.type;
  header.rtm_flags = route.flags;
  if (route.destination.length > 0) putIp(out, RTA_DST, route.destination.masked().address);
  KJ_IF_MAYBE (gateway, route.gateway) {
    if (gateway->family() == route.destination.address.family()) {
      putIp(out, RTA_GATEWAY, *gateway);
    } else {
      kj::Vector<kj::byte> via;
      uint16_t family = gateway->family();
      via.addAll(kj::arrayPtr(reinterpret_cast<kj::byte*>(&family), sizeof(family)));
      via.addAll(gateway->bytes());
      out.put(RTA_VIA, via.asPtr());
    }
  }
  if (route.link != 0) out.putU32(RTA_OIF, route.link);
  if (route.metric != 0) out.putU32(RTA_PRIORITY, route.metric);
  KJ_IF_MAYBE (source, route.source) putIp(out, RTA_PREFSRC, *source);
  if (route.mtu != 0) out.nest(RTA_METRICS, [&] { out.putU32(RTAX_MTU, route.mtu); });
  if (route.table >= 256) out.putU32(RTA_TABLE, route.table);
  return out.finish();
}

}  // namespace

kj::Array<kj::byte> encode(const Change& change) {
  KJ_SWITCH_ONEOF(change) {
    KJ_CASE_ONEOF(c, SetLink) {
      return encodeSetLink(c);
    }
    KJ_CASE_ONEOF(c, AddLink) {
      return encodeAddLink(c);
    }
    KJ_CASE_ONEOF(c, SetBond) {
      return encodeSetBond(c);
    }
    KJ_CASE_ONEOF(c, SetBridge) {
      return encodeSetBridge(c);
    }
    KJ_CASE_ONEOF(c, SetWireguard) {
      fail(ErrorKind::kInternal, "WireGuard is not of this protocol");
    }
    KJ_CASE_ONEOF(c, DeleteLink) {
      return encodeDeleteLink(c);
    }
    KJ_CASE_ONEOF(c, RenameLink) {
      return encodeRenameLink(c);
    }
    KJ_CASE_ONEOF(c, AddAddress) {
      return encodeAddress(RTM_NEWADDR, c.replace ? kReplace : kCreate, c.address, c.lifetime);
    }
    KJ_CASE_ONEOF(c, DeleteAddress) {
      return encodeAddress(RTM_DELADDR, kRequest, c.address);
    }
    KJ_CASE_ONEOF(c, AddRoute) {
      return encodeRoute(RTM_NEWROUTE, c.replace ? kReplace : kCreate, c.route);
    }
    KJ_CASE_ONEOF(c, DeleteRoute) {
      return encodeRoute(RTM_DELROUTE, kRequest, c.route);
    }
    KJ_CASE_ONEOF(c, AddRule) {
      return encodeAddRule(c.rule);
    }
    KJ_CASE_ONEOF(c, DeleteRule) {
      return encodeDeleteRule(c.rule);
    }
  }
  KJ_UNREACHABLE;
}

kj::Array<kj::byte> encodeLinkDump() {
  MessageBuilder out(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP);
  out.header<ifinfomsg>();
  out.putU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  return out.finish();
}

kj::Array<kj::byte> encodeAddressDump() {
  MessageBuilder out(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP);
  out.header<ifaddrmsg>();
  return out.finish();
}

kj::Array<kj::byte> encodeRouteDump(uint32_t table) {
  MessageBuilder out(RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP);
  out.header<rtmsg>().rtm_table = table < 256 ? table : uint8_t(RT_TABLE_UNSPEC);
  if (table >= 256) out.putU32(RTA_TABLE, table);
  return out.finish();
}

}  // namespace talos::netlink
