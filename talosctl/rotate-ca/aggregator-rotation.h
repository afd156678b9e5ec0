// Rotates the CA of Kubernetes' aggregation layer (rotation-run.h). With certificates of this CA,
// API servers are clients of aggregated API servers (front proxy).
//
// In each phase the API servers are restarted, one after the other. Aggregated API servers learn
// the CAs from kube-system/extension-apiserver-authentication, to which API servers add their CAs:
// the new CA is added before any API server has a certificate of it, and the old CA is removed at
// the end. An aggregated API that is available when the run begins must be available at the end of
// each phase.
#pragma once

#include "talosctl/rotate-ca/rotation-run.h"

namespace talos::talosctl {

class AggregatorRotation final : public RotationRun {
 public:
  AggregatorRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options)
      : RotationRun(call, cluster, options, RotatedCa::kAggregator) {}

 private:
  kj::Vector<kj::String> brokenBefore;  // unavailable aggregated APIs

  kj::StringPtr owner() const override { return "the aggregation layer"_kj; }
  kj::StringPtr stateWhenStopped() const override {
    return "aggregated APIs accept the API servers"_kj;
  }
  kj::Promise<void> prepare() override;
  kj::Promise<kj::Maybe<kj::String>> served(const RotatedNode& node, RotationPhase phase) override;
  kj::Promise<void> tryClients(RotationPhase phase) override;
  kj::Promise<void> finish() override;
  kj::Duration pause() const override { return 500 * kj::MILLISECONDS; }

  struct Aggregation {
    kj::String authorities;
    kj::Vector<kj::String> unavailable;
  };
  kj::Promise<Aggregation> aggregation();
  kj::Promise<kj::Maybe<kj::String>> publishedError();
  kj::Promise<kj::Maybe<kj::String>> forgetOldCa();
};

// Returns the reason why an API server with these CAs (SecretStatuses/kube-apiserver) is not at the
// end of a phase; nullptr if it is. Pure.
kj::Maybe<kj::StringPtr> aggregatorError(const Rotation& rotation, RotationPhase phase,
                                         kj::ArrayPtr<const kj::String> authorities);
// Returns the APIs that are unavailable now ("v1beta1.metrics.k8s.io: reason") and were available
// before. Pure.
kj::Vector<kj::StringPtr> newlyUnavailable(kj::ArrayPtr<const kj::String> before,
                                           kj::ArrayPtr<const kj::String> now);

}  // namespace talos::talosctl
