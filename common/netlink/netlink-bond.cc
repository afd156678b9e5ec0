#include "common/netlink/netlink-bond.h"

#include <linux/if_link.h>

#include <algorithm>

#include "common/bond/bond-options.h"
#include "common/netlink/netlink-attributes.h"
#include "common/netlink/netlink-codec.h"

namespace talos::netlink {
namespace {

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

kj::String listed(const std::vector<Ip>& targets) {
  kj::Vector<kj::String> texts;
  for (auto& target : targets) texts.add(target.toString());
  return kj::strArray(texts, " ");
}

}  // namespace

kj::StringPtr miiStatusName(uint8_t status) {
  constexpr kj::StringPtr kNames[] = {"up"_kj, "going down"_kj, "down"_kj, "going up"_kj};
  return status < kj::size(kNames) ? kNames[status] : "unknown"_kj;
}

kj::String describe(const BondOptions& options, const NameOfLink& nameOf) {
  kj::Vector<kj::String> parts;
  for (auto& rule : bondRules()) {
    auto& value = options[rule.option];
    if (!value) continue;
    if (rule.option == BondOption::kMode) {
      parts.add(kj::str("mode ", netlink::nameOf(options.mode())));
    } else if (rule.option == BondOption::kPrimary || rule.option == BondOption::kActiveMember) {
      parts.add(kj::str(rule.name, ' ', nameOf(*value)));
    } else {
      parts.add(kj::str(rule.name, ' ', *value));
    }
  }
  if (options.arpTargets) parts.add(kj::str("arpIPTarget [", listed(*options.arpTargets), "]"));
  if (options.nsTargets) parts.add(kj::str("nsIP6Target [", listed(*options.nsTargets), "]"));
  if (options.actorSystem) parts.add(kj::str("adActorSystem"));
  return kj::strArray(parts, ", ");
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

}  // namespace talos::netlink
