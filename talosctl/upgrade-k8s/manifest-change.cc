#include "talosctl/upgrade-k8s/manifest-change.h"

#include "common/base/error.h"
#include "common/kube/json-yaml.h"
#include "common/text/diff.h"
#include "talosctl/rollout/attempts.h"

namespace talos::talosctl {
namespace {

using kube::FieldConflict, kube::Json, kube::ManifestObject;

constexpr kj::StringPtr kManager = "talos"_kj;  // also the field manager of kubed

kj::String displayName(const ManifestObject& one, bool namespaced) {
  if (!namespaced) return kj::str(one.kind(), " ", one.name());
  return kj::str(one.kind(), " ", one.nameSpace(), "/", one.name());
}

// Returns the text of a value in the brackets of a path: "coredns" in quotes, 53.
std::string keyText(const Json& value) {
  return value.dump();
}

// Returns true if the element of a list has all fields of `selector`: name="dns",protocol="UDP".
bool isSelected(const Json& element, const std::string& selector) {
  if (!element.is_object()) return false;
  size_t at = 0;
  while (at < selector.size()) {
    auto equals = selector.find('=', at);
    if (equals == std::string::npos) return false;
    auto field = element.find(selector.substr(at, equals - at));
    if (field == element.end()) return false;
    auto text = keyText(*field);
    if (selector.compare(equals + 1, text.size(), text) != 0) return false;
    at = equals + 1 + text.size();
    if (at < selector.size() && selector[at] != ',') return false;
    ++at;
  }
  return true;
}

// Returns the end of the brackets that begin `path`; a bracket in quotes is part of a value.
size_t closingBracket(const std::string& path) {
  bool quoted = false;
  for (size_t i = 1; i < path.size(); ++i) {
    if (quoted && path[i] == '\\') {
      ++i;
    } else if (path[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && path[i] == ']') {
      return i;
    }
  }
  return std::string::npos;
}

bool removeAt(Json& value, const std::string& path);

// Removes the member with the longest matching name: names of fields may contain dots
// (annotations).
bool removeMember(Json& object, const std::string& path) {
  size_t best = 0;
  for (auto& [name, member] : object.items()) {
    bool ends = path.size() == 1 + name.size() ||
                (path.size() > 1 + name.size() &&
                 (path[1 + name.size()] == '.' || path[1 + name.size()] == '['));
    if (ends && path.compare(1, name.size(), name) == 0) best = std::max(best, name.size());
  }
  if (best == 0) return false;
  auto name = path.substr(1, best), rest = path.substr(1 + best);
  if (!rest.empty()) return removeAt(object[name], rest);
  object.erase(name);
  return true;
}

bool removeAt(Json& value, const std::string& path) {
  if (path[0] == '.' && value.is_object()) return removeMember(value, path);
  if (path[0] != '[' || !value.is_array()) return false;
  auto end = closingBracket(path);
  if (end == std::string::npos) return false;
  auto selector = path.substr(1, end - 1), rest = path.substr(end + 1);
  for (auto at = value.begin(); at != value.end(); ++at) {
    if (!isSelected(*at, selector)) continue;
    if (!rest.empty()) return removeAt(*at, rest);
    value.erase(at);
    return true;
  }
  return false;
}

kj::String shownText(Json object) {
  if (kube::textAt(object, {"kind"}) == "Secret") {
    for (auto key : {"data", "stringData"}) {
      auto values = object.find(key);
      if (values == object.end() || !values->is_object()) continue;
      for (auto& [name, value] : values->items()) value = "***";
    }
  }
  return kube::writeYaml(object);
}

struct Applied {
  kj::Maybe<Json> object;  // nullptr: nothing can be changed
  kj::Vector<kj::String> kept;
};

// Leaves out the fields of other managers, and applies the rest as a dry run. `wanted` then has the
// fields that can be applied.
kj::Promise<Applied> rehearse(kube::KubeClient& kubernetes, const kube::Resource& resource,
                              const ManifestObject& one, Json& wanted) {
  auto nameSpace = one.nameSpace(), name = one.name();
  auto outcome =
      co_await kubernetes.apply(resource, nameSpace, name, wanted, kManager, {.dryRun = true});
  Applied applied;
  if (outcome.is<Json>()) {
    applied.object = kj::mv(outcome.get<Json>());
    co_return kj::mv(applied);
  }
  bool all = true;
  for (auto& conflict : outcome.get<kj::Vector<FieldConflict>>()) {
    if (conflict.manager == kManager) continue;  // set when kubed created the object
    applied.kept.add(kj::str(conflict.field, " by ", conflict.manager));
    all = removeField(wanted, conflict.field) && all;
  }
  if (!all) co_return kj::mv(applied);
  auto again = co_await kubernetes.apply(resource, nameSpace, name, wanted, kManager,
                                         {.force = true, .dryRun = true});
  if (!again.is<Json>()) {
    fail(ErrorKind::kConflict, kj::str("cannot apply ", resource.plural, "/", name,
                                       ": the API server reports conflicts of a forced apply"));
  }
  applied.object = kj::mv(again.get<Json>());
  co_return kj::mv(applied);
}

}  // namespace

bool removeField(Json& object, kj::StringPtr path) {
  if (path.size() == 0) return false;
  return removeAt(object, std::string(path.begin(), path.size()));
}

Json comparable(const Json& object) {
  auto rest = object;
  rest.erase("status");
  if (auto metadata = rest.find("metadata"); metadata != rest.end() && metadata->is_object()) {
    for (auto key : {"managedFields", "resourceVersion", "generation"}) metadata->erase(key);
  }
  return rest;
}

kj::String missingOfRollout(const Json& object) {
  auto kind = kube::textAt(object, {"kind"});
  bool deployment = kind == "Deployment";
  if (!deployment && kind != "DaemonSet") return kj::String();
  auto status = [&](kj::StringPtr field) { return kube::numberAt(object, {"status", field}); };
  if (status("observedGeneration") < kube::numberAt(object, {"metadata", "generation"})) {
    return kj::str("its controller has not seen the change");
  }
  auto desired = deployment ? kube::numberAt(object, {"spec", "replicas"}, 1)
                            : status("desiredNumberScheduled");
  auto updated = status(deployment ? "updatedReplicas"_kj : "updatedNumberScheduled"_kj);
  auto available = status(deployment ? "availableReplicas"_kj : "numberAvailable"_kj);
  auto pods = status(deployment ? "replicas"_kj : "currentNumberScheduled"_kj);
  if (updated == desired && pods == desired && available >= desired) return kj::String();
  return kj::str(updated, " of ", desired, " pods are updated, ", available, " available");
}

kj::Promise<ObjectChange> changeObject(kube::KubeClient& kubernetes, const ManifestObject& one,
                                       bool rehearsal) {
  ObjectChange change;
  auto resource = co_await kubernetes.resource(one.apiVersion(), one.kind());
  change.object = displayName(one, resource.namespaced);
  auto found = co_await ifFound(kubernetes.get(resource, one.nameSpace(), one.name()));
  if (found == nullptr) {
    change.missing = true;
    co_return kj::mv(change);
  }
  auto wanted = one.object;
  KJ_DEFER(kube::wipe(wanted));
  auto applied = co_await rehearse(kubernetes, resource, one, wanted);
  change.kept = kj::mv(applied.kept);
  KJ_IF_MAYBE (after, applied.object) {
    auto before = comparable(KJ_ASSERT_NONNULL(found)), then = comparable(*after);
    change.changes = before != then;
    if (!change.changes) co_return kj::mv(change);
    change.diff =
        unifiedDiff(shownText(kj::mv(before)), shownText(kj::mv(then)), "cluster", "manifests");
    if (!rehearsal) {
      co_await kubernetes
          .apply(resource, one.nameSpace(), one.name(), wanted, kManager, {.force = true})
          .ignoreResult();
    }
  }
  co_return kj::mv(change);
}

}  // namespace talos::talosctl
