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

struct TrialRequest {
  kj::Duration timeout = kChangeTrial;
  bool callsAgain = false;  // the client calls the node once it has the config
};

struct TrialPlan {
  kj::Maybe<ChangeTrial::Plan> plan;  // nullptr: the change is not on trial
  kj::Maybe<kj::StringPtr> lasting;   // the key whose change cannot be undone
};
// Plans a trial of `wanted`, whose way back is `good`; none if nothing changes, or the change
// cannot be undone. A client has to call only if the change may cut the node off. Adds to
// `warnings` what stays if the config goes back, and that no call is required.
TrialPlan planTrial(kj::Maybe<const KnownConfig&> good, const KnownConfig& wanted,
                    kj::Vector<kj::String> fulfilled, TrialRequest request,
                    kj::Vector<kj::String>& warnings);

}  // namespace talos::machined
