#include "common/netlink/netlink-link.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <net/if.h>

#include "common/base/error.h"
#include "common/netlink/netlink-attributes.h"

namespace talos::netlink {

// --- encoding
namespace {

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

void putKind(MessageBuilder& out, const LinkKind& kind) {
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

}  // namespace

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
  out.nest(IFLA_LINKINFO, [&] { putKind(out, add.kind); });
  return out.finish();
}

kj::Array<kj::byte> encodeSetBond(const SetBond& set) {
  return encodeData(set.index, "bond", [&](MessageBuilder& out) { putBond(out, set.options); });
}

kj::Array<kj::byte> encodeSetBridge(const SetBridge& set) {
  return encodeData(set.index, "bridge", [&](MessageBuilder& out) { putBridge(out, set.options); });
}

// --- decoding
namespace {

VlanTag readVlan(const nlattr* data) {
  VlanTag tag;
  eachNested(data, [&](unsigned type, const nlattr* attribute) {
    if (type == IFLA_VLAN_ID) read(attribute, tag.id);
    if (type == IFLA_VLAN_PROTOCOL) {
      tag.protocol = ntohs(number<uint16_t>(attribute).orDefault(htons(0x8100)));
    }
  });
  return tag;
}

BridgeOptions readBridge(const nlattr* data) {
  BridgeOptions options;
  eachNested(data, [&](unsigned type, const nlattr* attribute) {
    if (type == IFLA_BR_STP_STATE) options.stp = number<uint32_t>(attribute).orDefault(0) != 0;
    if (type == IFLA_BR_VLAN_FILTERING) {
      options.vlanFiltering = number<uint8_t>(attribute).orDefault(0) != 0;
    }
  });
  return options;
}

void readLinkInfo(const nlattr* info, Link& link) {
  const nlattr *data = nullptr, *memberData = nullptr;  // the kinds may follow them
  eachNested(info, [&](unsigned type, const nlattr* nested) {
    if (type == IFLA_INFO_KIND) link.kind = text(payload(nested));
    if (type == IFLA_INFO_SLAVE_KIND) link.memberKind = text(payload(nested));
    if (type == IFLA_INFO_DATA) data = nested;
    if (type == IFLA_INFO_SLAVE_DATA) memberData = nested;
  });
  if (data != nullptr) {
    if (link.kind == "vlan") link.vlan = readVlan(data);
    if (link.kind == "bridge") link.bridge = readBridge(data);
    if (link.kind == "bond") {
      link.bond = readBond(data);
      link.bondPartner = readBondPartner(data);
    }
  }
  if (memberData != nullptr && link.memberKind == "bond") {
    link.bondMember = readBondMember(memberData);
  }
}

}  // namespace

kj::Maybe<Link> decodeLink(const nlmsghdr* message) {
  KJ_IF_MAYBE (header, fixedHeader<ifinfomsg>(message)) {
    Link link;
    link.index = header->ifi_index;
    link.type = header->ifi_type;
    link.flags = header->ifi_flags;
    eachAttribute(message, sizeof(ifinfomsg), [&](unsigned type, const nlattr* attribute) {
      switch (type) {
        case IFLA_IFNAME:
          link.name = text(payload(attribute));
          break;
        case IFLA_MTU:
          read(attribute, link.mtu);
          break;
        case IFLA_ADDRESS:
          link.hardwareAddress = kj::heapArray(payload(attribute));
          break;
        case IFLA_MASTER:
          read(attribute, link.master);
          break;
        case IFLA_LINK:
          read(attribute, link.parent);
          break;
        case IFLA_OPERSTATE:
          read(attribute, link.operState);
          break;
        case IFLA_CARRIER:
          link.carrier = number<uint8_t>(attribute).orDefault(0) != 0;
          break;
        case IFLA_GROUP:
          read(attribute, link.group);
          break;
        case IFLA_PERM_ADDRESS:
          link.permanentAddress = kj::heapArray(payload(attribute));
          break;
        case IFLA_BROADCAST:
          link.broadcastAddress = kj::heapArray(payload(attribute));
          break;
        case IFLA_QDISC:
          link.queueDiscipline = text(payload(attribute));
          break;
        case IFLA_LINKINFO:
          readLinkInfo(attribute, link);
          break;
        default:
          break;
      }
    });
    return kj::mv(link);
  }
  return nullptr;
}

}  // namespace talos::netlink
