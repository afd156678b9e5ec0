#include "kubed/manifests/manifest-creation.h"

#include "common/base/error.h"

namespace talos::kubed {
namespace {

kj::Promise<bool> isThere(kube::KubeClient& kubernetes, const kube::Resource& resource,
                          const ManifestObject& one) {
  kj::Maybe<kj::Exception> failure;
  auto found =
      co_await kubernetes.get(resource, one.nameSpace(), one.name()).catch_([&](kj::Exception&& e) {
        failure = kj::mv(e);
        return kube::Json();
      });
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(*e));
  }
  co_return failure == nullptr;
}

}  // namespace

kj::Promise<void> createObjects(kube::KubeClient& kubernetes,
                                kj::ArrayPtr<const ManifestObject> objects,
                                kj::Function<void(const ManifestObject&)>& created) {
  for (auto& one : objects) {
    auto resource = co_await kubernetes.resource(one.apiVersion(), one.kind());
    if (co_await isThere(kubernetes, resource, one)) continue;
    auto made = co_await kubernetes.create(resource, one.nameSpace(), one.object, kFieldManager);
    if (made != nullptr) created(one);
  }
}

namespace {

kj::Promise<void> createTogether(kube::KubeClient& kubernetes, kj::Vector<ManifestText> manifests,
                                 kj::StringPtr tokenSecret, kj::StringPtr tokenEnd,
                                 kj::Function<void(const ManifestObject&)>& created,
                                 CreatedManifests& result) {
  auto ids = KJ_MAP(one, manifests) {
    return kj::str(one.id);
  };
  auto objects = kube::objectsOf(kj::mv(manifests), tokenSecret, tokenEnd);
  KJ_DEFER(for (auto& one : objects) kube::wipe(one.object));
  co_await createObjects(kubernetes, objects, created);
  for (auto& id : ids) result.applied.add(kj::mv(id));
}

}  // namespace

kj::Promise<CreatedManifests> createManifests(kube::KubeClient& kubernetes,
                                              kj::ArrayPtr<const ManifestText> manifests,
                                              kj::StringPtr tokenSecret,
                                              kj::Function<void(const ManifestObject&)> created,
                                              kj::StringPtr tokenEnd) {
  CreatedManifests result;
  kj::Vector<ManifestText> own;
  for (auto& one : manifests) {
    if (!one.extra) own.add(one);
  }
  co_await createTogether(kubernetes, kj::mv(own), tokenSecret, tokenEnd, created, result);
  for (auto& one : manifests) {
    if (!one.extra) continue;
    kj::Vector<ManifestText> alone;
    alone.add(one);
    auto creating =
        createTogether(kubernetes, kj::mv(alone), tokenSecret, tokenEnd, created, result);
    co_await creating.catch_([&](kj::Exception&& e) {
      result.failures.add(CreatedManifests::Failure{kj::str(one.id), messageOf(e)});
    });
  }
  co_return kj::mv(result);
}

namespace {

struct RetiredBinding {
  kj::StringPtr name, role, kind, subject, nameSpace;
};
constexpr RetiredBinding kRetired[] = {
    // Any client with the bootstrap token could become any node. Now kubed approves
    // (kubed/nodes/join-approver.h).
    {"system-bootstrap-approve-node-client-csr"_kj,
     "system:certificates.k8s.io:certificatesigningrequests:nodeclient"_kj, "Group"_kj,
     "system:bootstrappers"_kj, ""_kj},
    // Each pod of kube-system without its own account was an administrator.
    {"system:default-sa"_kj, "cluster-admin"_kj, "ServiceAccount"_kj, "default"_kj,
     "kube-system"_kj},
};

bool isRetired(const RetiredBinding& retired, const kube::Json& binding) {
  auto subjects = kube::itemsAt(binding, {"subjects"});
  if (subjects.size() != 1) return false;
  auto& subject = *subjects[0];
  return kube::textAt(binding, {"roleRef", "name"}) == retired.role &&
         kube::textAt(subject, {"kind"}) == retired.kind &&
         kube::textAt(subject, {"name"}) == retired.subject &&
         kube::textAt(subject, {"namespace"}) == retired.nameSpace;
}

}  // namespace

kj::Promise<void> removeRetired(kube::KubeClient& kubernetes,
                                kj::Function<void(kj::StringPtr)> removed) {
  auto bindings = kube::roleBindings();
  for (auto& retired : kRetired) {
    kj::Maybe<kube::Json> found;
    co_await kubernetes.get(bindings, "", retired.name)
        .then([&](kube::Json binding) { found = kj::mv(binding); },
              [](kj::Exception&& e) {
                if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
              });
    KJ_IF_MAYBE (binding, found) {
      if (!isRetired(retired, *binding)) continue;
      if (co_await kubernetes.remove(bindings, "", retired.name)) removed(retired.name);
    }
  }
}

}  // namespace talos::kubed
