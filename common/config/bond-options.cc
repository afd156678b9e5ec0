#include "common/config/bond-options.h"

#include <kj/vector.h>

namespace talos::netlink {

using O = BondOption;

namespace {

constexpr O kDelays[] = {O::kUpDelay, O::kDownDelay, O::kPeerNotifDelay};

uint32_t valueOr0(const BondOptions& options, O option) {
  return options[option].value_or(0);
}

kj::Maybe<Mac> parseMac(kj::StringPtr text) {
  Mac mac;
  if (text.size() != mac.size() * 3 - 1) return nullptr;
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < mac.size(); ++i) {
    int high = digit(text[i * 3]), low = digit(text[i * 3 + 1]);
    bool separated = i + 1 == mac.size() || text[i * 3 + 2] == ':';
    if (high < 0 || low < 0 || !separated) return nullptr;
    mac[i] = high << 4 | low;
  }
  return mac;
}

// Whether the option does something in this mode: one that does nothing is not worth taking a bond
// down for.
bool matters(const BondRule& rule, BondMode mode) {
  if (rule.option == O::kAdSelect) return mode == BondMode::kLacp;
  if (rule.option == O::kFailOverMac) return mode == BondMode::kActiveBackup;
  return rule.fits(mode);
}

// Set apart: they name links, which have to be members first.
bool namesLink(O option) {
  return option == O::kPrimary || option == O::kActiveMember;
}

}  // namespace

kj::String modesOf(const BondRule& rule) {
  kj::Vector<kj::StringPtr> names;
  for (unsigned mode = 0; mode < kBondModes; ++mode) {
    if (matters(rule, BondMode(mode))) names.add(nameOf(BondMode(mode)));
  }
  auto last = names.back();
  names.removeLast();
  if (names.size() == 0) return kj::str("mode ", last);
  return kj::str("modes ", kj::strArray(names, ", "), " and ", last);
}

// Where the config's zero stands for the standard, it is not given.
BondOptions bondOptions(config::Bond::Reader bond) {
  BondOptions options;
  auto some = [&](O option, uint32_t value) {
    if (value != 0) options[option] = value;
  };
  options[O::kMode] = uint32_t(bond.getMode());
  some(O::kMiimon, bond.getMiimon());
  some(O::kUpDelay, bond.getUpdelay());
  some(O::kDownDelay, bond.getDowndelay());
  options[O::kUseCarrier] = bond.getUseCarrier() ? 1 : 0;
  some(O::kArpInterval, bond.getArpInterval());
  some(O::kArpValidate, uint32_t(bond.getArpValidate()));
  some(O::kArpAllTargets, uint32_t(bond.getArpAllTargets()));
  some(O::kPrimaryReselect, uint32_t(bond.getPrimaryReselect()));
  some(O::kFailOverMac, uint32_t(bond.getFailOverMac()));
  some(O::kXmitHashPolicy, uint32_t(bond.getXmitHashPolicy()));
  options[O::kResendIgmp] = bond.getResendIgmp();
  options[O::kNumPeerNotif] = bond.getNumPeerNotif();
  some(O::kAllMembersActive, bond.getAllSlavesActive());
  some(O::kMinLinks, bond.getMinLinks());
  some(O::kLpInterval, bond.getLpInterval());
  options[O::kPacketsPerMember] = bond.getPacketsPerSlave();
  some(O::kLacpRate, uint32_t(bond.getLacpRate()));
  some(O::kAdSelect, uint32_t(bond.getAdSelect()));
  some(O::kAdActorSysPrio, bond.getAdActorSysPrio());
  some(O::kAdUserPortKey, bond.getAdUserPortKey());
  options[O::kTlbDynamicLb] = bond.getTlbDynamicLb();
  some(O::kPeerNotifDelay, bond.getPeerNotifyDelay());
  std::vector<Ip> targets;
  for (auto text : bond.getArpIPTarget()) {
    KJ_IF_MAYBE (ip, Ip::parse(text)) {
      if (ip->family() == AF_INET) targets.push_back(*ip);
    }
  }
  if (!targets.empty()) options.arpTargets = std::move(targets);
  KJ_IF_MAYBE (mac, parseMac(bond.getAdActorSystem())) {
    if (*mac != netlink::Mac{}) options.actorSystem = *mac;
  }
  return options;
}

