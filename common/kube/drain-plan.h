// Plans a drain: selects the pods that leave the node, and makes the patches that cordon and
// uncordon it. Pure; objects are foreign.
//
// There are two who drain: the node itself, before it goes down (kubed), and a user (talosctl). An
// annotation remembers that the node has cordoned itself: it uncordons itself only then, also after
// a crash. A user's cordon takes the annotation away, so the node's next boot does not undo it.
#pragma once

#include "common/kube/json.h"

namespace talos::kube {

constexpr kj::StringPtr kCordonedAnnotation = "talos.dev/cordoned"_kj;

enum class CordonBy { kNode, kUser };
// Merge patches, with the version that they were computed from; none: there is nothing to do. For
// kNode a node that somebody else has cordoned stays as it is.
kj::Maybe<Json> planCordon(const Json& node, CordonBy by);
kj::Maybe<Json> planUncordon(const Json& node, CordonBy by);
bool cordonedByItself(const Json& node);

// The kinds of pods about which there is a choice.
enum class PodKind {
  kReplicated,  // with a controller that creates it elsewhere
  kDaemonSet,
  kUnmanaged,  // without a controller, or of a DaemonSet that is gone
  kLocalData   // with a volume of the kind emptyDir
};
enum class Choice { kLeave, kStay, kRefuse };
struct DrainPolicy {
  Choice daemonSets = Choice::kStay, unmanaged = Choice::kStay, localData = Choice::kLeave;
  // Pods that have ended leave, whatever they are; false: they are as all others.
  bool finishedLeave = false;
  // "namespace/name" of those that exist; none: all do.
  kj::Maybe<kj::Array<kj::String>> daemonSetsThere = nullptr;
};

struct LeavingPod {
  kj::String nameSpace, name, uid;
  bool ending = false;  // is being deleted already: needs no eviction
  PodKind kind = PodKind::kReplicated;

  kj::String id() const { return kj::str(nameSpace, "/", name); }
};
struct StayingPod {
  kj::String id;
  kj::StringPtr reason;
  PodKind kind = PodKind::kReplicated;
};
struct RefusedPod {
  kj::String id;
  PodKind kind;
};
struct DrainPlan {
  kj::Vector<LeavingPod> leave;
  kj::Vector<StayingPod> stay;
  kj::Vector<RefusedPod> refused;  // while there is one, a drain evicts no pod
};
// `pods`: of a node. Static pods stay in any case: the kubelet would create them again.
DrainPlan planDrain(kj::ArrayPtr<const Json> pods, const DrainPolicy& policy = {});

// True when a drain of a node evicts the pod, and its PodDisruptionBudget is asked.
bool isEvicted(const Json& pod);

}  // namespace talos::kube
