// The node's ingress firewall: makes the kernel's packet filter match the FirewallSpec, and reports
// the kernel's rules.
//
// Checks the rules at each change of the spec, and once a minute while a spec exists
// (filter-loop.h). A check that finds the rules writes nothing. The rules exist only in the kernel
// and are replaced in one step (networkd/plan/firewall-rules.h), so a crash at any line leaves the
// old or the new rules, and a networkd that starts later changes nothing. Until the spec has
// arrived, the rules stay unchanged.
//
// If the kernel refuses the rules, the status reports this as a problem, and the log too; the
// rules that it has stay.
#pragma once

#include "networkd/control/filter-loop.h"
#include "networkd/plan/firewall-rules.h"
#include "networkd/plan/network-status.h"

namespace talos::networkd {

constexpr kj::StringPtr kFirewallId = "firewall"_kj;

// The firewall's table in the kernel.
class FirewallFilter {
 public:
  virtual ~FirewallFilter() noexcept(false) = default;
  // Both throw with the kernel's error; Unimplemented if the kernel has no nf_tables.
  virtual kj::Vector<FilterRule> rules() = 0;
  virtual void replace(kj::Maybe<const FirewallTable&> wanted) = 0;
};
kj::Own<FirewallFilter> openFirewallFilter();

class Firewall {
 public:
  struct State {
    kj::Maybe<FirewallTable> wanted;  // nullptr: every packet is accepted
    bool reported = false;            // A status exists.
  };
  // Returns nullptr until spec and status have arrived.
  using Read = kj::Function<kj::Maybe<State>()>;
  using Publish = kj::Function<kj::Promise<void>(Records)>;

  // The caller raises `work` when the spec has changed, or has arrived.
  Firewall(FirewallFilter& filter, kj::Timer& timer, Signal& work, Read read, Publish publish);

  // Runs until dropped.
  kj::Promise<void> run();

 private:
  FirewallFilter& filter;
  kj::Timer& timer;
  Signal& work;
  Read read;
  Publish publish;
  kj::String logged;  // last problem, logged once

  struct Outcome {
    uint64_t dropped = 0;
    kj::String problem;
    bool made = false;  // the kernel has the rules
  };
  Outcome make(kj::Maybe<const FirewallTable&> wanted);
  void replace(kj::Maybe<const FirewallTable&> wanted);
  kj::Promise<bool> report(kj::Maybe<const FirewallTable&> wanted, const Outcome& outcome);
  kj::Promise<NextLook> look();
};

}  // namespace talos::networkd
