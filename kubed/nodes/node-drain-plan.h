// What a node's way out of service, and back, is made of: which pods are asked to leave, and what
// is written on the node's object. Pure.
//
// The annotation remembers that it was us who cordoned: a node that somebody else has made
// unschedulable stays so, and what we cordoned is ours to uncordon, also after a crash.
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
  bool ending = false;  // by itself: it need not be asked

  kj::String id() const { return kj::str(nameSpace, "/", name); }
};
struct StayingPod {
  kj::String id;
  kj::StringPtr why;
};
struct DrainPlan {
  kj::Vector<LeavingPod> leave;
  kj::Vector<StayingPod> stay;
};
// Of the pods of a node. Those of the kubelet's own files, of a DaemonSet and without a controller
// stay: they would not be made anew elsewhere.
DrainPlan planDrain(kj::ArrayPtr<const kube::Json> pods);

}  // namespace talos::kubed
