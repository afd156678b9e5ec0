// Rotates the CA of Kubernetes (rotation-run.h).
//
// Each node serves clients of both CAs: kube-apiserver and the kubelet read their client CAs again
// when the files change. In `issue` the kubelet of each node is restarted once, and the controller
// manager and the scheduler of each control-plane node; API servers are not restarted.
//
// A client that trusts only one of the CAs verifies an API server with this CA alone, because the
// server presents its own CA as signed by the other one. So no client has to learn the new CA
// before the old one is dropped, and programs in pods continue to work afterwards.
//
// Clients of both CAs are tried at every API server and every kubelet through a control-plane node,
// so this host need not reach them. Their certificates are issued here, valid for a day, and kept
// in memory. A run that is continued in `drop` has no client of the old CA, whose key no longer
// exists.
#pragma once

#include "talosctl/rotate-ca/rotation-run.h"

namespace talos::talosctl {

// Repeats `forget`, which resolves to true if the old CA was still published, until the CA stays
// unpublished for `needed`. Tolerates failures, because API servers and connections are lost while
// nodes change. DeadlineExceeded after some minutes, with the last problem.
kj::Promise<void> forgetPublished(kj::Timer& timer, kj::Duration needed, kj::Duration pause,
                                  kj::Function<kj::Promise<bool>()> forget);

class KubernetesRotation final : public RotationRun {
 public:
  KubernetesRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options)
      : RotationRun(call, cluster, options, RotatedCa::kKubernetes) {}

 private:
  kj::Maybe<Credentials> newClient, oldClient;

  kj::StringPtr owner() const override { return "Kubernetes"_kj; }
  kj::Promise<void> prepare() override;
  kj::Promise<kj::Maybe<kj::String>> served(const RotatedNode& node, RotationPhase phase) override;
  kj::Promise<void> tryClients(RotationPhase phase) override;
  kj::Promise<void> finish() override;
  kj::Duration pause() const override { return 500 * kj::MILLISECONDS; }

  const RotatedNode& askedFor(const RotatedNode& node) const;
  kj::Promise<rpc::Kubernetes::Client> kubernetes(const RotatedNode& node);
  struct Trial {
    kj::String server;  // certificates that the server presented, PEM
    kj::Maybe<kj::String> refused;
  };
  kj::Promise<Trial> tryAt(const RotatedNode& node, bool kubelet, kj::StringPtr authorities,
                           const Credentials& client);
  kj::Promise<kj::Maybe<kj::String>> clientError(const RotatedNode& node, bool kubelet,
                                                 RotationPhase phase);
  kj::Promise<kj::Maybe<kj::String>> kubeletError(const RotatedNode& node);
  kj::Promise<bool> forgetOnce();
  kj::Promise<void> forgetOldCa();
  kj::Promise<kj::Maybe<kj::String>> podsError(const RotatedNode& node);
};

}  // namespace talos::talosctl
