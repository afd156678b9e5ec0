#include "kubed/nodes/node-plan.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/kube/drain-plan.h"
#include "common/kube/node-roles.h"

namespace talos::kubed {
namespace {

using kube::Json, kube::find, kube::itemsAt, kube::textAt;

// Times of Kubernetes have no fractions.
constexpr auto kWholeSecond = 1 * kj::SECONDS;
constexpr kj::StringPtr kHostnameLabel = "kubernetes.io/hostname"_kj;

std::string toStd(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

// Returns the keys in an annotation.
Json rememberedKeys(const Json& node, kj::StringPtr annotation) {
  auto text = textAt(node, {"metadata", "annotations", annotation});
  auto keys = Json::parse(text.begin(), text.end(), nullptr, false);
  return keys.is_array() ? keys : Json::array();
}

bool holds(const Json& keys, kj::StringPtr key) {
  for (auto& item : keys) {
    if (item.is_string() && kube::toPtr(item.get_ref<const std::string&>()) == key) return true;
  }
  return false;
}

template <typename List>
Json keysOf(List wanted) {
  auto keys = Json::array();
  for (auto one : wanted) keys.push_back(toStd(one.getKey()));
  return keys;
}

// Returns true for our annotations that the config must not remove, whatever the lists of keys say.
bool isMemory(kj::StringPtr annotation) {
  return annotation == kOwnedLabels || annotation == kOwnedAnnotations ||
         annotation == kOwnedTaints || annotation == kube::kCordonedAnnotation;
}

// Returns the changes of the labels or annotations of the node; null removes one.
template <typename List>
Json changesOf(const Json& node, kj::StringPtr field, kj::StringPtr memory, List wanted) {
  auto changes = Json::object();
  for (auto key : rememberedKeys(node, memory)) {
    if (!key.is_string()) continue;
    auto& name = key.get_ref<const std::string&>();
    if (isMemory(kube::toPtr(name))) continue;
    if (find(node, {"metadata", field, kube::toPtr(name)}) != nullptr) changes[name] = nullptr;
  }
  for (auto one : wanted) {
    auto key = toStd(one.getKey());
    changes.erase(key);
    auto there = find(node, {"metadata", field, one.getKey()});
    if (there == nullptr ||
        textAt(node, {"metadata", field, one.getKey()}) != kj::StringPtr(one.getValue())) {
      changes[key] = toStd(one.getValue());
    }
  }
  return changes;
}

// Parses "value:Effect", or ":Effect".
Json taintOf(kj::StringPtr key, kj::StringPtr text) {
  Json taint{{"key", toStd(key)}};
  auto effect = text;
  KJ_IF_MAYBE (colon, text.findLast(':')) {
    if (*colon > 0) taint["value"] = toStd(kj::heapString(text.slice(0, *colon)));
    effect = text.slice(*colon + 1);
  }
  taint["effect"] = toStd(effect);
  return taint;
}

bool isRoleTaint(const Json& taint) {
  for (auto key : kube::kControlPlaneRoles) {
    if (textAt(taint, {"key"}) == key && textAt(taint, {"effect"}) == "NoSchedule") return true;
  }
  return false;
}

bool isOf(const Json& taint, const Json& other) {  // a node has one of each key and effect
  return textAt(taint, {"key"}) == textAt(other, {"key"}) &&
         textAt(taint, {"effect"}) == textAt(other, {"effect"});
}

kj::Maybe<const Json&> findOf(const Json& taints, const Json& taint) {
  for (auto& one : taints) {
    if (isOf(one, taint)) return one;
  }
  return nullptr;
}

// Returns "gpu:NoSchedule", the form in our annotation.
kj::String memoryOf(const Json& taint) {
  return kj::str(textAt(taint, {"key"}), ":", textAt(taint, {"effect"}));
}

bool isOurs(const Json& remembered, const Json& taint) {
  return holds(remembered, memoryOf(taint)) || holds(remembered, textAt(taint, {"key"}));
}

Json taintsOfConfig(rpc::NodeSpecSpec::Reader wanted) {
  auto ours = Json::array();
  for (auto taint : wanted.getTaints()) {
    ours.push_back(taintOf(taint.getKey(), taint.getValue()));
  }
  return ours;
}

Json wantedTaints(rpc::NodeSpecSpec::Reader wanted, const Json& node) {
  auto ours = taintsOfConfig(wanted);
  auto remembered = rememberedKeys(node, kOwnedTaints);
  bool schedulable = wanted.getControlPlane() && wanted.getSchedulable();
  auto all = Json::array();
  for (auto there : itemsAt(node, {"spec", "taints"})) {
    KJ_IF_MAYBE (own, findOf(ours, *there)) {
      bool same = textAt(*own, {"value"}) == textAt(*there, {"value"});
      all.push_back(same ? *there : *own);
    } else if (!isOurs(remembered, *there) && !(schedulable && isRoleTaint(*there))) {
      all.push_back(*there);
    }
  }
  for (auto& own : ours) {
    if (findOf(all, own) == nullptr) all.push_back(own);
  }
  return all;
}

// Returns the taints to list in the annotation. On a worker they include taints that the worker
// cannot remove: they still exist.
Json taintsToRemember(rpc::NodeSpecSpec::Reader wanted, const Json& node) {
  auto keys = Json::array();
  for (auto& own : taintsOfConfig(wanted)) keys.push_back(toStd(memoryOf(own)));
  if (wanted.getControlPlane()) return keys;
  auto remembered = rememberedKeys(node, kOwnedTaints);
  for (auto there : itemsAt(node, {"spec", "taints"})) {
    auto memory = memoryOf(*there);
    if (isOurs(remembered, *there) && !holds(keys, memory)) keys.push_back(toStd(memory));
  }
  return keys;
}

// Returns the taint in the syntax of kubectl taint.
kj::String writtenTaint(const Json& taint, kj::StringPtr end) {
  auto value = textAt(taint, {"value"});
  return kj::str(textAt(taint, {"key"}), value.size() > 0 ? "=" : "", value, ":",
                 textAt(taint, {"effect"}), end);
}

}  // namespace

kj::String leftToOthers(rpc::NodeSpecSpec::Reader wanted, const Json& node) {
  if (wanted.getControlPlane()) return kj::String();
  kj::Vector<kj::String> changes;
  auto all = wantedTaints(wanted, node);
  auto there = Json::array();
  KJ_IF_MAYBE (list, find(node, {"spec", "taints"})) there = *list;
  for (auto& taint : all) {
    KJ_IF_MAYBE (same, findOf(there, taint)) {
      if (textAt(*same, {"value"}) == textAt(taint, {"value"})) continue;
    }
    changes.add(writtenTaint(taint, ""));
  }
  for (auto& taint : there) {
    if (findOf(all, taint) == nullptr) {
      changes.add(kj::str(textAt(taint, {"key"}), ":", textAt(taint, {"effect"}), "-"));
    }
  }
  if (changes.empty()) return kj::String();
  return kj::str(kube::kOwnTaints, "kubectl taint --overwrite nodes ", kube::nameOf(node), " ",
                 kj::strArray(changes, " "));
}

kj::Maybe<Json> planNode(rpc::NodeSpecSpec::Reader wanted, const Json& node) {
  if (find(node, {"metadata", "labels", kHostnameLabel}) == nullptr) {
    fail(ErrorKind::kFailedPrecondition, kj::str("the node has no label ", kHostnameLabel, " yet"));
  }
  auto metadata = Json::object();
  auto labels = changesOf(node, "labels", kOwnedLabels, wanted.getLabels());
  if (!labels.empty()) metadata["labels"] = kj::mv(labels);
  auto annotations = changesOf(node, "annotations", kOwnedAnnotations, wanted.getAnnotations());
  auto remember = [&](kj::StringPtr annotation, Json keys) {
    if (keys != rememberedKeys(node, annotation)) annotations[annotation.cStr()] = keys.dump();
  };
  remember(kOwnedLabels, keysOf(wanted.getLabels()));
  remember(kOwnedAnnotations, keysOf(wanted.getAnnotations()));
  remember(kOwnedTaints, taintsToRemember(wanted, node));
  if (!annotations.empty()) metadata["annotations"] = kj::mv(annotations);
  auto there = Json::array();
  KJ_IF_MAYBE (list, find(node, {"spec", "taints"})) there = *list;
  auto taints = wanted.getControlPlane() ? wantedTaints(wanted, node) : there;
  bool tainted = taints == there;
  if (metadata.empty() && tainted) return nullptr;

  metadata["resourceVersion"] = toStd(textAt(node, {"metadata", "resourceVersion"}));
  Json patch{{"metadata", kj::mv(metadata)}};
  if (!tainted) patch["spec"] = Json{{"taints", kj::mv(taints)}};
  return patch;
}

NodeState stateOf(const Json& node, kj::Date boot) {
  NodeState state;
  state.unschedulable = kube::flagAt(node, {"spec", "unschedulable"});
  for (auto condition : itemsAt(node, {"status", "conditions"})) {
    if (textAt(*condition, {"type"}) == "Ready") {
      auto heartbeat = parseDate(textAt(*condition, {"lastHeartbeatTime"})).orDefault(boot);
      state.ready = textAt(*condition, {"status"}) == "True" && heartbeat + kWholeSecond >= boot;
    }
  }
  return state;
}

}  // namespace talos::kubed
