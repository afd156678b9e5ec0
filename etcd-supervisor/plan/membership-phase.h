// The phase of a node on its way into a cluster or out of it, and the resulting arguments of its
// etcd. Pure.
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

// Its etcd is made of a snapshot, which is still to be followed up (membership-intent.h).
bool isRecovering(const Intent& intent, Data data);

// The rest of an intent when the daemon starts. `sameBoot`: the daemon has run before in this boot.
Intent atStart(const Intent& intent, Data data, bool sameBoot);

// The state that this node reports to others.
BootstrapState::State bootstrapStateOf(const Intent& intent, Data data, bool claims);

}  // namespace talos::supervisor
