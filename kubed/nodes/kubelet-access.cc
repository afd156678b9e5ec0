#include "kubed/nodes/kubelet-access.h"

#include "common/base/error.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kClientId = "kubelet"_kj, kNodeSpecId = "node"_kj;

}  // namespace

KubeletAccess::KubeletAccess(StoreClient& store, SharedKube::Make make) : make(kj::mv(make)) {
  clients = store.watch<rpc::KubeletClientSpec>(
      [this] {
        take();
        changed.raise();
      },
      kClientId);
}

void KubeletAccess::take() {
  current = nullptr;
  noClient = kj::str("waiting for the certificate of the kubelet");
  KJ_IF_MAYBE (found, clients.find(kClientId)) {
    auto failure = kj::runCatchingExceptions([&] {
      auto access = kube::readAccess(found->getKubeconfig(), "the kubelet's access");
      current = kj::refcounted<SharedKube>(make(kj::mv(access)));
    });
    KJ_IF_MAYBE (e, failure) noClient = messageOf(*e);
  }
}

kj::OneOf<kj::Own<SharedKube>, kj::String> KubeletAccess::client() {
  KJ_IF_MAYBE (known, current) return kj::addRef(**known);
  return kj::str(noClient);
}

WorkerStoreAdapter::WorkerStoreAdapter(StoreClient& store, KubeletAccess& access) : access(access) {
  nodes = store.watch<rpc::NodeSpecSpec>([&access] { access.changes().raise(); }, kNodeSpecId);
}

kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> WorkerStoreAdapter::node() const {
  return nodes.find(kNodeSpecId);
}

}  // namespace talos::kubed
