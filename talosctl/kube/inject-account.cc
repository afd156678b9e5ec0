#include "talosctl/kube/inject-account.h"

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

using kube::Json;

constexpr const char *kVolume = "talos-secrets", *kMountPath = "/var/run/secrets/talos.dev";

constexpr const char *kOfPod[] = {"spec"}, *kOfTemplate[] = {"spec", "template", "spec"},
                     *kOfJobTemplate[] = {"spec", "jobTemplate", "spec", "template", "spec"};

// A kind whose objects run pods, and the path of their pod spec.
struct PodKind {
  kj::StringPtr group, kind;
  kj::ArrayPtr<const char* const> spec;
};
constexpr PodKind kPodKinds[] = {
    {""_kj, "Pod"_kj, kOfPod},
    {"apps"_kj, "Deployment"_kj, kOfTemplate},
    {"apps"_kj, "DaemonSet"_kj, kOfTemplate},
    {"apps"_kj, "StatefulSet"_kj, kOfTemplate},
    {"apps"_kj, "ReplicaSet"_kj, kOfTemplate},
    {"batch"_kj, "Job"_kj, kOfTemplate},
    {"batch"_kj, "CronJob"_kj, kOfJobTemplate},
};

[[noreturn]] void refuse(const Json& object, kj::StringPtr error) {
  auto name = kube::textAt(object, {"metadata", "name"});
  fail(ErrorKind::kInvalidArgument,
       kj::str(kube::textAt(object, {"kind"}), name.size() > 0 ? " " : "", name, ": ", error));
}

kj::Maybe<const PodKind&> podKindOf(const Json& object) {
  auto version = kube::textAt(object, {"apiVersion"});
  auto slash = version.findFirst('/');
  auto group = version.slice(0, slash.orDefault(0));
  for (auto& one : kPodKinds) {
    if (one.kind == kube::textAt(object, {"kind"}) && group == one.group.asArray()) return one;
  }
  return nullptr;
}

Json& podSpecOf(Json& object, const PodKind& kind) {
  auto* at = &object;
  for (auto key : kind.spec) {
    if (!at->contains(key) || !(*at)[key].is_object()) {
      refuse(object, kj::str("has no \"", key, "\" that describes its pods"));
    }
    at = &(*at)[key];
  }
  return *at;
}

// Returns the list of this name, and creates it if it does not exist.
Json& listOf(const Json& object, Json& parent, const char* name) {
  auto& list = parent[name];
  if (list.is_null()) list = Json::array();
  if (!list.is_array()) refuse(object, kj::str("\"", name, "\" is not a list"));
  return list;
}

// Returns the item with this text at `key`; nullptr if there is no such item.
kj::Maybe<Json&> itemWith(Json& list, const char* key, kj::StringPtr text) {
  for (auto& item : list) {
    if (kube::textAt(item, {kj::StringPtr(key)}) == text) return item;
  }
  return nullptr;
}

void mount(const Json& object, Json& containers) {
  for (auto& container : containers) {
    if (!container.is_object()) refuse(object, "one of its containers is not a mapping");
    auto& mounts = listOf(object, container, "volumeMounts");
    KJ_IF_MAYBE (taken, itemWith(mounts, "mountPath", kMountPath)) {
      if (kube::textAt(*taken, {"name"}) == kVolume) continue;
      refuse(object, kj::str("the container ", kube::textAt(container, {"name"}),
                             " has another volume at ", kMountPath));
    }
    mounts.push_back({{"mountPath", kMountPath}, {"name", kVolume}});
  }
}

void addVolume(const Json& object, Json& spec, const std::string& secret) {
  auto& volumes = listOf(object, spec, "volumes");
  KJ_IF_MAYBE (volume, itemWith(volumes, "name", kVolume)) {
    if (kube::textAt(*volume, {"secret", "secretName"}) == secret.c_str()) return;
    refuse(object, kj::str("has another volume of the name ", kVolume));
  }
  volumes.push_back({{"name", kVolume}, {"secret", {{"secretName", secret}}}});
}

Json accountOf(const Json& object, const std::string& name, kj::ArrayPtr<const kj::String> roles) {
  Json metadata{{"name", name}};
  auto nameSpace = kube::textAt(object, {"metadata", "namespace"});
  if (nameSpace.size() > 0) metadata["namespace"] = nameSpace.cStr();
  auto list = Json::array();
  for (auto& role : roles) list.push_back(role.cStr());
  return {{"apiVersion", "talos.dev/v1alpha1"},
          {"kind", "ServiceAccount"},
          {"metadata", metadata},
          {"spec", {{"roles", list}}}};
}

// Returns the account of an object, and adds the volume to the object; nullptr if the object runs
// no pods.
kj::Maybe<Json> inject(Json& object, kj::ArrayPtr<const kj::String> roles) {
  KJ_IF_MAYBE (kind, podKindOf(object)) {
    auto name = kube::textAt(object, {"metadata", "name"});
    if (name.size() == 0) {
      refuse(object, "has no metadata.name, after which the account is named");
    }
    auto account = std::string(name.cStr()) + "-" + kVolume;
    auto& spec = podSpecOf(object, *kind);
    mount(object, listOf(object, spec, "containers"));
    if (spec.contains("initContainers")) mount(object, listOf(object, spec, "initContainers"));
    addVolume(object, spec, account);
    return accountOf(object, account, roles);
  }
  return nullptr;
}

// Returns true for a list, as `kubectl get -o yaml` writes it.
bool isList(const Json& object) {
  return kube::textAt(object, {"kind"}) == "List" && object.contains("items") &&
         object["items"].is_array();
}

}  // namespace

InjectedManifests injectAccounts(kj::Vector<Json> documents, kj::ArrayPtr<const kj::String> roles) {
  InjectedManifests result;
  for (auto& document : documents) {
    if (!document.is_object()) {
      fail(ErrorKind::kInvalidArgument, "a document is not an object of Kubernetes");
    }
    kj::Vector<Json> accounts;
    auto take = [&](Json& object) {
      auto account = inject(object, roles);
      KJ_IF_MAYBE (made, account) accounts.add(kj::mv(*made));
    };
    if (isList(document)) {
      for (auto& item : document["items"]) take(item);
    } else {
      take(document);
    }
    result.accounts += accounts.size();
    result.documents.add(kj::mv(document));
    for (auto& account : accounts) result.documents.add(kj::mv(account));
  }
  return result;
}

}  // namespace talos::talosctl
