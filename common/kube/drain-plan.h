// Plans a drain: selects the pods that leave the node, and makes the patches that cordon and
// uncordon it. Pure; objects are foreign.
//
// Both the node itself, before it shuts down (kubed), and a user (talosctl) drain. An annotation
// records that the node has cordoned itself: only then it uncordons itself, also after a crash. A
// user's cordon removes the annotation, so the node's next boot does not undo it.
#pragma once

#include "common/base/reserved-names.h"
#include "common/kube/json.h"

namespace talos::kube {

// Annotation of the object that represents a static pod.
constexpr kj::StringPtr kMirrorAnnotation = "kubernetes.io/config.mirror"_kj;

enum class CordonBy { kNode, kUser };
// Return merge patches, with the version that they were computed from; nullptr if nothing has to be
// done. For kNode, a node that a user has cordoned stays as it is.
kj::Maybe<Json> planCordon(const Json& node, CordonBy by);
kj::Maybe<Json> planUncordon(const Json& node, CordonBy by);
bool cordonedByItself(const Json& node);

// Kinds of pods for which the user has a choice.
enum class PodKind {
  kReplicated,  // with a controller that creates it on another node
  kDaemonSet,
  kUnmanaged,  // without a controller, or of a DaemonSet that no longer exists
  kLocalData   // with a volume of the kind emptyDir
};
enum class Choice { kLeave, kStay, kRefuse };
struct DrainPolicy {
  Choice daemonSets = Choice::kStay, unmanaged = Choice::kStay, localData = Choice::kLeave;
  // True if pods that have ended leave, whatever their kind; false if they are treated as all
  // others.
  bool finishedLeave = false;
  // "namespace/name" of the existing DaemonSets; nullptr if all exist.
  kj::Maybe<kj::Array<kj::String>> daemonSetsThere = nullptr;
};

struct LeavingPod {
  kj::String nameSpace, name, uid;
  bool ending = false;  // already being deleted: needs no eviction
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
  kj::Vector<RefusedPod> refused;  // a drain evicts no pod while this is not empty
};
// Plans the drain of a node with these pods. Static pods always stay: the kubelet would create them
// again.
DrainPlan planDrain(kj::ArrayPtr<const Json> pods, const DrainPolicy& policy = {});

// Returns true if a drain of a node evicts the pod, so that its PodDisruptionBudget applies.
bool isEvicted(const Json& pod);

}  // namespace talos::kube
