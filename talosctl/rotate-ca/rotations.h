// The rotations of the CAs and keys of a cluster (rotation-run.h), each described where it is
// implemented, and the checks that a phase is in effect.
#pragma once

#include "talosctl/rotate-ca/rotation-run.h"

namespace talos::talosctl {

// Create a rotation. All arguments must outlive it.
kj::Own<RotationRun> kubernetesRotation(Invocation& call, RemoteRotation& cluster,
                                        const RotationOptions& options);
kj::Own<RotationRun> secretsKeyRotation(Invocation& call, RemoteRotation& cluster,
                                        const RotationOptions& options);
kj::Own<RotationRun> serviceAccountRotation(Invocation& call, RemoteRotation& cluster,
                                            const RotationOptions& options);
kj::Own<RotationRun> aggregatorRotation(Invocation& call, RemoteRotation& cluster,
                                        const RotationOptions& options);
kj::Own<RotationRun> etcdRotation(Invocation& call, RemoteRotation& cluster,
                                  const RotationOptions& options);
// `present`: the credentials of the user, with which `cluster` was created.
kj::Own<RotationRun> machineRotation(Invocation& call, RemoteRotation& cluster,
                                     const RotationOptions& options, Credentials present);

// Gives a context of the client configuration at `path` these credentials, if its certificate is of
// the old CA; an empty name means the current context. Returns false if it is of another CA.
kj::Promise<bool> replaceClient(kj::Timer& timer, kj::StringPtr path, kj::StringPtr context,
                                kj::StringPtr oldCa, const Credentials& fresh);

// Repeats `forget`, which resolves to true if the old CA was still published, until the CA stays
// unpublished for `needed`. Tolerates failures, because API servers and connections are lost while
// nodes change. DeadlineExceeded after some minutes, with the last problem.
kj::Promise<void> forgetPublished(kj::Timer& timer, kj::Duration needed, kj::Duration pause,
                                  kj::Function<kj::Promise<bool>()> forget);

// --- pure functions. An error is the reason why a node is not at the end of a phase; nullptr if it
// is. `authorities` of an API server: as SecretStatuses/kube-apiserver names them.

// Judges an API server by the CAs of the aggregation layer that it has.
kj::Maybe<kj::StringPtr> aggregatorError(const Rotation& rotation, RotationPhase phase,
                                         kj::ArrayPtr<const kj::String> authorities);
// Judges etcd by these files. `certificates`: the certificates that it presents, as PEM.
kj::Maybe<kj::StringPtr> etcdFilesError(const Rotation& rotation, RotationPhase phase,
                                        kj::StringPtr authorities,
                                        kj::ArrayPtr<const kj::String> certificates);
// Judges an API server by the CAs by which it verifies etcd.
kj::Maybe<kj::StringPtr> etcdClientError(const Rotation& rotation, RotationPhase phase,
                                         kj::ArrayPtr<const kj::String> authorities);
// Returns the APIs that are unavailable now ("v1beta1.metrics.k8s.io: reason") and were available
// before.
kj::Vector<kj::StringPtr> newlyUnavailable(kj::ArrayPtr<const kj::String> before,
                                           kj::ArrayPtr<const kj::String> now);

}  // namespace talos::talosctl
