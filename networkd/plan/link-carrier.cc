#include "networkd/plan/link-carrier.h"

#include "common/base/node-messages.h"

#include <kj/debug.h>

namespace talos::networkd {

using netlink::Link;

namespace {

constexpr kj::StringPtr kWaits = "; waiting for carrier"_kj;
constexpr kj::StringPtr kDefaultLayer = "default"_kj;

// The configured members of a bond or ports of a bridge, as far as the text of a loss needs them.
struct Members {
  kj::Vector<kj::StringPtr> named;  // names of the configured members
  bool any = false;                 // A configured member has joined.
  bool carrier = false;             // A member has a carrier.
};

Members membersOf(const Link& master, const Wanted& wanted, const Observed& observed) {
  Members result;
  for (auto& want : wanted.links) {
    if (want.master != master.name) continue;
    result.named.add(want.name);
    KJ_IF_MAYBE (link, observed.link(want.name)) {
      if (link->master != master.index) continue;
      result.any = true;
      result.carrier = result.carrier || (link->up() && link->carrier);
    }
  }
  return result;
}

kj::String whyOf(kj::StringPtr one, kj::StringPtr many, const Members& members) {
  if (members.named.size() == 0) return kj::str("it has no ", one);
  auto names = kj::strArray(members.named, ", ");
  if (!members.any) return kj::str("none of its ", many, " exists (", names, ")");
  if (!members.carrier) return kj::str("none of its ", many, " has one (", names, ")");
  return kj::str("none of its ", many, " is ready for traffic yet (", names, ")");
}

// Returns the loss in words; nullptr if the link needs no carrier or has one.
kj::Maybe<kj::String> reason(const Link& link, const Wanted& wanted, const Observed& observed) {
  if (link.loopback()) return nullptr;
  if (link.kind.size() == 0) return kj::str("no cable, or the other end is down");
  if (link.kind == "veth") return kj::str("its other end is down");
  if (link.kind == "vlan") {
    auto parent = nameOf(observed, link.parent);
    return kj::str("the link ", parent, " below it has no carrier");
  }
  if (link.kind == "bond") return whyOf("member", "members", membersOf(link, wanted, observed));
  if (link.kind == "bridge") {
    auto ports = membersOf(link, wanted, observed);
    if (ports.named.size() > 0) return whyOf("port", "ports", ports);
  }
  return nullptr;
}

bool standsOn(const WantedLink& want, const Wanted& wanted) {
  if (want.master.size() > 0) return true;
  for (auto& other : wanted.links) {
    if (other.parent == want.name) return true;
  }
  for (auto& address : wanted.addresses) {
    if (address.link == want.name) return true;
  }
  for (auto& route : wanted.routes) {
    if (route.link == want.name) return true;
  }
  return false;
}

}  // namespace

void Carriers::see(const Observed& observed, kj::TimePoint now) {
  kj::HashMap<unsigned, Seen> current;
  for (auto& link : observed.links) {
    Seen seen;
    bool before = false;
    KJ_IF_MAYBE (known, links.find(link.index)) {
      seen = *known;
      before = known->up;
    } else {
      before = first;
    }
    seen.up = link.up();
    seen.carrier = seen.up && link.carrier;
    seen.ever = seen.ever || seen.carrier;
    if (seen.carrier || !seen.up) {
      seen.settled = nullptr;
    } else if (!before) {
      seen.settled = now + kSettling;
    }
    current.insert(link.index, seen);
  }
  links = kj::mv(current);
  first = false;
}

kj::Vector<Carriers::Loss> Carriers::lost(const Wanted& wanted, const Observed& observed,
                                          kj::TimePoint now) const {
  kj::Vector<Loss> result;
  for (auto& want : wanted.links) {
    if (!want.up) continue;
    KJ_IF_MAYBE (link, observed.link(want.name)) {
      if (!link->up() || link->carrier) continue;
      if (want.kind.size() > 0 && want.kind != link->kind) continue;  // another link of this name
      auto& seen = KJ_ASSERT_NONNULL(links.find(link->index), "an observation that was not seen");
      if (now < seen.settled.orDefault(now)) continue;
      if (want.layer == kDefaultLayer && !seen.ever && !standsOn(want, wanted)) continue;
      KJ_IF_MAYBE (cause, reason(*link, wanted, observed)) {
        result.add(Loss{kj::str(want.name),
                        kj::str(want.name, messages::kNoCarrier, ": ", *cause, kWaits)});
      }
    }
  }
  return result;
}

kj::Maybe<kj::TimePoint> Carriers::next(kj::TimePoint now) const {
  kj::Maybe<kj::TimePoint> first;
  for (auto& entry : links) {
    KJ_IF_MAYBE (moment, entry.value.settled) {
      if (*moment > now) first = kj::min(*moment, first.orDefault(*moment));
    }
  }
  return first;
}

}  // namespace talos::networkd
