#include "talosctl/rollout/node-calls.h"

#include "common/memory/zeroize.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/client/control-plane-proof.h"
#include "talosctl/rollout/attempts.h"

namespace talos::talosctl {
namespace {

// A good config is confirmed within little more than a minute, and the fetch of a kubelet's image.
constexpr auto kTrialEnds = 3 * kj::MINUTES, kLookAgain = 1 * kj::SECONDS;

kj::String configOf(kj::StringPtr address) {
  return kj::str("the config of ", address);
}

}  // namespace

ApplyCall patchCall(rpc::Node::Client node, const RunningConfig& running, kj::StringPtr name,
                    kj::ArrayPtr<const Patch> patches, bool rehearsal) {
  auto patched = applyPatches(running.document, name, patches);
  KJ_DEFER(zeroize(patched));
  auto call =
      applyCall(kj::mv(node), patched, running.version, rpc::ApplyMode::NO_REBOOT, rehearsal);
  call.getRequest().setNoTrial(true);  // a rollout checks each node itself
  return call;
}

kj::Promise<rpc::Node::Client> NodeCalls::reach(kj::StringPtr address) {
  co_await client.connect(deadline);
  co_return client.node(address);
}

// An unknown state is no reason to wait: the change itself will tell.
kj::Promise<bool> NodeCalls::awaitEndOfTrial(kj::StringPtr address, rpc::Node::Client node) {
  using State = rpc::ConfigTrial::State;
  auto& timer = client.deps.timer;
  bool waited = false;
  for (auto end = timer.now() + kTrialEnds; timer.now() < end; waited = true) {
    auto state = State::NONE;
    auto asked = node.machineRequest().send().getMachine().statusRequest().send();
    co_await within(timer, deadline, kj::mv(asked))
        .then([&](auto&& status) { state = status.getConfigTrial().getState(); },
              [](kj::Exception&&) {});
    if (state != State::TRYING && state != State::REVERTING) co_return waited;
    co_await timer.afterDelay(kLookAgain);
  }
  fail(ErrorKind::kUnavailable,
       kj::str(address,
               ": its config is on trial, or goes back; repeat this when it is confirmed "
               "(talosctl status)"));
}

kj::Promise<RunningConfig> NodeCalls::config(kj::StringPtr address) {
  auto node = co_await reach(address);
  co_return co_await answer(address, runningConfig(kj::mv(node)));
}

kj::Promise<void> NodeCalls::patchConfig(kj::StringPtr address, kj::Vector<Patch> patches,
                                         bool rehearsal, bool secret) {
  auto node = co_await reach(address);
  KJ_DEFER({
    for (auto& patch : patches) zeroize(patch.text);
  });
  for (bool waited = true; waited;) {
    auto running = co_await answer(address, runningConfig(node));
    KJ_DEFER(zeroize(running.document));
    if (secret) {
      auto parsed = config::parse(running.document, "the node's config");
      requireControlPlane(address, parsed.get(), client.authorities());
    }
    auto call = patchCall(node, running, configOf(address), patches, rehearsal);
    if (call.getRequest().asReader().getDocument() == running.document.asBytes()) co_return;
    // This change is not on trial, and would end that of a config which may strand the node. A
    // config that has gone back meanwhile is patched again.
    waited = !rehearsal && co_await awaitEndOfTrial(address, node);
    if (waited) continue;
    kj::Promise<void> sent = call.send().ignoreResult();
    co_await answer(address, kj::mv(sent));
  }
}

kj::Promise<kj::Vector<NodeCalls::Manifest>> NodeCalls::manifests(kj::StringPtr address,
                                                                  kj::Vector<Patch> patches) {
  auto node = co_await reach(address);
  auto running = co_await answer(address, runningConfig(node));
  KJ_DEFER(zeroize(running.document));
  auto call = patchCall(node, running, configOf(address), patches, true);
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
  auto found = co_await ifFound(get<rpc::BootstrapStatusSpec>(address, "control-plane"));
  co_return found.map([](ResourceAnswer& answer) {
    return resourceIn<rpc::BootstrapStatusSpec>(answer).getSelfHostedControlPlane();
  });
}

}  // namespace talos::talosctl
