// Calls to single nodes of the cluster that a rollout changes. Each has a deadline and an error
// that names the node.
#pragma once

#include "common/base/error.h"
#include "talosctl/client/node-config.h"
#include "talosctl/client/node-resource.h"
#include "talosctl/config/patches.h"

namespace talos::talosctl {

// Returns a request that applies the config with these patches, without a reboot, if the node runs
// this config still. `name`: the config's name in errors of the patches.
ApplyCall patchCall(rpc::Node::Client node, const RunningConfig& running, kj::StringPtr name,
                    kj::ArrayPtr<const Patch> patches, bool rehearsal);

class NodeCalls {
 public:
  // `client` must outlive this object. `deadline` applies to each answer.
  NodeCalls(Client& client, kj::Duration deadline) : client(client), deadline(deadline) {}

  // Returns the node, over a connection whose endpoint answers.
  kj::Promise<rpc::Node::Client> reach(kj::StringPtr address);
  // Returns the answer of a node, or its error preceded by its address.
  template <typename T>
  kj::Promise<T> answer(kj::StringPtr address, kj::Promise<T> answer);
  template <typename T>
  kj::Promise<T> answer(kj::StringPtr address, kj::Promise<T> answer, kj::Duration limit);

  template <typename Spec>
  kj::Promise<ResourceAnswer> get(kj::StringPtr address, kj::StringPtr id, bool sensitive = false);
  template <typename Spec>
  kj::Promise<size_t> count(kj::StringPtr address, bool sensitive = false);

  // Returns the config. Its text holds secrets: zeroize() it.
  kj::Promise<RunningConfig> config(kj::StringPtr address);
  // Applies patches without a reboot, over the connection on which the config was read; sends
  // nothing if the patches change nothing. A rehearsal changes nothing. Conflict if another config
  // was applied meanwhile. `secret`: the patches contain a key of the control plane, so the call
  // fails with FailedPrecondition unless the node proves that it belongs to the control plane
  // (control-plane-proof.h).
  kj::Promise<void> patchConfig(kj::StringPtr address, kj::Vector<Patch> patches, bool rehearsal,
                                bool secret = false);
  // The manifests that the node would make of its config with these patches; nothing changes. Empty
  // for a node of an earlier version.
  struct Manifest {
    kj::String id, objects;
  };
  kj::Promise<kj::Vector<Manifest>> manifests(kj::StringPtr address, kj::Vector<Patch> patches);
  // Resolves when the config of the node is not on trial, and does not go back, with true if it
  // was. Fails with Unavailable if that takes longer than the trial of a good config.
  kj::Promise<bool> awaitEndOfTrial(kj::StringPtr address, rpc::Node::Client node);
  // Returns nullptr if the node has no bootstrapped control plane.
  kj::Promise<kj::Maybe<bool>> selfHosted(kj::StringPtr address);

  Client& client;
  const kj::Duration deadline;
};

// --- inline

template <typename T>
kj::Promise<T> NodeCalls::answer(kj::StringPtr address, kj::Promise<T> answer, kj::Duration limit) {
  return within(client.deps.timer, limit, kj::mv(answer))
      .catch_([address = kj::str(address)](kj::Exception&& e) -> kj::Promise<T> {
        return error(kindOf(e), kj::str(address, ": ", messageOf(e)));
      });
}

template <typename T>
kj::Promise<T> NodeCalls::answer(kj::StringPtr address, kj::Promise<T> promise) {
  return answer(address, kj::mv(promise), deadline);
}

template <typename Spec>
kj::Promise<ResourceAnswer> NodeCalls::get(kj::StringPtr address, kj::StringPtr id,
                                           bool sensitive) {
  auto node = co_await reach(address);
  co_return co_await answer(address, getResource<Spec>(kj::mv(node), id, sensitive));
}

template <typename Spec>
kj::Promise<size_t> NodeCalls::count(kj::StringPtr address, bool sensitive) {
  auto node = co_await reach(address);
  auto listed = co_await answer(address, listResources<Spec>(kj::mv(node), sensitive));
  co_return listed.getResources().size();
}

}  // namespace talos::talosctl
