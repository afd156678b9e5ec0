// The control plane to recover: its nodes, each called by its own address through the client's
// endpoints. Nodes restart meanwhile, so each survey opens its own connection.
#pragma once

#include "talosctl/etcd/bootstrap-call.h"
#include "talosctl/recover/recovery-run.h"

namespace talos::talosctl {

class RemoteRecovery final : public RecoveryCluster {
 public:
  // All arguments must outlive this object. `without`: nodes that are not checked for a cluster.
  RemoteRecovery(Invocation& call, kj::ArrayPtr<const kj::String> names,
                 kj::ArrayPtr<const kj::String> without, const SentFile& snapshot,
                 bool skipHashCheck)
      : call(call),
        names(names),
        without(without),
        snapshot(snapshot),
        skipHashCheck(skipHashCheck) {}

  kj::Promise<kj::Array<RecoveryNode>> survey() override;
  kj::Promise<void> erase(const RecoveryNode& node, Progress& progress, size_t index) override;
  kj::Promise<void> restore(Progress& progress) override;

 private:
  Invocation& call;
  kj::ArrayPtr<const kj::String> names;
  kj::ArrayPtr<const kj::String> without;
  const SentFile& snapshot;
  bool skipHashCheck;

  kj::Promise<RecoveryNode> ask(Client& client, kj::StringPtr name);
};

}  // namespace talos::talosctl
