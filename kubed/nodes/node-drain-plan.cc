#include "kubed/nodes/node-drain-plan.h"

namespace talos::kubed {
namespace {

using kube::Json, kube::textAt;

constexpr kj::StringPtr kMirrorAnnotation = "kubernetes.io/config.mirror"_kj;
constexpr kj::StringPtr kTrue = "true"_kj;

std::string standard(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

// Changes both fields of a cordon; null removes.
Json cordonPatch(const Json& node, Json annotation, Json unschedulable) {
  auto annotations = Json::object();
  annotations[standard(kCordonedAnnotation)] = kj::mv(annotation);
  Json metadata{{"annotations", kj::mv(annotations)},
                {"resourceVersion", standard(textAt(node, {"metadata", "resourceVersion"}))}};
  return {{"metadata", kj::mv(metadata)}, {"spec", {{"unschedulable", kj::mv(unschedulable)}}}};
}

// The kind of the pod's controller; empty: it has none.
kj::StringPtr controllerOf(const Json& pod) {
  for (auto owner : kube::itemsAt(pod, {"metadata", "ownerReferences"})) {
    if (kube::flagAt(*owner, {"controller"})) return textAt(*owner, {"kind"});
  }
  return "";
}

kj::Maybe<kj::StringPtr> reasonToStay(const Json& pod) {
  if (kube::find(pod, {"metadata", "annotations", kMirrorAnnotation}) != nullptr) {
    return "it is a static pod"_kj;
  }
  auto controller = controllerOf(pod);
  if (controller.size() == 0) return "it has no controller"_kj;
  if (controller == "DaemonSet") return "it belongs to a DaemonSet"_kj;
  return nullptr;
}

}  // namespace

bool cordonedByUs(const Json& node) {
  return textAt(node, {"metadata", "annotations", kCordonedAnnotation}) == kTrue;
}

kj::Maybe<Json> planCordon(const Json& node) {
  if (kube::flagAt(node, {"spec", "unschedulable"})) return nullptr;
  return cordonPatch(node, standard(kTrue), true);
}

kj::Maybe<Json> planUncordon(const Json& node) {
  if (!cordonedByUs(node)) return nullptr;
  return cordonPatch(node, nullptr, nullptr);
}

DrainPlan planDrain(kj::ArrayPtr<const Json> pods) {
  DrainPlan plan;
  for (auto& pod : pods) {
    KJ_IF_MAYBE (reason, reasonToStay(pod)) {
      plan.stay.add(StayingPod{kube::nameOf(pod), *reason});
      continue;
    }
    plan.leave.add(LeavingPod{kj::str(textAt(pod, {"metadata", "namespace"})),
                              kj::str(textAt(pod, {"metadata", "name"})),
                              kj::str(textAt(pod, {"metadata", "uid"})),
                              kube::find(pod, {"metadata", "deletionTimestamp"}) != nullptr});
  }
  return plan;
}

}  // namespace talos::kubed
