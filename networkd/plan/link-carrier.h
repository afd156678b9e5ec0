// Links that are wanted up and have no carrier: pure, and with a memory of what was seen before.
//
// A cable that is out is nothing that networkd could do something about, so it is no part of the
// plan: addresses and routes are made all the same, `applied` counts them, nothing is tried again,
// and the kernel tells when there is a carrier. It is told, because nothing goes over the link.
//
// Not told of are links that need none: loopback, dummies, WireGuard and other tunnels, a bridge
// for which the config has no ports. A link that has just gone up, or been made, has a few seconds,
// which hardware takes to agree with the other end. A card that is asked by DHCP only because no
// config names it is told of when it has had a carrier, or when something of the config stands on
// it: most machines have sockets that nobody uses.
//
// After a restart the first two are known from the kernel at once, and what a card once had from
// what stands on it.
#pragma once

#include <kj/map.h>
#include <kj/time.h>

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

class Carriers {
 public:
  static constexpr kj::Duration kPatience = 5 * kj::SECONDS;

  struct Loss {
    kj::String link, what;  // what: "eth1: no carrier: ..."
  };

  // With every observation, so that none that a link was down is missed.
  void see(const Observed& observed, kj::TimePoint now);
  // As of the last that was seen. In the order of `wanted`.
  kj::Vector<Loss> lost(const Wanted& wanted, const Observed& observed, kj::TimePoint now) const;
  // When more may be lost though nothing changes.
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
