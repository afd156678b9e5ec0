// The rotation of the key with which Kubernetes encrypts Secrets in etcd (rotation-plan.h): the
// phases, by the configs of the control-plane nodes.
//   accept  every API server reads what the new key has written (cluster.acceptedEncryptionSecrets)
//   issue   every API server writes with it (cluster.secretboxEncryptionSecret), and reads the old
//   drop    no API server has the old key; before, all Secrets have been written again
// The new key is always one of secretbox. It is the last of the accepted ones, and stays there: so
// what it writes has a name of its own in etcd (common/config/encryption-keys.h). Unlike a CA it is
// in configs from `accept` on, and a run that was cut off there continues with it.
//
// Until a node writes with the new key, its list ends with it twice; an API server has each key
// once. Nobody else writes such a list: one that ends with another key than the node's own may as
// well be of a change by hand, whose last key is the old one and must not write again. It is
// refused, unless another node shows that the key is the new one. Pure.
#pragma once

#include "talosctl/rotate-ca/rotation-plan.h"

namespace talos::talosctl {

constexpr size_t kSecretsKeyBytes = 32;

// `fresh`: a new key, base64, if none has been begun with. Throws FailedPrecondition.
Rotation planSecretsKey(kj::ArrayPtr<const RotatedNode> nodes, kj::StringPtr fresh);
kj::Maybe<kj::String> secretsKeyPatch(const RotatedNode& node, const Rotation& rotation,
                                      RotationPhase phase);

// The name of the key that writes on this node: key2.
kj::String writingKey(const RotatedNode& node);
// In etcd, objects of the new key begin with this.
kj::String newPrefix(const Rotation& rotation);

// The reason why an API server with these keys (SecretStatuses/kube-apiserver) is not at the end of
// a phase; none: it is.
kj::Maybe<kj::StringPtr> secretsKeyError(const Rotation& rotation, RotationPhase phase,
                                         kj::ArrayPtr<const kj::String> keys);

}  // namespace talos::talosctl
