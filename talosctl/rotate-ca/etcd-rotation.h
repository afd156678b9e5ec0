// Rotates etcd's CA (rotation-run.h).
//
// From the end of `accept` to the beginning of `drop`, members and their clients verify each other
// by both CAs. They read the CAs when they start, so in these two phases etcd and the API server of
// each control-plane node are restarted, one node after the other, and etcd only while the other
// members have a quorum without it. In `issue` nothing is restarted: certificates are read at each
// handshake. The run continues with the next node when all members answer and the API server is
// ready.
#pragma once

#include "talosctl/rotate-ca/rotation-run.h"

namespace talos::talosctl {

class EtcdRotation final : public RotationRun {
 public:
  EtcdRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options)
      : RotationRun(call, cluster, options, RotatedCa::kEtcd) {}

 private:
  kj::StringPtr owner() const override { return "etcd"_kj; }
  kj::StringPtr stateWhenStopped() const override {
    return "members and clients of etcd verify each other"_kj;
  }
  kj::Promise<void> prepare() override;
  kj::Promise<kj::Maybe<kj::String>> served(const RotatedNode& node, RotationPhase phase) override;
  kj::Promise<void> tryClients(RotationPhase) override { return kj::READY_NOW; }
  kj::Promise<void> finish() override;
  kj::Duration pause() const override { return 500 * kj::MILLISECONDS; }

  kj::Promise<kj::Maybe<kj::String>> filesError(const RotatedNode& node, RotationPhase phase);
  kj::Promise<kj::Maybe<kj::String>> membersError(const RotatedNode& node);
};

// Returns the reason why etcd with these files is not at the end of a phase; nullptr if it is.
// `certificates`: the certificates that etcd presents, as PEM. Pure.
kj::Maybe<kj::StringPtr> etcdFilesError(const Rotation& rotation, RotationPhase phase,
                                        kj::StringPtr authorities,
                                        kj::ArrayPtr<const kj::String> certificates);
// Returns the same for the CAs by which an API server verifies etcd
// (SecretStatuses/kube-apiserver).
kj::Maybe<kj::StringPtr> etcdClientError(const Rotation& rotation, RotationPhase phase,
                                         kj::ArrayPtr<const kj::String> authorities);

}  // namespace talos::talosctl
