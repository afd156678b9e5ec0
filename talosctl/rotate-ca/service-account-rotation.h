// Rotates the key that signs service account tokens (service-account-plan.h, rotation-run.h).
//
// In each phase the API servers are restarted, one after the other, and in `issue` the controller
// managers with them. Before `drop`, Kubernetes lists the tokens that the old key may have signed:
// tokens in Secrets, which only an operator can replace, and tokens of pods, which kubelets renew.
// While such tokens exist, the run ends with their names, and the next run continues; the old key
// is accepted until then.
#pragma once

#include "talosctl/rotate-ca/rotation-run.h"

namespace talos::talosctl {

class ServiceAccountRotation final : public RotationRun {
 public:
  ServiceAccountRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options)
      : RotationRun(call, cluster, options, RotatedCa::kServiceAccountKey) {}

 private:
  kj::StringPtr owner() const override { return "service accounts"_kj; }
  kj::StringPtr thing() const override { return "key"_kj; }
  kj::String shownOld() const override;
  kj::String shownNew() const override;
  kj::StringPtr doneText(RotationPhase phase) const override;
  kj::StringPtr stateWhenStopped() const override {
    return "tokens of the old key are accepted"_kj;
  }
  kj::Promise<void> prepare() override;
  kj::Promise<void> begin(RotationPhase phase) override;
  kj::Promise<kj::Maybe<kj::String>> served(const RotatedNode& node, RotationPhase phase) override;
  kj::Promise<void> tryClients(RotationPhase) override { return kj::READY_NOW; }
  kj::Promise<void> finish() override;
  kj::Duration pause() const override { return 500 * kj::MILLISECONDS; }

  bool isDropped() const;  // true if some node has dropped the old key
  kj::Promise<kj::Maybe<kj::String>> tokensOfOldKey();
};

}  // namespace talos::talosctl
