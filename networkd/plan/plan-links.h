// The part of plan() that is about links: which are made, removed, tied together and set, in an
// order that the kernel accepts and that takes down no more than it must. Pure.
//
// The rules, in the order of the steps:
//   * A link of ours that is not wanted goes, VLANs before what they stand on.
//   * A new link is made with all its options at once; what stands on it, or in it, comes with the
//     next plan, which knows its index.
//   * A bond is emptied only for an option that wants it empty (mode, failOverMac) and taken down
//     only for one that wants it down; all its options go in one message.
//   * A link enters a bond down, after the bond's options and MTU; the bond opens it.
//   * `primary` is set when its link is in.
//   * A bridge gets the hardware address of a port of the config before that enters. It does not
//     follow ports of other programs then: DHCP would lose its lease with the address.
//   * A parent's MTU is set before that of its VLANs, and a parent goes up before its VLANs.
//   * Peers of WireGuard are changed one by one; those that stay the same are not touched.
//
// A part that cannot be met (no such link, a name that is taken, an option that has no meaning in
// the mode) is a problem in words and does not stop the rest.
#pragma once

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

class LinkPlanner {
 public:
  LinkPlanner(const Wanted& wanted, const Observed& observed, Plan& result);
  ~LinkPlanner() noexcept(false);
  KJ_DISALLOW_COPY(LinkPlanner);

  // The steps, in order; fills in the problems and the versions of what holds already.
  kj::Vector<Step> run();

  // After run(): what will be so when the steps are done.
  bool willBeUp(const netlink::Link& link);
  bool goesAway(unsigned index);
  // The name of a link that one of the steps makes, so that it has no index yet.
  bool isNew(kj::StringPtr name) const;

 private:
  class Impl;
  kj::Own<Impl> impl;
};

// Of a bond's options, as netlink::effectiveBond() gives them, those that have to be sent; empty
// when there is nothing to do.
netlink::BondOptions bondDifference(const netlink::BondOptions& effective,
                                    const netlink::BondOptions& there);

// The change that makes the device as wanted; none when it is so already. Problems: two peers that
// claim one network, a key that has not arrived.
kj::Maybe<netlink::SetWireguard> wireguardDifference(
    unsigned link, const WantedWireguard& wanted, const netlink::WireguardDevice& there,
    int64_t now, kj::FunctionParam<void(kj::StringPtr)> problem);

// Seconds until the first peer that calls from elsewhere than the config says will have been silent
// for so long that it is to be called there again: the kernel reports neither.
kj::Maybe<int64_t> untilSilence(const Wanted& wanted, const Observed& observed);

}  // namespace talos::networkd
