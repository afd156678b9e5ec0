// The probes of this node: those of ProbeSpecs in machined's store. Each asks at once, and then at
// each interval or as soon as the former question has ended. ProbeStatuses have their states.
//
// The state of a probe is known after its first result; until then the status that an earlier
// process has written stays. One good answer is a success; so many bad ones in a row as the spec
// says are a failure. A probe with other settings asks at once, and keeps its state until its first
// result. Nothing is written before the store has sent specs and statuses. A crash loses the count
// of failures.
#pragma once

#include <map>

#include "common/base/signal.h"
#include "common/wire/store-client.h"
#include "probed/probe.h"
#include "rpc/feature-resources.capnp.h"

namespace talos::probed {

// The state of a probe, made of its results. Pure.
class ProbeState {
 public:
  // Continues a state that was written earlier.
  void restore(bool success, kj::StringPtr lastError);
  // Adds a result, nullptr or the error. Returns true if the state has changed.
  bool add(kj::Maybe<kj::String> failure, unsigned threshold);

  bool known = false, success = false;
  kj::String lastError;  // empty after a success

 private:
  unsigned failures = 0;  // in a row
};

// Reads a spec. A text that is no duration, which machined does not write, is 1 s.
ProbeSettings settingsOf(rpc::ProbeSpecSpec::Reader spec);

class ProbeSet {
 public:
  using Ask = kj::Function<kj::Promise<void>(const ProbeSettings&)>;
  // All arguments must outlive it.
  ProbeSet(kj::Timer& timer, StoreClient& store, Ask& ask);
  KJ_DISALLOW_COPY_AND_MOVE(ProbeSet);

  kj::Promise<void> run();  // runs until dropped

 private:
  struct Probe {
    ProbeSettings settings;
    ProbeState state;
    kj::Promise<void> asking = nullptr;
  };
  kj::Timer& timer;
  Ask& ask;
  StoreClient& store;
  Signal changed, results;
  Watched<rpc::ProbeSpecSpec> specs;
  Watched<rpc::ProbeStatusSpec> statuses;
  std::map<std::string, kj::Own<Probe>> probes;  // by the id of the spec

  kj::Promise<void> follow();
  void update(ResourceOf<rpc::ProbeSpecSpec> spec);
  kj::Promise<void> askAgain(kj::StringPtr id, Probe& probe);
  kj::Promise<void> report();
};

}  // namespace talos::probed
