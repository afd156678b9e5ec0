#include <arpa/inet.h>
#include <linux/if_link.h>

#include <algorithm>

#include "common/netlink/netlink-attributes.h"
#include "common/netlink/netlink-codec.h"

namespace talos::netlink {
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

std::optional<uint32_t> readVrfTable(const nlattr* data) {
  std::optional<uint32_t> table;
  eachNested(data, [&](unsigned type, const nlattr* attribute) {
    if (type != IFLA_VRF_TABLE) return;
    KJ_IF_MAYBE (value, number<uint32_t>(attribute)) table = *value;
  });
  return table;
}

std::vector<Ip> readTargets(const nlattr* list) {
  std::vector<Ip> targets;
  eachNested(list, [&](unsigned, const nlattr* element) {
    KJ_IF_MAYBE (ip, Ip::fromBytes(payload(element))) {
      if (targets.size() < kMostBondTargets) targets.push_back(*ip);
    }
  });
  return targets;
}

Mac readMac(const nlattr* attribute) {
  Mac mac{};
  auto bytes = payload(attribute);
  if (bytes.size() >= mac.size()) std::copy_n(bytes.begin(), mac.size(), mac.begin());
  return mac;
}

BondOptions readBond(const nlattr* data) {
  BondOptions options;
  eachNested(data, [&](unsigned type, const nlattr* attribute) {
    if (type == IFLA_BOND_ARP_IP_TARGET) {
      options.arpTargets = readTargets(attribute);
    } else if (type == IFLA_BOND_NS_IP6_TARGET) {
      options.nsTargets = readTargets(attribute);
    } else if (type == IFLA_BOND_AD_ACTOR_SYSTEM) {
      options.actorSystem = readMac(attribute);
    } else {
      for (auto& rule : bondRules()) {
        if (unsigned(rule.option) != type) continue;
        auto keep = [&](auto maybe) {
          KJ_IF_MAYBE (value, maybe) options[rule.option] = *value;
        };
        if (rule.bytes == 1) keep(number<uint8_t>(attribute));
        if (rule.bytes == 2) keep(number<uint16_t>(attribute));
        if (rule.bytes == 4) keep(number<uint32_t>(attribute));
      }
    }
  });
  return options;
}

std::optional<BondPartner> readBondPartner(const nlattr* data) {
  std::optional<BondPartner> result;
  eachNested(data, [&](unsigned outer, const nlattr* info) {
    if (outer != IFLA_BOND_AD_INFO) return;
    BondPartner partner;
    eachNested(info, [&](unsigned type, const nlattr* attribute) {
      if (type == IFLA_BOND_AD_INFO_AGGREGATOR) read(attribute, partner.aggregator);
      if (type == IFLA_BOND_AD_INFO_NUM_PORTS) read(attribute, partner.ports);
      if (type == IFLA_BOND_AD_INFO_ACTOR_KEY) read(attribute, partner.actorKey);
      if (type == IFLA_BOND_AD_INFO_PARTNER_KEY) read(attribute, partner.partnerKey);
      if (type == IFLA_BOND_AD_INFO_PARTNER_MAC) partner.partner = readMac(attribute);
    });
    result = partner;
  });
  return result;
}

BondMember readBondMember(const nlattr* data) {
  BondMember member;
  eachNested(data, [&](unsigned type, const nlattr* attribute) {
    switch (type) {
      case IFLA_BOND_SLAVE_STATE:
        member.backup = number<uint8_t>(attribute).orDefault(0) != 0;
        break;
      case IFLA_BOND_SLAVE_MII_STATUS:
        read(attribute, member.miiStatus);
        break;
      case IFLA_BOND_SLAVE_LINK_FAILURE_COUNT:
        read(attribute, member.failures);
        break;
      case IFLA_BOND_SLAVE_PERM_HWADDR:
        member.permanentAddress = readMac(attribute);
        break;
      case IFLA_BOND_SLAVE_QUEUE_ID:
        read(attribute, member.queue);
        break;
      case IFLA_BOND_SLAVE_AD_AGGREGATOR_ID:
        read(attribute, member.aggregator);
        break;
      default:
        break;
    }
  });
  return member;
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
    if (link.kind == "vrf") link.vrfTable = readVrfTable(data);
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
