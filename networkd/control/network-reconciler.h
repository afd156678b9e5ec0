// Makes the kernel's network match the store's specs, and reports the kernel's network to the
// store.
//
// Wakes for a change of the specs, of the kernel or of the host name, when a peer of WireGuard that
// roamed may have fallen silent, and after a failure with an exponential back-off. Then it reads
// the kernel, plans, applies, and repeats until nothing is left to do. Until every kind of spec has
// arrived once it changes nothing, so a networkd that starts before its store, or loses it, leaves
// the network as it is. It keeps no state that a crash could lose: the kernel marks networkd's own
// objects (network-plan.h), and the store has the default address once it is chosen.
//
// A second pass sends nothing. If a pass does send something although no spec has changed, another
// program changed the network; this change is reverted, logged, counted and reported (repaired).
// The count continues from the store's count, so that its readers know which repairs are new.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/signal.h"
#include "networkd/control/link-namer.h"
#include "networkd/control/network-host.h"
#include "networkd/control/wireguard-endpoints.h"
#include "networkd/plan/first-mtus.h"
#include "networkd/plan/link-carrier.h"
#include "networkd/plan/network-status.h"
#include "networkd/plan/plan-preview.h"
#include "networkd/plan/tunnel-ports.h"
#include "networkd/plan/wanted-specs.h"

namespace talos::networkd {

// The specs of the store.
struct Intent {
  Wanted wanted;
  kj::String hostname;  // empty: not chosen yet
  kj::Vector<kj::String> resolvers, search;
  NodeAddresses previous;  // earlier written addresses: default and accumulative stay
  Repairs repairs;         // also written earlier
  kj::Maybe<bool> probes;  // true if all succeed; nullptr without probes
};

// The statuses for the store, by type of resource.
struct Report {
  Records links, addresses, routes, nodeAddresses, network, plans;
};

class NetworkStore {
 public:
  virtual ~NetworkStore() noexcept(false) = default;
  // Returns nullptr until all kinds have arrived.
  virtual kj::Maybe<Intent> intent() = 0;
  virtual kj::Promise<void> publish(Report report) = 0;
};

// Addresses of the node's own resolver that resolver files name; empty: they name the upstreams.
struct ResolverAddresses {
  std::vector<Ip> node, pods;
  bool operator==(const ResolverAddresses&) const = default;
};

// The node's own resolver (host-dns.h).
class LocalResolver {
 public:
  virtual ~LocalResolver() noexcept(false) = default;
  // Returns the addresses at which it answers.
  virtual ResolverAddresses answering() const = 0;
  // The resolver files now name these addresses.
  virtual void named(ResolverAddresses addresses) = 0;
};

class NetworkReconciler {
 public:
  // Subjects of the monitor, and the size of its buffer.
  static constexpr netlink::Subjects kSubjects = {.rules = true};
  static constexpr unsigned kMonitorBuffer = 8 << 20;

  // The caller raises `work` when the intent in the store has changed; `random` in [0, 1) jitters
  // the back-off; without `endpoints`, WireGuard peers have no names. `localResolver` is the node's
  // resolver, if there is one; the caller raises `work` when its addresses have changed, too.
  NetworkReconciler(netlink::Kernel& kernel, netlink::Monitor& monitor, NetworkStore& store,
                    Host& host, kj::Timer& timer, Signal& work, kj::Function<double()> random,
                    kj::Maybe<Endpoints&> endpoints = nullptr,
                    kj::Maybe<LocalResolver&> localResolver = nullptr);
  ~NetworkReconciler() noexcept(false);

  // Runs until dropped.
  kj::Promise<void> run();
  // Resolves after the first pass, even if a part of it failed: a half configured machine has to be
  // reachable to be repaired.
  kj::Promise<void> ready() { return firstPass.addBranch(); }
  Observed observe();
  kj::Vector<netlink::Route> allRoutes() { return kernel.allRoutes(); }
  // Returns the changes that these specs, as the complete set, would cause. Changes nothing.
  Preview preview(capnp::List<rpc::Resource>::Reader specs);

 private:
  netlink::Kernel& kernel;
  netlink::Monitor& monitor;
  NetworkStore& store;
  Host& host;
  kj::Timer& timer;
  Signal& work;
  kj::Function<double()> random;
  kj::Maybe<Endpoints&> endpoints;
  kj::Maybe<LocalResolver&> localResolver;
  Signal report;
  kj::Own<kj::PromiseFulfiller<void>> firstPassDone;
  kj::ForkedPromise<void> firstPass;
  kj::Maybe<Report> latest;
  NodeAddresses remembered;
  kj::Vector<kj::String> lastProblems;  // each logged once, not at every attempt
  kj::Array<kj::byte> held;             // last specs that were reached completely; empty: not
                                        // reached
  uint64_t overruns = 0;
  Repairs repairs;
  std::vector<FirstMtu> firstMtus;
  std::vector<TunnelPort> tunnelPorts;
  kj::Maybe<std::set<uint32_t>> tables;  // that may have routes of networkd; nullptr: not read yet
  Carriers carriers;
  kj::Maybe<kj::TimePoint> silence;  // time of a peer's silence, as of the last pass
  LinkNamer namer{kernel, host};
  kj::HashSet<unsigned> listening;  // links that accept routers, by index: set once each, so that
                                    // others may revert it

  kj::Promise<void> applyLoop();
  kj::Promise<void> publishLoop();
  kj::Promise<void> kernelLoop();
  kj::Promise<void> hostLoop();
  const std::set<uint32_t>& routeTables();
  // `watched` are the tables whose routes are read.
  Observed observe(const std::set<uint32_t>& watched);
  void handle(netlink::Notice notice);
  bool pass(kj::Duration retry);
  struct Outcome;
  Outcome converge(const Wanted& wanted);
  // Builds the report of a pass, and logs new problems.
  void makeReport(Intent& intent, const Outcome& reached, Undone undone);
  kj::Vector<kj::String> apply(const Observed& observed, kj::Vector<Step> steps, bool& progress,
                               bool repairing);
  void listenToRouters(const Observed& observed, kj::ArrayPtr<const Step> steps);
  void keepFirstMtus();
  void keepTunnelPorts();
  bool writeResolvers(const Intent& intent, kj::Vector<kj::String>& problems);
  NodeAddresses recall(NodeAddresses stored) const;
  void logProblems(const kj::Vector<kj::String>& problems);
};

}  // namespace talos::networkd
