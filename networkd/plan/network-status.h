// The kernel's network as resources and for networkd's API: pure views of Observed. Ids, fields and
// rules are those of later releases of Talos (LinkStatuses by name, AddressStatuses
// <link>/<prefix>, RouteStatuses <gateway>/<destination>, NodeAddresses default, current,
// accumulative).
#pragma once

#include <capnp/message.h>

#include "networkd/plan/link-carrier.h"
#include "networkd/plan/network-plan.h"
#include "rpc/network.capnp.h"

namespace talos::networkd {

// id -> message whose root is the spec
using Records = kj::TreeMap<kj::String, kj::Own<capnp::MallocMessageBuilder>>;

Records linkStatuses(const Observed& observed);
Records addressStatuses(const Observed& observed);
// Returns the routes of the main table, and of the other tables that `observed` has; their ids
// begin with "<table>/". Two routes with one id (link-local ones) get "/<link>" and "/<metric>"
// appended.
Records routeStatuses(const Observed& observed);

// Addresses that other nodes can use, without prefix length, sorted. `chosen` is the default,
// chosen once and kept; `known` has all addresses so far.
struct NodeAddresses {
  kj::Vector<Ip> chosen, current, known;
};
NodeAddresses nodeAddresses(const Observed& observed, NodeAddresses previous);
Records records(const NodeAddresses& addresses);

// Changes by other programs that were reverted, counted since the machine booted.
struct Repairs {
  struct One {
    uint64_t number;
    kj::String link, what;
  };
  static constexpr size_t kMost = 32;
  uint64_t count = 0;
  kj::Vector<One> newest;  // oldest first

  void add(kj::String link, kj::String what);
  // Continues the previous networkd's count; does nothing once this networkd has counted.
  void goOnFrom(Repairs before);
  Repairs copy() const;
};

struct Health {
  bool address = false, connectivity = false, hostname = false;
  uint64_t applied = 0;
  kj::Vector<kj::String> problems;
  uint64_t overruns = 0;
  Repairs repairs = {};
};
Records records(const Health& health);

// The unfinished rest of a pass.
struct Undone {
  kj::Vector<kj::String> steps, problems;
  kj::Duration retry = 0 * kj::SECONDS;  // 0: at the next change
  kj::Vector<Carriers::Loss> waiting = {};
};
// Returns a record "next" of steps and problems, if there are any; and a record for each link that
// waits for a carrier, without a retry, because the kernel reports the carrier.
Records records(const Undone& undone);
bool hasDefaultRoute(const Observed& observed);

void fillInterfaces(const Observed& observed, rpc::Network::InterfacesResults::Builder out);
// `routes` may be of every table; the names of links come from `observed`.
void fillRoutes(const Observed& observed, kj::ArrayPtr<const netlink::Route> routes,
                rpc::Network::RoutesResults::Builder out);

}  // namespace talos::networkd
