#include "kubed/nodes/node-plan.h"

#include "common/base/date.h"
#include "common/base/reserved-names.h"
#include "common/kube/node-roles.h"

namespace talos::kubed {
namespace {

using kube::Json, kube::find, kube::itemsAt, kube::textAt;

// Times of Kubernetes have no fractions.
constexpr auto kWholeSecond = 1 * kj::SECONDS;

// A part of the object's metadata whose entries the config sets.
struct MetadataField {
  kj::StringPtr name;
  kj::StringPtr memory;  // annotation that lists our keys
  kj::ArrayPtr<const kube::ReservedName> reserved;
  // In messages: key of the config, noun of an entry, command that changes an entry.
  kj::StringPtr key, noun, command;
};
const MetadataField kLabelsField{.name = "labels"_kj,
                                 .memory = kube::kOwnedLabels,
                                 .reserved = kube::kReservedLabels,
                                 .key = "machine.nodeLabels"_kj,
                                 .noun = "label"_kj,
                                 .command = "label"_kj},
    kAnnotationsField{.name = "annotations"_kj,
                      .memory = kube::kOwnedAnnotations,
                      .reserved = kube::kReservedAnnotations,
                      .key = "machine.nodeAnnotations"_kj,
                      .noun = "annotation"_kj,
                      .command = "annotate"_kj};

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

bool isReserved(const MetadataField& field, kj::StringPtr name) {
  return kube::reservedFor(field.reserved, name) != nullptr;
}

bool isRole(kj::StringPtr name) {
  for (auto role : kube::kControlPlaneRoles) {
    if (name == role) return true;
  }
  return false;
}

struct EntriesPlan {
  Json changes = Json::object();  // null removes an entry
  Json ours = Json::array();      // names to list
  kj::Vector<kj::String> foreign;
  kj::Vector<kj::String> refused;  // changes that this node may not make, as texts
};

// Returns the setting, why it is not applied, and the command of an administrator.
kj::String refusedText(const MetadataField& field, const Json& node, kj::StringPtr name,
                       kj::String change) {
  return kj::str(field.key, ": a worker may not change its ", field.noun, " ", name, "; kubectl ",
                 field.command, " --overwrite nodes ", kube::nameOf(node), " ", change, " does it");
}

bool isWanted(capnp::List<config::StringPair>::Reader wanted, kj::StringPtr name) {
  for (auto one : wanted) {
    if (one.getKey() == name) return true;
  }
  return false;
}

// Plans the labels or annotations. `mayChange(name)` returns false for an entry that Kubernetes
// does not let this node change. `isOurs(name, same)` returns true for an existing entry that is
// ours although no list names it; `same`: it has the value of the config.
template <typename MayChange, typename IsOurs>
EntriesPlan planEntries(const Json& node, const MetadataField& field,
                        capnp::List<config::StringPair>::Reader wanted, MayChange&& mayChange,
                        IsOurs&& isOurs) {
  EntriesPlan plan;
  auto remembered = rememberedKeys(node, field.memory);
  for (auto& key : remembered) {
    if (!key.is_string()) continue;
    auto& name = key.get_ref<const std::string&>();
    auto text = kube::toPtr(name);
    if (isReserved(field, text)) continue;
    if (find(node, {"metadata", field.name, text}) == nullptr) continue;
    if (mayChange(text)) {
      plan.changes[name] = nullptr;
    } else if (!isWanted(wanted, text)) {
      plan.ours.push_back(name);
      plan.refused.add(refusedText(field, node, text, kj::str(text, "-")));
    }
  }
  for (auto one : wanted) {
    kj::StringPtr name = one.getKey(), value = one.getValue();
    if (isReserved(field, name)) continue;
    plan.changes.erase(toStd(name));
    bool exists = find(node, {"metadata", field.name, name}) != nullptr;
    bool same = exists && textAt(node, {"metadata", field.name, name}) == value;
    if (!mayChange(name)) {
      // Remembered until the config no longer has it: then its removal is left to others.
      if (holds(remembered, name)) plan.ours.push_back(toStd(name));
      if (!same) {
        plan.refused.add(refusedText(field, node, name, kj::str(name, "=", value)));
      }
    } else if (!exists || holds(remembered, name) || isOurs(name, same)) {
      plan.ours.push_back(toStd(name));
      if (!same) plan.changes[toStd(name)] = toStd(value);
    } else if (!same) {
      plan.foreign.add(kj::str(name));
    }
  }
  return plan;
}

EntriesPlan planLabels(rpc::NodeSpecSpec::Reader wanted, const Json& node) {
  bool controlPlane = wanted.getControlPlane();
  return planEntries(
      node, kLabelsField, wanted.getLabels(),
      [controlPlane](kj::StringPtr name) { return controlPlane || kube::kubeletMayLabel(name); },
      [controlPlane](kj::StringPtr name, bool same) { return controlPlane ? isRole(name) : same; });
}

EntriesPlan planAnnotations(rpc::NodeSpecSpec::Reader wanted, const Json& node) {
  return planEntries(
      node, kAnnotationsField, wanted.getAnnotations(), [](kj::StringPtr) { return true; },
      [](kj::StringPtr, bool) { return false; });
}

// Returns the setting, why it is not applied, and a command without which it stays so.
kj::String notAppliedText(kj::StringPtr key, kj::StringPtr noun, kj::StringPtr name,
                          kj::StringPtr command, const Json& node) {
  return kj::str(key, ": another client has set the ", noun, " ", name, "; kubectl ", command,
                 " nodes ", kube::nameOf(node), " ", name, "- lets the node set it");
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
  return isRole(textAt(taint, {"key"})) && textAt(taint, {"effect"}) == "NoSchedule";
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
  if (kube::reservedFor(kube::kReservedTaints, textAt(taint, {"key"})) != nullptr) return false;
  return holds(remembered, memoryOf(taint)) || holds(remembered, textAt(taint, {"key"}));
}

Json taintsOfConfig(rpc::NodeSpecSpec::Reader wanted) {
  auto ours = Json::array();
  for (auto taint : wanted.getTaints()) {
    ours.push_back(taintOf(taint.getKey(), taint.getValue()));
  }
  return ours;
}

bool isSameValue(const Json& taint, const Json& other) {
  return textAt(taint, {"value"}) == textAt(other, {"value"});
}

// Returns the taints of the config that another client has set to another value; on a worker an
// empty list, because its command for an administrator overwrites them.
Json foreignTaints(rpc::NodeSpecSpec::Reader wanted, const Json& node) {
  auto foreign = Json::array();
  if (!wanted.getControlPlane()) return foreign;
  auto ofConfig = taintsOfConfig(wanted);
  auto remembered = rememberedKeys(node, kube::kOwnedTaints);
  for (auto there : itemsAt(node, {"spec", "taints"})) {
    if (isOurs(remembered, *there) || isRoleTaint(*there)) continue;
    KJ_IF_MAYBE (own, findOf(ofConfig, *there)) {
      if (!isSameValue(*own, *there)) foreign.push_back(*own);
    }
  }
  return foreign;
}

Json wantedTaints(rpc::NodeSpecSpec::Reader wanted, const Json& node) {
  auto ours = taintsOfConfig(wanted), foreign = foreignTaints(wanted, node);
  auto remembered = rememberedKeys(node, kube::kOwnedTaints);
  bool schedulable = wanted.getControlPlane() && wanted.getSchedulable();
  auto all = Json::array();
  for (auto there : itemsAt(node, {"spec", "taints"})) {
    KJ_IF_MAYBE (own, findOf(ours, *there)) {
      bool stays = isSameValue(*own, *there) || findOf(foreign, *own) != nullptr;
      all.push_back(stays ? *there : *own);
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
  auto ofConfig = taintsOfConfig(wanted), foreign = foreignTaints(wanted, node);
  for (auto& own : ofConfig) {
    if (findOf(foreign, own) == nullptr) keys.push_back(toStd(memoryOf(own)));
  }
  if (wanted.getControlPlane()) return keys;
  auto remembered = rememberedKeys(node, kube::kOwnedTaints);
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
      if (isSameValue(*same, taint)) continue;
    }
    changes.add(writtenTaint(taint, ""));
  }
  for (auto& taint : there) {
    if (findOf(all, taint) == nullptr) {
      changes.add(kj::str(textAt(taint, {"key"}), ":", textAt(taint, {"effect"}), "-"));
    }
  }
  if (changes.empty()) return kj::String();
  return kj::str("a worker may not change its own taints: kubectl taint --overwrite nodes ",
                 kube::nameOf(node), " ", kj::strArray(changes, " "));
}

NodePlan planNode(rpc::NodeSpecSpec::Reader wanted, const Json& node) {
  NodePlan plan;
  auto metadata = Json::object();
  auto labels = planLabels(wanted, node), annotations = planAnnotations(wanted, node);
  if (!labels.changes.empty()) metadata["labels"] = kj::mv(labels.changes);
  auto remember = [&](kj::StringPtr annotation, const Json& keys) {
    if (keys != rememberedKeys(node, annotation))
      annotations.changes[annotation.cStr()] = keys.dump();
  };
  remember(kube::kOwnedLabels, labels.ours);
  remember(kube::kOwnedAnnotations, annotations.ours);
  remember(kube::kOwnedTaints, taintsToRemember(wanted, node));
  if (!annotations.changes.empty()) metadata["annotations"] = kj::mv(annotations.changes);

  auto report = [&](const MetadataField& field, kj::ArrayPtr<const kj::String> foreign) {
    for (auto& name : foreign) {
      plan.notApplied.add(notAppliedText(field.key, field.noun, name, field.command, node));
    }
  };
  report(kLabelsField, labels.foreign);
  for (auto& text : labels.refused) plan.notApplied.add(kj::mv(text));
  report(kAnnotationsField, annotations.foreign);
  auto foreign = foreignTaints(wanted, node);
  for (auto& taint : foreign) {
    plan.notApplied.add(
        notAppliedText("machine.nodeTaints", "taint", memoryOf(taint), "taint", node));
  }

  auto there = Json::array();
  KJ_IF_MAYBE (list, find(node, {"spec", "taints"})) there = *list;
  auto taints = wanted.getControlPlane() ? wantedTaints(wanted, node) : there;
  bool tainted = taints == there;
  if (metadata.empty() && tainted) return plan;

  metadata["resourceVersion"] = toStd(textAt(node, {"metadata", "resourceVersion"}));
  Json patch{{"metadata", kj::mv(metadata)}};
  if (!tainted) patch["spec"] = Json{{"taints", kj::mv(taints)}};
  plan.patch = kj::mv(patch);
  return plan;
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
