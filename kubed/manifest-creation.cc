#include "kubed/manifest-creation.h"

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
                                kj::FunctionParam<void(const ManifestObject&)> created) {
  for (auto& one : objects) {
    auto resource = co_await kubernetes.resource(one.apiVersion(), one.kind());
    if (co_await isThere(kubernetes, resource, one)) continue;
    auto made = co_await kubernetes.create(resource, one.nameSpace(), one.object, kFieldManager);
    if (made != nullptr) created(one);
  }
}

}  // namespace talos::kubed
