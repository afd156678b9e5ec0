// Selects the options to send to a bond, under the conditions of common/bond/bond-rules.h.
#include "common/bond/bond-rules.h"
#include "networkd/plan/plan-links.h"

namespace talos::networkd {

using netlink::BondOption;
using netlink::BondOptions;
using O = BondOption;

namespace {

constexpr O kDelays[] = {O::kUpDelay, O::kDownDelay, O::kPeerNotifDelay};

uint32_t valueOr0(const BondOptions& options, O option) {
  return options[option].value_or(0);
}

}  // namespace

BondOptions bondDifference(const BondOptions& effective, const BondOptions& there) {
  BondOptions send;
  bool newMode = effective.mode() != there.mode();
  for (auto& rule : netlink::bondRules()) {
    auto& value = effective[rule.option];
    if (!value) continue;
    auto& now = there[rule.option];
    // An older kernel does not report an option that it does not have.
    bool differs = now && *now != *value;
    // A change of the mode resets some options, so all non-standard options are sent again.
    bool again = newMode && now && *value != rule.standardIn(effective.mode());
    if (differs || again) send[rule.option] = value;
  }
  if (send[O::kMiimon] && valueOr0(send, O::kMiimon) != 0) {
    // The driver keeps the delays as multiples of miimon, so they changed with it. miimon also ends
    // ARP monitoring with its options; naming these in the same message is an error.
    for (auto delay : kDelays) {
      if (valueOr0(effective, delay) != 0) send[delay] = effective[delay];
    }
    send[O::kArpValidate].reset();
  }
  if (effective.arpTargets &&
      *effective.arpTargets != there.arpTargets.value_or(std::vector<Ip>())) {
    send.arpTargets = effective.arpTargets;
  }
  // Only a privileged reader gets the system, in mode 802.3ad; a new mode keeps it.
  auto system = there.actorSystem.value_or(netlink::Mac{});
  if (effective.actorSystem && *effective.actorSystem != system) {
    send.actorSystem = effective.actorSystem;
  }
  return send;
}

}  // namespace talos::networkd
