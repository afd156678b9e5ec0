#include "talosctl/upgrade-k8s/node-calls.h"

#include "common/memory/zeroize.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/client/control-plane-proof.h"

namespace talos::talosctl {

rpc::Resources::Client NodeCalls::resources(kj::StringPtr address, bool sensitive) {
  auto node = client.node(address);
  if (sensitive) return node.sensitiveResourcesRequest().send().getResources();
  return node.resourcesRequest().send().getResources();
}

kj::Promise<RunningConfig> NodeCalls::config(kj::StringPtr address) {
  co_await client.connect(deadline);
  co_return co_await answer(address, runningConfig(client.node(address)));
}

kj::Promise<void> NodeCalls::patchConfig(kj::StringPtr address, kj::Vector<Patch> patches,
                                         bool rehearsal, bool secret) {
  co_await client.connect(deadline);
  auto node = client.node(address);
  auto running = co_await answer(address, runningConfig(node));
  kj::String patched;
  KJ_DEFER({
    zeroize(running.document);
    zeroize(patched);
    for (auto& patch : patches) zeroize(patch.text);
  });
  if (secret) {
    auto parsed = config::parse(running.document, "the node's config");
    requireControlPlane(address, parsed.get(), client.authorities());
  }
  patched = applyPatches(running.document, kj::str("the config of ", address), patches);
  if (patched == running.document) co_return;
  auto call = applyCall(node, patched, running.version, rpc::ApplyMode::NO_REBOOT, rehearsal);
  kj::Promise<void> sent = call.send().ignoreResult();
  co_await answer(address, kj::mv(sent));
}

kj::Promise<kj::Vector<NodeCalls::Manifest>> NodeCalls::manifests(kj::StringPtr address,
                                                                  kj::Vector<Patch> patches) {
  co_await client.connect(deadline);
  auto node = client.node(address);
  auto running = co_await answer(address, runningConfig(node));
  kj::String patched;
  KJ_DEFER({
    zeroize(running.document);
    zeroize(patched);
  });
  patched = applyPatches(running.document, kj::str("the config of ", address), patches);
  auto call = applyCall(node, patched, running.version, rpc::ApplyMode::NO_REBOOT, true);
  call.getRequest().setManifests(true);
  using Applied = capnp::Response<rpc::Configuration::ApplyResults>;
  kj::Promise<Applied> sent = call.send();
  auto applied = co_await answer(address, kj::mv(sent));
  kj::Vector<Manifest> all;
  for (auto one : applied.getResult().getManifests()) {
    all.add(Manifest{kj::str(one.getId()), kj::str(one.getObjects())});
  }
  co_return kj::mv(all);
}

kj::Promise<kj::Maybe<bool>> NodeCalls::selfHosted(kj::StringPtr address) {
  auto found = co_await get<rpc::BootstrapStatusSpec>(address, "control-plane")
                   .then([](GetAnswer&& answer) -> kj::Maybe<GetAnswer> { return kj::mv(answer); },
                         [](kj::Exception&& e) -> kj::Maybe<GetAnswer> {
                           if (kindOf(e) == ErrorKind::kNotFound) return nullptr;
                           kj::throwFatalException(kj::mv(e));
                         });
  KJ_IF_MAYBE (status, found) {
    auto spec = status->getResource().getSpec().getAs<rpc::BootstrapStatusSpec>();
    co_return kj::Maybe<bool>(spec.getSelfHostedControlPlane());
  }
  co_return nullptr;
}

}  // namespace talos::talosctl
