// The control-plane nodes of a conversion, each called by its own address through the client's
// endpoint.
#pragma once

#include "talosctl/convert-k8s/convert-run.h"
#include "talosctl/rollout/node-calls.h"

namespace talos::talosctl {

class RemoteConversion final : public ConvertibleNodes {
 public:
  // `client` must outlive this object. `deadline` applies to each answer of a node.
  RemoteConversion(Client& client, kj::Duration deadline) : calls(client, deadline) {}

  kj::Promise<kj::Maybe<bool>> selfHosted(kj::StringPtr node) override;
  kj::Promise<ConvertedNode> read(kj::StringPtr node) override;
  kj::Promise<void> patch(kj::StringPtr node, kj::StringPtr patch, bool rehearsal) override;
  kj::Promise<size_t> staticPods(kj::StringPtr node) override;
  kj::Promise<size_t> manifests(kj::StringPtr node) override;
  kj::Promise<bool> removeInitializedKey(kj::StringPtr node) override;

 private:
  NodeCalls calls;
};

}  // namespace talos::talosctl
