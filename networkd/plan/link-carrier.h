// Finds links that should be up and have no carrier: pure, with a memory of earlier observations.
//
// networkd cannot repair a missing carrier, so it is not a part of the plan: addresses and routes
// are set all the same, `applied` counts them, nothing is retried, and the kernel reports when the
// carrier returns. A missing carrier is reported, because no packet passes the link.
//
// Links that need no carrier are not reported: loopback, dummies, WireGuard and other tunnels, a
// bridge for which the config has no ports. A link that has just gone up, or been created, gets a
// few seconds, the time in which hardware negotiates with the other end. A card that runs DHCP only
// because no config names it is reported only if it has had a carrier, or if the config has links
// on top of it: most machines have unused ports.
//
// After a restart the kernel shows at once which links are up, and the links on top of a card show
// its earlier carrier.
#pragma once

#include <kj/map.h>
#include <kj/time.h>

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

class Carriers {
 public:
  static constexpr kj::Duration kSettling = 5 * kj::SECONDS;

  struct Loss {
    kj::String link, what;  // `what` is "eth1: no carrier: ..."
  };

  // Call with every observation, so that no time with the link down is missed.
  void see(const Observed& observed, kj::TimePoint now);
  // Returns the losses as of the last observation, in the order of `wanted`.
  kj::Vector<Loss> lost(const Wanted& wanted, const Observed& observed, kj::TimePoint now) const;
  // Returns the time when links without a carrier may become losses although nothing changes.
  kj::Maybe<kj::TimePoint> next(kj::TimePoint now) const;

 private:
  struct Seen {
    bool up = false, carrier = false;
    bool ever = false;                 // The link has had a carrier.
    kj::Maybe<kj::TimePoint> settled;  // when to expect a carrier; nullptr: now
  };
  kj::HashMap<unsigned, Seen> links;  // by index
  bool first = true;
};

}  // namespace talos::networkd