void fillBond(config::Bond::Builder out, const BondOptions& options) {
  auto take = [&](O option, auto&& set) {
    if (options[option]) set(*options[option]);
  };
  out.setMode(config::BondMode(options.mode()));
  take(O::kMiimon, [&](auto v) { out.setMiimon(v); });
  take(O::kUpDelay, [&](auto v) { out.setUpdelay(v); });
  take(O::kDownDelay, [&](auto v) { out.setDowndelay(v); });
  take(O::kUseCarrier, [&](auto v) { out.setUseCarrier(v != 0); });
  take(O::kArpInterval, [&](auto v) { out.setArpInterval(v); });
  take(O::kArpValidate, [&](auto v) { out.setArpValidate(config::BondArpValidate(v)); });
  take(O::kArpAllTargets, [&](auto v) { out.setArpAllTargets(config::BondArpAllTargets(v)); });
  take(O::kPrimaryReselect,
       [&](auto v) { out.setPrimaryReselect(config::BondPrimaryReselect(v)); });
  take(O::kFailOverMac, [&](auto v) { out.setFailOverMac(config::BondFailOverMac(v)); });
  take(O::kXmitHashPolicy, [&](auto v) { out.setXmitHashPolicy(config::BondXmitHashPolicy(v)); });
  take(O::kResendIgmp, [&](auto v) { out.setResendIgmp(v); });
  take(O::kNumPeerNotif, [&](auto v) { out.setNumPeerNotif(v); });
  take(O::kAllMembersActive, [&](auto v) { out.setAllSlavesActive(v); });
  take(O::kMinLinks, [&](auto v) { out.setMinLinks(v); });
  take(O::kLpInterval, [&](auto v) { out.setLpInterval(v); });
  take(O::kPacketsPerMember, [&](auto v) { out.setPacketsPerSlave(v); });
  take(O::kLacpRate, [&](auto v) { out.setLacpRate(config::BondLacpRate(v)); });
  take(O::kAdSelect, [&](auto v) { out.setAdSelect(config::BondAdSelect(v)); });
  take(O::kAdActorSysPrio, [&](auto v) { out.setAdActorSysPrio(v); });
  take(O::kAdUserPortKey, [&](auto v) { out.setAdUserPortKey(v); });
  take(O::kTlbDynamicLb, [&](auto v) { out.setTlbDynamicLb(v); });
  take(O::kPeerNotifDelay, [&](auto v) { out.setPeerNotifyDelay(v); });
  if (options.arpTargets && !options.arpTargets->empty()) {
    auto list = out.initArpIPTarget(options.arpTargets->size());
    for (size_t i = 0; i < list.size(); ++i) list.set(i, (*options.arpTargets)[i].toString());
  }
}

// What is no value of the option counts as not given.
uint32_t valueOrStandard(const BondRule& rule, const std::optional<uint32_t>& given, BondMode mode,
                         BondProblem& problem) {
  if (!given) return rule.standardIn(mode);
  if (*given <= rule.most && *given >= rule.least) return *given;
  problem(rule.name, kj::str("is ", *given, "; must be ", rule.least, " to ", rule.most));
  return rule.standardIn(mode);
}

// The driver watches links in one of two ways, and wants nothing of the other beside it.
void chooseMonitoring(BondOptions& options, BondProblem& problem) {
  auto mode = options.mode();
  auto miimon = valueOr0(options, O::kMiimon);
  if (miimon == 0 && !ruleOf(O::kArpInterval).fits(mode)) {
    options[O::kMiimon] = miimon = ruleOf(O::kMiimon).standardIn(mode);
  }
  for (auto option : {O::kArpInterval, O::kArpValidate}) {
    if (valueOr0(options, option) == 0) continue;
    if (miimon != 0) {
      problem(ruleOf(option).name, "cannot be used with miimon; miimon is used");
      options[option] = 0;
    } else if (option == O::kArpValidate && valueOr0(options, O::kArpInterval) == 0) {
      problem(ruleOf(option).name, "has no effect without arpInterval");
      options[option] = 0;
    }
  }
  for (auto delay : kDelays) {
    auto& value = options[delay];
    if (miimon != 0) {
      value = *value / miimon * miimon;  // as the driver rounds it
      continue;
    }
    if (*value != 0) problem(ruleOf(delay).name, "has no effect without miimon");
    value.reset();
  }
}

BondOptions effectiveBond(const BondOptions& given, BondProblem problem) {
  BondOptions result;
  auto mode = given.mode();
  for (auto& rule : bondRules()) {
    if (namesLink(rule.option)) continue;
    auto& value = given[rule.option];
    if (matters(rule, mode)) {
      result[rule.option] = valueOrStandard(rule, value, mode, problem);
    } else if (value && *value != rule.standard) {
      problem(rule.name, kj::str("is used only in ", modesOf(rule)));
    }
  }
  chooseMonitoring(result, problem);
  if (ruleOf(O::kArpInterval).fits(mode)) {
    result.arpTargets = given.arpTargets.value_or(std::vector<Ip>());
  }
  if (mode == BondMode::kLacp) {
    result.actorSystem = given.actorSystem.value_or(Mac{});
  } else if (given.actorSystem) {
    problem("adActorSystem", "is used only in mode 802.3ad");
  }
  return result;
}

}  // namespace talos::netlink
