// Rotates the key of Kubernetes' Secrets (secrets-key-plan.h, rotation-run.h).
//
// In each phase the API servers are restarted, one after the other, each when the previous one is
// ready. Before `drop`, the Secrets that etcd does not hold under the new key are written again
// until there are no such Secrets; etcd itself shows the progress, so nothing else records it.
#pragma once

#include "talosctl/rotate-ca/rotation-run.h"

namespace talos::talosctl {

class SecretsKeyRotation final : public RotationRun {
 public:
  SecretsKeyRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options)
      : RotationRun(call, cluster, options, RotatedCa::kSecretsKey) {}

 private:
  kj::StringPtr owner() const override { return "Secrets in etcd"_kj; }
  kj::StringPtr thing() const override { return "key"_kj; }
  kj::String shownOld() const override;
  kj::String shownNew() const override;
  kj::StringPtr doneText(RotationPhase phase) const override;
  kj::StringPtr stateWhenStopped() const override { return "Secrets are read and written"_kj; }
  kj::Promise<void> prepare() override;
  kj::Promise<void> begin(RotationPhase phase) override;
  kj::Promise<kj::Maybe<kj::String>> served(const RotatedNode& node, RotationPhase phase) override;
  kj::Promise<void> tryClients(RotationPhase phase) override;
  kj::Promise<void> finish() override;
  kj::Duration pause() const override { return 500 * kj::MILLISECONDS; }

  struct Stored {
    uint64_t total = 0, others = 0;
    kj::Vector<kj::String> names;
  };
  kj::Promise<Stored> stored(const RotatedNode& node);
  kj::Promise<void> rewrite(const RotatedNode& node, kj::ArrayPtr<const kj::String> names);
  kj::Promise<void> rewriteAll();
};

}  // namespace talos::talosctl
