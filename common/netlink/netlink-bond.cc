#include "common/netlink/netlink-bond.h"

#include <kj/debug.h>
#include <linux/if_link.h>

#include <algorithm>

#include "common/base/annotation.h"
#include "common/netlink/netlink-attributes.h"
#include "common/netlink/netlink-codec.h"
#include "rpc/config.capnp.h"

namespace talos::netlink {
namespace {

constexpr uint8_t kAll = 0b1111111, kPrimaryModes = 0b1100010, kAdaptive = 0b1100000,
                  kRoundRobin = 0b0000001;
constexpr uint32_t kInt = 0x7fffffff;  // of the driver's int
constexpr uint32_t kLinkMonitoring = 100;

using O = BondOption;
constexpr BondRule kRules[] = {
    // option, name, bytes, standard, down, empty, modes, most, least
    {O::kMode, "mode"_kj, 1, 0, true, true, kAll, 6},
    {O::kActiveMember, "activeMember"_kj, 4, 0, false, false, kPrimaryModes, kInt},
    {O::kMiimon, "miimon"_kj, 4, 0, false, false, kAll, kInt},
    {O::kUpDelay, "updelay"_kj, 4, 0, false, false, kAll, kInt},
    {O::kDownDelay, "downdelay"_kj, 4, 0, false, false, kAll, kInt},
    {O::kPeerNotifDelay, "peerNotifyDelay"_kj, 4, 0, false, false, kAll, 300000},
    {O::kUseCarrier, "useCarrier"_kj, 1, 1, false, false, kAll, 1},
    {O::kArpInterval, "arpInterval"_kj, 4, 0, false, false, kArpModes, kInt},
    {O::kArpValidate, "arpValidate"_kj, 4, 0, false, false, kArpModes, 6},
    {O::kArpAllTargets, "arpAllTargets"_kj, 4, 0, false, false, kAll, 1},
    {O::kPrimary, "primary"_kj, 4, 0, false, false, kPrimaryModes, kInt},
    {O::kPrimaryReselect, "primaryReselect"_kj, 1, 0, false, false, kAll, 2},
    {O::kFailOverMac, "failOverMac"_kj, 1, 0, false, true, kAll, 2},
    {O::kXmitHashPolicy, "xmitHashPolicy"_kj, 1, 0, false, false, kAll, 5},
    {O::kResendIgmp, "resendIgmp"_kj, 4, 1, false, false, kAll, 255},
    {O::kNumPeerNotif, "numPeerNotif"_kj, 1, 1, false, false, kAll, 255},
    {O::kAllMembersActive, "allSlavesActive"_kj, 1, 0, false, false, kAll, 1},
    {O::kMinLinks, "minLinks"_kj, 4, 0, false, false, kAll, kInt},
    {O::kLpInterval, "lpInterval"_kj, 4, 1, false, false, kAll, kInt, 1},
    {O::kPacketsPerMember, "packetsPerSlave"_kj, 4, 1, false, false, kRoundRobin, 65535},
    {O::kLacpActive, "lacpActive"_kj, 1, 1, true, false, kLacpModes, 1},
    {O::kLacpRate, "lacpRate"_kj, 1, 0, true, false, kLacpModes, 1},
    {O::kAdSelect, "adSelect"_kj, 1, 0, true, false, kAll, 2},
    {O::kAdActorSysPrio, "adActorSysPrio"_kj, 2, 65535, false, false, kLacpModes, 65535, 1},
    {O::kAdUserPortKey, "adUserPortKey"_kj, 2, 0, true, false, kLacpModes, 1023},
    {O::kTlbDynamicLb, "tlbDynamicLb"_kj, 1, 1, true, false, kAdaptive, 1},
    {O::kMissedMax, "missedMax"_kj, 1, 2, false, false, kArpModes, 255, 1},
    {O::kCoupledControl, "coupledControl"_kj, 1, 1, true, false, kLacpModes, 1},
};

// The schema of the machine config has the words, in the order of the kernel's numbers.
static_assert(unsigned(config::BondMode::LACP) == unsigned(BondMode::kLacp) &&
              unsigned(config::BondMode::BALANCE_ALB) == unsigned(BondMode::kBalanceAlb));

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

kj::ArrayPtr<const BondRule> bondRules() {
  return kRules;
}

const BondRule& ruleOf(BondOption option) {
  for (auto& rule : kRules) {
    if (rule.option == option) return rule;
  }
  KJ_UNREACHABLE;
}

uint32_t BondRule::standardIn(BondMode mode) const {
  // These modes cannot do without link monitoring, so the driver switches it on.
  if (option == O::kMiimon && (kArpModes >> unsigned(mode) & 1) == 0) return kLinkMonitoring;
  return standard;
}

BondMode BondOptions::mode() const {
  auto value = numbers[size_t(O::kMode)].value_or(0);
  return value < kBondModes ? BondMode(value) : BondMode::kBalanceRr;
}

kj::StringPtr nameOf(BondMode mode) {
  return annotation::wordOf(config::BondMode(mode)).orDefault("unknown");
}

kj::StringPtr miiStatusName(uint8_t status) {
  constexpr kj::StringPtr kNames[] = {"up"_kj, "going down"_kj, "down"_kj, "going up"_kj};
  return status < kj::size(kNames) ? kNames[status] : "unknown"_kj;
}

kj::String describe(const BondOptions& options, const NameOfLink& nameOf) {
  kj::Vector<kj::String> parts;
  for (auto& rule : kRules) {
    auto& value = options[rule.option];
    if (!value) continue;
    if (rule.option == O::kMode) {
      parts.add(kj::str("mode ", netlink::nameOf(options.mode())));
    } else if (rule.option == O::kPrimary || rule.option == O::kActiveMember) {
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
  for (auto& rule : kRules) {
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
      for (auto& rule : kRules) {
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
