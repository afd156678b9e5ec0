// Keeps pods from the metadata service of the platform: makes the kernel's packet filter match the
// MetadataBlockSpec, and reports the kernel's rules.
//
// Checks the rules at each change of the spec, and once a minute while a spec exists, for the
// number of dropped packets and for a table that another program has flushed (`nft flush ruleset`).
// A check that finds the rules writes nothing. The rules exist only in the kernel and are replaced
// in one step (networkd/plan/metadata-rules.h), so a crash at any line leaves the old or the new
// rules, and a networkd that starts later changes nothing. Until the specs have arrived, the rules
// stay unchanged.
//
// If the kernel has no nf_tables, or refuses the rules, the status reports this as a problem, and
// the log too; the network is set up all the same.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "networkd/control/filter-loop.h"
#include "networkd/plan/metadata-rules.h"
#include "networkd/plan/network-status.h"

namespace talos::networkd {

// The rules in the kernel.
class MetadataFilter {
 public:
  virtual ~MetadataFilter() noexcept(false) = default;
  // Both throw with the kernel's error; Unimplemented if the kernel has no nf_tables.
  virtual kj::Vector<FilterRule> rules() = 0;
  virtual void replace(kj::ArrayPtr<const Ip> addresses) = 0;
};
// Returns the filter of the calling thread's network namespace. Opens its socket at the first call,
// and again after a failure.
kj::Own<MetadataFilter> openMetadataFilter();

class MetadataBlock {
 public:
  struct Wanted {
    kj::String id;
    kj::Vector<kj::String> addresses;
  };
  struct State {
    kj::Vector<Wanted> wanted;
    bool reported = false;  // A status exists.
  };
  // Returns nullptr until specs and statuses have arrived.
  using Read = kj::Function<kj::Maybe<State>()>;
  using Publish = kj::Function<kj::Promise<void>(Records)>;
  static constexpr kj::Duration kPause = kFilterPause;

  // The caller raises `work` when the specs have changed, or have arrived.
  MetadataBlock(MetadataFilter& filter, kj::Timer& timer, Signal& work, Read read, Publish publish);

  // Runs until dropped.
  kj::Promise<void> run();

 private:
  MetadataFilter& filter;
  kj::Timer& timer;
  Signal& work;
  Read read;
  Publish publish;
  kj::String logged;  // last problem, logged once

  using Next = NextLook;
  struct Outcome {
    uint64_t dropped = 0;
    kj::String problem;
    bool made = false;  // the kernel has the rules
  };
  Outcome make(kj::ArrayPtr<const Ip> addresses);
  Outcome makeAll(kj::ArrayPtr<const Wanted> all);
  kj::Promise<bool> report(kj::ArrayPtr<const Wanted> all, const Outcome& outcome);
  kj::Promise<Next> look();
};

}  // namespace talos::networkd
