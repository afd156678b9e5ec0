// Plans the trial of a change of the config (change-trial.h). Pure.
#pragma once

#include "machined/config/change-trial.h"
#include "machined/config/config-change.h"

namespace talos::machined {

// The parts of a node that a change acts on.
struct ChangeKinds {
  bool network = false;  // what this node reaches, and who reaches it
  bool trust = false;    // whom this node and its clients trust
  bool work = false;     // the kubelet or the control plane
};
ChangeKinds kindsOf(kj::ArrayPtr<const config::Change> changes);

// Returns the key whose change cannot be undone; nullptr if the previous config undoes the change.
kj::Maybe<kj::StringPtr> lastingChange(config::Config::Reader before,
                                       config::Config::Reader wanted);

struct TrialRequest {
  kj::Duration timeout = kChangeTrial;
  bool callsAgain = false;   // the client calls the node once it has the config
  bool duringTrial = false;  // the running config is on trial itself
  bool isBooted = false;
  kj::Maybe<kj::Vector<kj::String>> duties = nullptr;  // that the node fulfils, if they are known
};
// Plans a trial of `wanted`, whose way back is `good`; none if nothing changes, or the change
// cannot be undone, which throws FailedPrecondition during another trial. During a trial, the same
// values in other bytes have a plan, too: the bytes name the config on trial. A client has to call
// only if the change may cut the node off. Adds to `warnings` what stays if the config goes back,
// and what is not required of the node.
kj::Maybe<ChangeTrial::Plan> planTrial(const KnownConfig& good, const KnownConfig& wanted,
                                       TrialRequest request, kj::Vector<kj::String>& warnings);

}  // namespace talos::machined
