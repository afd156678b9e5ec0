// Phase of a node on its way into a cluster or out of it. Pure.
#pragma once

#include "etcd-supervisor/plan/membership-intent.h"

namespace talos::supervisor {

enum class Phase {
  kWaiting,        // no cluster. Next: kBootstrapping, kJoining
  kDamaged,        // data without a log. Next: kLeaving if the machine is erased
  kBootstrapping,  // makes a cluster. Next: kMember; kWaiting if its recovery has failed
  kJoining,        // was added as a learner. Next: kMember, kLeaving; kWaiting if it was removed
                   // before its etcd had started
  kMember,         // next: kLeaving; kLeft if the others have removed it
  kLeaving,        // is being removed. Next: kLeft; kMember if the others have not removed it
  kLeft,           // its data goes. Next: kBootstrapping; kWaiting at the next boot
};

Phase phaseOf(const Intent& intent, Data data);

// Returns true if its etcd was made from a snapshot that still has to be followed up
// (membership-intent.h).
bool isRecovering(const Intent& intent, Data data);

// Returns what remains of an intent when the daemon starts. `sameBoot`: the daemon has run before
// in this boot.
Intent atStart(const Intent& intent, Data data, bool sameBoot);

// Returns the state that this node reports to others.
BootstrapState::State bootstrapStateOf(const Intent& intent, Data data, bool claims);

}  // namespace talos::supervisor
