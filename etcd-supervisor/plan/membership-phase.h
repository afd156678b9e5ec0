// Where a node is on its way into a cluster, and how etcd is to be run there. Pure.
#pragma once

#include "etcd-supervisor/plan/etcd-arguments.h"
#include "etcd-supervisor/plan/membership-intent.h"

namespace talos::supervisor {

enum class Phase { kWaiting, kDamaged, kBootstrapping, kJoining, kMember, kLeaving, kLeft };

// EtcdSpecs/etcd by value.
struct Wanted {
  kj::String waitsFor;
  kj::String image;
  kj::Vector<Argument> arguments;
  kj::String recoverFrom;
  bool skipHashCheck = false;

  bool operator==(const Wanted& other) const;
};

Phase phaseOf(const Intent& intent, Data data);

// `running`: what is wanted so far, if the service runs by it. `snapshot`: where one is, for an
// intent that recovers.
Wanted wantedOf(const Config& config, const Intent& intent, Data data,
                kj::Maybe<const Wanted&> running, kj::StringPtr snapshot);

// What is left of an intent when the daemon starts. `sameBoot`: it has run before in this boot.
Intent atStart(const Intent& intent, Data data, bool sameBoot);

// What this node tells others that it is.
Standing::State standingOf(const Intent& intent, Data data, bool claims);

}  // namespace talos::supervisor
