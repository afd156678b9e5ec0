#include "common/kube/drain-plan.h"

namespace talos::kube {
namespace {

constexpr kj::StringPtr kTrue = "true"_kj, kDaemonSet = "DaemonSet"_kj;

std::string standard(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

// Returns the patch; null removes. Without an annotation it changes only the field.
Json cordonPatch(const Json& node, kj::Maybe<Json> annotation, Json unschedulable) {
  auto metadata = Json::object();
  KJ_IF_MAYBE (value, annotation) {
    metadata["annotations"][standard(kCordonedAnnotation)] = *value;
  }
  metadata["resourceVersion"] = standard(textAt(node, {"metadata", "resourceVersion"}));
  return {{"metadata", kj::mv(metadata)}, {"spec", {{"unschedulable", kj::mv(unschedulable)}}}};
}

bool isMirror(const Json& pod) {
  return find(pod, {"metadata", "annotations", kMirrorAnnotation}) != nullptr;
}

bool isFinished(const Json& pod) {
  auto phase = textAt(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

bool hasLocalData(const Json& pod) {
  for (auto volume : itemsAt(pod, {"spec", "volumes"})) {
    if (find(*volume, {"emptyDir"}) != nullptr) return true;
  }
  return false;
}

kj::Maybe<const Json&> controllerOf(const Json& pod) {
  for (auto owner : itemsAt(pod, {"metadata", "ownerReferences"})) {
    if (flagAt(*owner, {"controller"})) return *owner;
  }
  return nullptr;
}

bool isThere(const DrainPolicy& policy, kj::StringPtr id) {
  KJ_IF_MAYBE (known, policy.daemonSetsThere) {
    for (auto& one : *known) {
      if (one == id) return true;
    }
    return false;
  }
  return true;
}

// Decides only by the controller.
PodKind kindByController(const Json& pod, const DrainPolicy& policy) {
  KJ_IF_MAYBE (controller, controllerOf(pod)) {
    auto kind = textAt(*controller, {"kind"});
    if (kind.size() == 0) return PodKind::kUnmanaged;
    if (kind != kDaemonSet) return PodKind::kReplicated;
    auto id = kj::str(textAt(pod, {"metadata", "namespace"}), "/", textAt(*controller, {"name"}));
    return isThere(policy, id) ? PodKind::kDaemonSet : PodKind::kUnmanaged;
  }
  return PodKind::kUnmanaged;
}

// The first of the choices that are about the pod and do not let it go, in the order of kubectl.
struct Judged {
  Choice choice = Choice::kLeave;
  PodKind kind = PodKind::kReplicated;
};
Judged judge(const Json& pod, const DrainPolicy& policy) {
  auto kind = kindByController(pod, policy);
  if (policy.finishedLeave && isFinished(pod)) return {Choice::kLeave, PodKind::kReplicated};
  if (kind == PodKind::kDaemonSet) return {policy.daemonSets, kind};
  bool local = hasLocalData(pod);
  if (local && policy.localData != Choice::kLeave) return {policy.localData, PodKind::kLocalData};
  if (kind == PodKind::kUnmanaged) return {policy.unmanaged, kind};
  return {Choice::kLeave, local ? PodKind::kLocalData : kind};
}

kj::StringPtr reasonToStay(PodKind kind) {
  switch (kind) {
    case PodKind::kDaemonSet:
      return "it belongs to a DaemonSet"_kj;
    case PodKind::kUnmanaged:
      return "it has no controller"_kj;
    case PodKind::kLocalData:
      return "it has local data"_kj;
    case PodKind::kReplicated:
      break;
  }
  KJ_UNREACHABLE;
}

}  // namespace

bool cordonedByItself(const Json& node) {
  return textAt(node, {"metadata", "annotations", kCordonedAnnotation}) == kTrue;
}

kj::Maybe<Json> planCordon(const Json& node, CordonBy by) {
  bool cordoned = flagAt(node, {"spec", "unschedulable"});
  if (by == CordonBy::kNode) {
    if (cordoned) return nullptr;
    return cordonPatch(node, Json(standard(kTrue)), true);
  }
  if (cordonedByItself(node)) return cordonPatch(node, Json(), true);
  if (cordoned) return nullptr;
  return cordonPatch(node, nullptr, true);
}

kj::Maybe<Json> planUncordon(const Json& node, CordonBy by) {
  if (cordonedByItself(node)) return cordonPatch(node, Json(), Json());
  if (by == CordonBy::kNode || !flagAt(node, {"spec", "unschedulable"})) return nullptr;
  return cordonPatch(node, nullptr, Json());
}

DrainPlan planDrain(kj::ArrayPtr<const Json> pods, const DrainPolicy& policy) {
  DrainPlan plan;
  for (auto& pod : pods) {
    if (isMirror(pod)) {
      plan.stay.add(StayingPod{nameOf(pod), "it is a static pod"_kj});
      continue;
    }
    auto judged = judge(pod, policy);
    switch (judged.choice) {
      case Choice::kStay:
        plan.stay.add(StayingPod{nameOf(pod), reasonToStay(judged.kind), judged.kind});
        break;
      case Choice::kRefuse:
        plan.refused.add(RefusedPod{nameOf(pod), judged.kind});
        break;
      case Choice::kLeave:
        plan.leave.add(LeavingPod{
            kj::str(textAt(pod, {"metadata", "namespace"})),
            kj::str(textAt(pod, {"metadata", "name"})), kj::str(textAt(pod, {"metadata", "uid"})),
            find(pod, {"metadata", "deletionTimestamp"}) != nullptr, judged.kind});
        break;
    }
  }
  return plan;
}

bool isEvicted(const Json& pod) {
  return !isMirror(pod) && !isFinished(pod) &&
         kindByController(pod, DrainPolicy()) == PodKind::kReplicated;
}

}  // namespace talos::kube
