// The part of plan() for links: which links are created, removed, joined and set, in an order that
// the kernel accepts and that takes down as few links as possible. Pure.
//
// The rules, in the order of the steps:
// * A link of networkd that is not wanted is removed, VLANs before their parents.
// * A new link is created with all its options at once; links on it or in it follow with the next
//   plan, which knows its index.
// * A bond is emptied only for an option that requires an empty bond (mode, failOverMac) and
//   taken down only for one that requires it down; all its options go in one message.
// * A link joins a bond while down, after the bond's options and MTU; the bond sets it up.
// * A new table of a VRF, and a new peer of a veth, need another link: it is removed and created.
//   The ends of a pair are created together, and removed together.
// * `primary` is set when its link has joined.
// * A bridge gets the hardware address of a port of the config before this port joins. Then it
//   does not follow ports of other programs: with the address, DHCP would lose its lease.
// * A parent's MTU is set before that of its VLANs, and a parent goes up before its VLANs.
// * Peers of WireGuard are changed one by one; unchanged peers are not touched.
// * The port of WireGuard is that of the config. Without one the kernel chooses: a port that an
//   earlier config gave to the link (tunnel-ports.h) is given back once, and every other port
//   stays, because it is the choice of the kernel or of another program.
//
// A part that is impossible (a missing link, a name in use, an option without a meaning in the
// mode) is a problem in words and does not stop the rest.
#pragma once

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

class LinkPlanner {
 public:
  LinkPlanner(const Wanted& wanted, const Observed& observed, Plan& result);
  ~LinkPlanner() noexcept(false);
  KJ_DISALLOW_COPY(LinkPlanner);

  // Returns the steps, in order; fills in the problems and the versions of the specs that are
  // already applied.
  kj::Vector<Step> run();

  // After run(): returns true if the link is up after the steps.
  bool willBeUp(const netlink::Link& link);
  bool goesAway(unsigned index);
  // Returns true if a step creates a link of this name, which has no index yet.
  bool isNew(kj::StringPtr name) const;

 private:
  class Impl;
  kj::Own<Impl> impl;
};

// Returns the change that makes the device as wanted; nullptr if nothing differs. `ports`: those
// that configs gave to links. Problems: two peers that claim one network, a key that has not
// arrived.
kj::Maybe<netlink::SetWireguard> wireguardDifference(
    unsigned link, const WantedWireguard& wanted, const netlink::WireguardDevice& there,
    const std::vector<TunnelPort>& ports, int64_t now,
    kj::FunctionParam<void(kj::StringPtr)> problem);

// Changes the device as the kernel does.
void applyTo(netlink::WireguardDevice& device, const netlink::SetWireguard& set);

// Returns the seconds until the first peer at another address than the configured one will have
// been silent so long that it gets its endpoint again: the kernel reports neither event.
kj::Maybe<int64_t> untilSilence(const Wanted& wanted, const Observed& observed);

}  // namespace talos::networkd
