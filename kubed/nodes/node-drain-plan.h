// Plans a drain: selects the pods to evict and makes the patches that cordon and uncordon the node.
// Pure.
//
// An annotation remembers that we cordoned the node: a node that somebody else has made
// unschedulable stays so, and we uncordon only what we cordoned, also after a crash.
#pragma once

#include "common/kube/json.h"

namespace talos::kubed {

constexpr kj::StringPtr kCordonedAnnotation = "talos.dev/cordoned"_kj;

// Merge patches, with the version that they were computed from; none: there is nothing to do.
kj::Maybe<kube::Json> planCordon(const kube::Json& node);
kj::Maybe<kube::Json> planUncordon(const kube::Json& node);
bool cordonedByUs(const kube::Json& node);

struct LeavingPod {
  kj::String nameSpace, name, uid;
  bool ending = false;  // is being deleted already: needs no eviction

  kj::String id() const { return kj::str(nameSpace, "/", name); }
};
struct StayingPod {
  kj::String id;
  kj::StringPtr reason;
};
struct DrainPlan {
  kj::Vector<LeavingPod> leave;
  kj::Vector<StayingPod> stay;
};
// `pods`: of a node. Static pods, pods of a DaemonSet and pods without a controller stay: nothing
// would create them elsewhere.
DrainPlan planDrain(kj::ArrayPtr<const kube::Json> pods);

}  // namespace talos::kubed
