// Finds links that are wanted up and have no carrier: pure, and with a memory of earlier
// observations.
//
// networkd cannot repair a missing carrier, so it is no part of the plan: addresses and routes are
// made all the same, `applied` counts them, nothing is retried, and the kernel reports when there
// is a carrier. It is reported, because no packet passes the link.
//
// Links that need no carrier are not reported: loopback, dummies, WireGuard and other tunnels, a
// bridge for which the config has no ports. A link that has just gone up, or been made, has a few
// seconds, which hardware takes to agree with the other end. A card that runs DHCP only because no
// config names it is reported when it has had a carrier, or when something of the config stands on
// it: most machines have unused ports.
//
// After a restart the first two are known from the kernel at once, and a card's earlier carrier
// from the links on top of it.
#pragma once

#include <kj/map.h>
#include <kj/time.h>

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

class Carriers {
 public:
  static constexpr kj::Duration kSettling = 5 * kj::SECONDS;

  struct Loss {
    kj::String link, what;  // what: "eth1: no carrier: ..."
  };

  // To be called with every observation, so that none with the link down is missed.
  void see(const Observed& observed, kj::TimePoint now);
  // As of the last observation. In the order of `wanted`.
  kj::Vector<Loss> lost(const Wanted& wanted, const Observed& observed, kj::TimePoint now) const;
  // The time when more may be lost though nothing changes.
  kj::Maybe<kj::TimePoint> next(kj::TimePoint now) const;

 private:
  struct Seen {
    bool up = false, carrier = false;
    bool ever = false;                 // it has had one
    kj::Maybe<kj::TimePoint> settled;  // when it may be expected to have one; none: it may be now
  };
  kj::HashMap<unsigned, Seen> links;  // by index
  bool first = true;
};

}  // namespace talos::networkd
