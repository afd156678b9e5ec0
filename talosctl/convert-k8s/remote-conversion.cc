#include "talosctl/convert-k8s/remote-conversion.h"

#include "common/config/config.h"
#include "common/memory/zeroize.h"
#include "common/text/texts.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "talosctl/client/control-plane-proof.h"
#include "talosctl/convert-k8s/convert-objects.h"

namespace talos::talosctl {

kj::Promise<kj::Maybe<bool>> RemoteConversion::selfHosted(kj::StringPtr node) {
  return calls.selfHosted(node);
}

kj::Promise<ConvertedNode> RemoteConversion::read(kj::StringPtr node) {
  auto running = co_await calls.config(node);
  KJ_DEFER(zeroize(running.document));
  auto parsed = config::parse(running.document, "the node's config");
  requireControlPlane(node, parsed.get(), calls.client.authorities());
  auto has = parsed.get().getCluster().getAggregatorCA();
  co_return ConvertedNode{
      parsed.get().getPersist(),
      {kj::heapString(has.getCrt().asChars()), pki::Pem(kj::heapString(has.getKey().asChars()))}};
}

kj::Promise<void> RemoteConversion::patch(kj::StringPtr node, kj::StringPtr patch, bool rehearsal) {
  kj::Vector<Patch> patches;
  patches.add(Patch{kj::str("the patch of the control plane"), kj::str(patch)});
  return calls.patchConfig(node, kj::mv(patches), rehearsal, true);
}

kj::Promise<size_t> RemoteConversion::staticPods(kj::StringPtr node) {
  auto reached = co_await calls.reach(node);
  auto listed = co_await calls.answer(node, listResources<rpc::StaticPodSpec>(kj::mv(reached)));
  size_t count = 0;  // without those of machine.pods
  for (auto pod : listed.getResources()) {
    if (contains(kConvertedParts, pod.getMetadata().getId())) ++count;
  }
  co_return count;
}

kj::Promise<size_t> RemoteConversion::manifests(kj::StringPtr node) {
  return calls.count<rpc::ManifestSpec>(node, true);
}

kj::Promise<bool> RemoteConversion::removeInitializedKey(kj::StringPtr node) {
  using Answer = capnp::Response<rpc::Etcd::RemoveInitializedKeyResults>;
  auto reached = co_await calls.reach(node);
  auto etcd = reached.etcdRequest().send().getEtcd();
  kj::Promise<Answer> sent = etcd.removeInitializedKeyRequest().send();
  auto answer = co_await calls.answer(node, kj::mv(sent));
  co_return answer.getRemoved();
}

}  // namespace talos::talosctl
