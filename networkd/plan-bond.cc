// What has to be sent to a bond. The conditions are those of common/netlink-bond.h.
#include "networkd/plan-links.h"

namespace talos::networkd {

using netlink::BondMode;
using netlink::BondOption;
using netlink::BondOptions;
using O = BondOption;

namespace {

constexpr O kDelays[] = {O::kUpDelay, O::kDownDelay, O::kPeerNotifDelay};

uint32_t valueOr0(const BondOptions& options, O option) {
  return options[option].value_or(0);
}

// Whether the option does something in this mode: one that does nothing is not worth taking a bond
// down for.
bool matters(const netlink::BondRule& rule, BondMode mode) {
  if (rule.option == O::kAdSelect) return mode == BondMode::kLacp;
  if (rule.option == O::kFailOverMac) return mode == BondMode::kActiveBackup;
  return rule.fits(mode);
}

// Set apart: they name links, which have to be members first.
bool namesLink(O option) {
  return option == O::kPrimary || option == O::kActiveMember;
}

kj::String modesOf(const netlink::BondRule& rule) {
  kj::Vector<kj::StringPtr> names;
  for (unsigned mode = 0; mode < netlink::kBondModes; ++mode) {
    if (matters(rule, BondMode(mode))) names.add(netlink::nameOf(BondMode(mode)));
  }
  return kj::strArray(names, ", ");
}

}  // namespace

BondOptions effectiveBond(const BondOptions& given,
                          kj::FunctionParam<void(kj::StringPtr)> problem) {
  BondOptions result;
  auto mode = given.mode();
  for (auto& rule : netlink::bondRules()) {
    if (namesLink(rule.option)) continue;
    auto& value = given[rule.option];
    if (!matters(rule, mode)) {
      if (value && *value != rule.standard) {
        problem(kj::str(rule.name, " has a meaning only in mode ", modesOf(rule), ", not in ",
                        netlink::nameOf(mode)));
      }
      continue;
    }
    if (value && (*value > rule.most || *value < rule.least)) {
      problem(kj::str(rule.name, " is ", *value, "; it is from ", rule.least, " to ", rule.most));
    }
    bool good = value && *value <= rule.most && *value >= rule.least;
    result[rule.option] = good ? *value : rule.standardIn(mode);
  }
  // The driver watches links in one of two ways.
  uint32_t miimon = valueOr0(result, O::kMiimon);
  if (miimon == 0 && (netlink::kArpModes >> unsigned(mode) & 1) == 0) {
    result[O::kMiimon] = miimon = netlink::ruleOf(O::kMiimon).standardIn(mode);
  }
  bool arp = valueOr0(result, O::kArpInterval) != 0;
  if (arp && miimon != 0) {
    problem("arpInterval and miimon exclude each other; miimon is used");
    result[O::kArpInterval] = 0;
    arp = false;
  }
  if (!arp && result[O::kArpValidate]) {
    if (valueOr0(result, O::kArpValidate) != 0 && miimon == 0) {
      problem("arpValidate has no meaning without arpInterval");
    }
    result[O::kArpValidate] = 0;
  }
  for (auto delay : kDelays) {
    auto& value = result[delay];
    if (miimon != 0) {
      value = *value / miimon * miimon;  // as the driver rounds it
    } else {
      if (*value != 0) {
        problem(kj::str(netlink::ruleOf(delay).name, " has no meaning without miimon"));
      }
      value.reset();
    }
  }
  if ((netlink::kArpModes >> unsigned(mode) & 1) != 0) {
    result.arpTargets = given.arpTargets.value_or(std::vector<Ip>());
  }
  if (mode == BondMode::kLacp) {
    result.actorSystem = given.actorSystem.value_or(netlink::Mac{});
  } else if (given.actorSystem) {
    problem("adActorSystem has a meaning only in mode 802.3ad");
  }
  return result;
}

BondOptions bondDifference(const BondOptions& effective, const BondOptions& there) {
  BondOptions send;
  bool newMode = effective.mode() != there.mode();
  for (auto& rule : netlink::bondRules()) {
    auto& value = effective[rule.option];
    if (!value) continue;
    auto& now = there[rule.option];
    // An older kernel that does not tell an option does not have it.
    bool differs = now && *now != *value;
    // A change of the mode sets some options back, so all that are not standard go along.
    bool again = newMode && now && *value != rule.standardIn(effective.mode());
    if (differs || again) send[rule.option] = value;
  }
  if (send[O::kMiimon] && valueOr0(send, O::kMiimon) != 0) {
    // Kept as multiples of it, so they changed with it. And it ends ARP monitoring with all that
    // belongs to it; naming that in the same message is an error.
    for (auto delay : kDelays) {
      if (valueOr0(effective, delay) != 0) send[delay] = effective[delay];
    }
    send[O::kArpValidate].reset();
  }
  if (effective.arpTargets &&
      *effective.arpTargets != there.arpTargets.value_or(std::vector<Ip>())) {
    send.arpTargets = effective.arpTargets;
  }
  // Only a privileged reader is told the system, in mode 802.3ad; in a new mode it is what it was.
  auto system = there.actorSystem.value_or(netlink::Mac{});
  if (effective.actorSystem && *effective.actorSystem != system) {
    send.actorSystem = effective.actorSystem;
  }
  return send;
}

}  // namespace talos::networkd
