// Phase of a node on its way into a cluster or out of it, and the resulting arguments of its etcd.
// Pure.
#pragma once

#include "etcd-supervisor/plan/etcd-arguments.h"
#include "etcd-supervisor/plan/membership-intent.h"

namespace talos::supervisor {

enum class Phase { kWaiting, kDamaged, kBootstrapping, kJoining, kMember, kLeaving, kLeft };

// Fields of EtcdSpecs/etcd.
struct Wanted {
  kj::String waitsFor;
  kj::String image;
  kj::Vector<Argument> arguments;
  kj::String recoverFrom;
  bool skipHashCheck = false;

  bool operator==(const Wanted& other) const;
};

Phase phaseOf(const Intent& intent, Data data);

// `running`: the spec so far, if the service runs by it. `snapshot`: path of the snapshot, for an
// intent that recovers.
Wanted wantedOf(const Config& config, const Intent& intent, Data data,
                kj::Maybe<const Wanted&> running, kj::StringPtr snapshot);

// Returns true if its etcd was made from a snapshot that still has to be followed up
// (membership-intent.h).
bool isRecovering(const Intent& intent, Data data);

// Returns what remains of an intent when the daemon starts. `sameBoot`: the daemon has run before
// in this boot.
Intent atStart(const Intent& intent, Data data, bool sameBoot);

// Returns the state that this node reports to others.
BootstrapState::State bootstrapStateOf(const Intent& intent, Data data, bool claims);

}  // namespace talos::supervisor
