#include "common/config/rules/free-form.h"

#include <set>
#include <string>

#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"
#include "common/text/texts.h"

namespace talos::config {
namespace {

using codec::YamlNode;
using ValueKind = YamlNode::Kind;

constexpr kj::StringPtr kActions[] = {
    "SCMP_ACT_ALLOW"_kj,        "SCMP_ACT_ERRNO"_kj,       "SCMP_ACT_KILL"_kj,
    "SCMP_ACT_KILL_PROCESS"_kj, "SCMP_ACT_KILL_THREAD"_kj, "SCMP_ACT_LOG"_kj,
    "SCMP_ACT_NOTIFY"_kj,       "SCMP_ACT_TRACE"_kj,       "SCMP_ACT_TRAP"_kj};

// The document in a text that the decoder of the config has read before.
class FreeFormDocument {
 public:
  explicit FreeFormDocument(kj::StringPtr text) : stream(text, "", problems) {}

  const YamlNode& root() const {
    auto documents = stream.documents();
    return documents.size() > 0 ? *documents[0] : nothing;
  }

 private:
  Problems problems;
  codec::YamlStream stream;
  YamlNode nothing;
};

// Returns the value of a key; nullptr if the node is no mapping or lacks it.
const YamlNode* at(const YamlNode* node, kj::StringPtr key) {
  if (node == nullptr) return nullptr;
  for (auto& entry : node->entries) {
    if (entry.key == key) return entry.value;
  }
  return nullptr;
}

// Returns the text of a scalar; empty for every other node.
kj::StringPtr textOf(const YamlNode* node) {
  return node != nullptr && node->kind == ValueKind::kScalar ? kj::StringPtr(node->text) : ""_kj;
}

class MistakeList {
 public:
  explicit MistakeList(kj::Vector<FreeFormMistake>& list) : list(list) {}
  void add(kj::StringPtr path, kj::String message, kj::StringPtr hint) {
    list.add(FreeFormMistake{kj::str(path), kj::mv(message), kj::str(hint)});
  }
  bool none() const { return list.empty(); }

