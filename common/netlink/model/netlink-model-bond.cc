#include "common/netlink/model/netlink-model-bond.h"

#include <errno.h>

namespace talos::netlink {

BondOptions standardBond() {
  BondOptions options;
  for (auto& rule : bondRules()) {
    if (rule.option == BondOption::kPrimary || rule.option == BondOption::kActiveMember) continue;
    options[rule.option] = rule.standard;
  }
  return options;
}

namespace {

uint32_t& valueOf(BondOptions& options, BondOption option) {
  auto& value = options[option];
  if (!value) value = 0;
  return *value;
}

// Makes the checks of the kernel that come before an option's value.
int checkBondRule(const Link& bond, size_t members, const BondRule& rule, uint32_t value,
                  const BondOptions& request, kj::String& message) {
  using O = BondOption;
  auto& options = *bond.bond;
  auto requested = [&](O option) { return request[option].value_or(0) != 0; };
  bool arp = rule.option == O::kArpInterval || rule.option == O::kArpValidate;
  if (arp && requested(O::kMiimon) && (value != 0 || rule.option == O::kArpValidate)) {
    message = kj::str("ARP monitoring and MII monitoring cannot both be used");
    return EINVAL;
  }
  if (!rule.fits(options.mode())) {
    message = kj::str("option not supported in this mode");
    return EACCES;
  }
  if (rule.empty && members > 0) {
    message = kj::str("unable to set because the bond device has slaves");
    return ENOTEMPTY;
  }
  if (rule.down && bond.up()) {
    message = kj::str("unable to set because the bond device is up");
    return EBUSY;
  }
  return value > rule.most || value < rule.least ? EINVAL : 0;
}

}  // namespace

int setBondNumber(ModelBond bond, const BondRule& rule, uint32_t value, const BondOptions& request,
                  kj::String& message) {
  using O = BondOption;
  if (int code = checkBondRule(bond.link, bond.members, rule, value, request, message)) return code;
  auto& options = *bond.link.bond;
  uint32_t miimon = options[O::kMiimon].value_or(0);
  switch (rule.option) {
    case O::kMode:
      options[O::kMode] = value;
      options[O::kArpValidate] = 0;
      if ((kArpModes >> value & 1) == 0) {
        options[O::kArpInterval] = 0;
        if (miimon == 0) options[O::kMiimon] = ruleOf(O::kMiimon).standardIn(BondMode(value));
      }
      if (BondMode(value) == BondMode::kBalanceAlb) options[O::kTlbDynamicLb] = 1;
      return 0;
    case O::kMiimon:
      // The delays are kept as multiples of miimon.
      for (auto delay : {O::kUpDelay, O::kDownDelay, O::kPeerNotifDelay}) {
        auto& there = valueOf(options, delay);
        there = miimon == 0 ? 0 : there / miimon * value;
      }
      options[O::kMiimon] = value;
      if (value != 0 && options[O::kArpInterval].value_or(0) != 0) {
        options[O::kArpInterval] = 0;
        options[O::kArpValidate] = 0;
      }
      return 0;
    case O::kUpDelay:
    case O::kDownDelay:
    case O::kPeerNotifDelay:
      if (miimon == 0) {
        message = kj::str("MII monitoring is off");
        return EPERM;
      }
      options[rule.option] = value / miimon * miimon;
      return 0;
    case O::kArpInterval:
      options[rule.option] = value;
      if (value != 0 && miimon != 0) {
        options[O::kMiimon] = 0;
        for (auto delay : {O::kUpDelay, O::kDownDelay, O::kPeerNotifDelay}) options[delay] = 0;
      }
      return 0;
    case O::kPrimary:
      bond.preferred = value;
      options[rule.option].reset();
      if (bond.named != nullptr) options[rule.option] = value;
      return 0;
    case O::kActiveMember:
      if (value != 0 && (bond.named == nullptr || !bond.named->up() || !bond.named->carrier)) {
        return EINVAL;
      }
      [[fallthrough]];
    default:
      options[rule.option] = value;
      return 0;
  }
}

}  // namespace talos::netlink