 private:
  kj::Vector<FreeFormMistake>& list;
};

kj::String isNot(const YamlNode* node, kj::StringPtr what) {
  if (node == nullptr || node->kind == ValueKind::kNull) return kj::str("missing");
  if (node->kind != ValueKind::kScalar) return kj::str("not ", what);
  return kj::str(jsonString(node->text), " is not ", what);
}

// --- static pods

// Ids of the control plane's pods, which a pod named apiserver in the namespace kube would have.
constexpr kj::StringPtr kControlPlanePods[] = {"kube-apiserver"_kj, "kube-controller-manager"_kj,
                                               "kube-scheduler"_kj};

// Returns true for a subdomain of DNS, which names of pods are.
bool isPodName(kj::StringPtr name) {
  if (!isDnsName(name) || name.endsWith(".")) return false;
  for (char c : name) {
    if (c == '_' || (c >= 'A' && c <= 'Z')) return false;
  }
  return true;
}

// --- profiles

void checkAction(MistakeList& mistakes, const YamlNode* node, kj::StringPtr path) {
  if (!contains(kActions, textOf(node))) {
    mistakes.add(
        path, isNot(node, "an action of seccomp"),
        kj::str("use one of ", kj::strArray(kj::ArrayPtr<const kj::StringPtr>(kActions), ", ")));
  }
}

void checkSyscalls(MistakeList& mistakes, const YamlNode* syscalls) {
  if (syscalls == nullptr) return;
  if (syscalls->kind != ValueKind::kSequence) {
    return mistakes.add("syscalls", isNot(syscalls, "a list"), "begin each item with \"- \"");
  }
  for (auto i : kj::indices(syscalls->items)) {
    auto path = kj::str("syscalls[", i, "]");
    auto* rule = syscalls->items[i];
    auto* names = at(rule, "names");
    if (names == nullptr || names->kind != ValueKind::kSequence || names->items.size() == 0) {
      mistakes.add(kj::str(path, ".names"), kj::str("no system calls"),
                   "for example names: [mkdir, mkdirat]");
    }
    checkAction(mistakes, at(rule, "action"), kj::str(path, ".action"));
  }
}

}  // namespace

FreeFormValue readStaticPod(kj::StringPtr text) {
  FreeFormValue result;
  MistakeList mistakes(result.mistakes);
  FreeFormDocument document(text);
  auto* pod = &document.root();
  if (pod->kind != ValueKind::kMapping) {
    mistakes.add("", kj::str("not a pod: expected a mapping (\"key: value\" lines)"),
                 "write apiVersion: v1, kind: Pod, metadata and spec");
    return result;
  }
  auto* version = at(pod, "apiVersion");
  if (textOf(version) != "v1") mistakes.add("apiVersion", isNot(version, "v1"), "use v1");
  auto* kind = at(pod, "kind");
  if (textOf(kind) != "Pod") mistakes.add("kind", isNot(kind, "Pod"), "use Pod");
  auto* metadata = at(pod, "metadata");
  auto* name = at(metadata, "name");
  if (!isPodName(textOf(name))) {
    mistakes.add("metadata.name", isNot(name, "a valid name of a pod"),
                 "use lower-case letters, digits, - and .");
  }
  auto* space = at(metadata, "namespace");
  if (space != nullptr && !isNamespace(textOf(space))) {
    mistakes.add("metadata.namespace", isNot(space, "a valid name of a namespace"),
                 "use lower-case letters, digits and -");
  }
  auto* containers = at(at(pod, "spec"), "containers");
  if (containers == nullptr || containers->kind != ValueKind::kSequence ||
      containers->items.size() == 0) {
    mistakes.add("spec.containers", kj::str("the pod has no containers"),
                 "for example containers: [{name: a, image: registry.k8s.io/pause:3.10}]");
  }
  auto id = kj::str(space == nullptr ? "default"_kj : textOf(space), "-", textOf(name));
  if (contains(kControlPlanePods, id)) {
    mistakes.add("metadata.name", kj::str("the node runs a pod of the control plane as ", id),
                 "use another name");
  }
  if (mistakes.none()) result.derived = kj::mv(id);
  return result;
}

bool isProfileName(kj::StringPtr name) {
  constexpr size_t kLongest = 255;
  if (name.size() == 0 || name.size() > kLongest || name == "." || name == "..") return false;
  for (char c : name) {
    if (c == '/' || static_cast<unsigned char>(c) < ' ' || c == '\x7f') return false;
  }
  return true;
}

FreeFormValue readSeccompProfile(kj::StringPtr text) {
  FreeFormValue result;
  MistakeList mistakes(result.mistakes);
  FreeFormDocument document(text);
  auto& profile = document.root();
  if (profile.kind != ValueKind::kMapping) {
    mistakes.add("", kj::str("not a profile: expected a mapping (\"key: value\" lines)"),
                 "for example defaultAction: SCMP_ACT_ALLOW and syscalls");
    return result;
  }
  checkAction(mistakes, at(&profile, "defaultAction"), "defaultAction");
  checkSyscalls(mistakes, at(&profile, "syscalls"));
  if (mistakes.none()) result.derived = kj::str(codec::renderJson(profile, 2), "\n");
  return result;
}

void deriveFreeFormValues(Config::Builder view) {
  if (!view.asReader().hasMachine()) return;
  auto machine = view.getMachine();
  std::set<std::string> ids, names;
  for (auto i : kj::indices(machine.asReader().getPods())) {
    auto pod = machine.getPods()[i];
    auto read = readStaticPod(pod.asReader().getPod());
    if (ids.insert(read.derived.cStr()).second) pod.setId(read.derived);
  }
  for (auto i : kj::indices(machine.asReader().getSeccompProfiles())) {
    auto profile = machine.getSeccompProfiles()[i];
    auto name = profile.asReader().getName();
    bool good = isProfileName(name) && names.insert(name.cStr()).second;
    if (good) profile.setJson(readSeccompProfile(profile.asReader().getValue()).derived);
  }
  auto overrides = machine.asReader().getBaseRuntimeSpecOverrides();
  if (overrides.size() > 0) {
    machine.setBaseRuntimeSpec(readRuntimeSpecOverrides(overrides).derived);
  }
}

}  // namespace talos::config
