// The rotation of the key with which Kubernetes encrypts Secrets in etcd (rotation-plan.h): the
// phases, by the configs of the control-plane nodes.
//   accept  every API server can read Secrets of the new key (cluster.acceptedEncryptionSecrets)
//   issue   every API server writes with it (cluster.secretboxEncryptionSecret), and reads the old
//   drop    no API server has the old key; before, all Secrets have been written again
//
// The new key is always a secretbox key. It is the last of the accepted keys and stays there, so
// that its Secrets have their own key name in etcd (common/config/rules/encryption-keys.h). Unlike
// a CA it is in configs from `accept` on, and a run that was interrupted there continues with it.
//
// Until a node writes with the new key, its list ends with this key twice; an API server has each
// key once. Only a rotation writes such a list. A list that ends with another key than the node's
// own may also come from a manual change, whose last key is the old one and must not write again.
// Such a list is refused, unless another node shows that the key is the new one. Pure.
#pragma once

#include "talosctl/rotate-ca/rotation-plan.h"

namespace talos::talosctl {

constexpr size_t kSecretsKeyBytes = 32;

// `fresh`: a new key, base64, used if no rotation has begun. Throws FailedPrecondition.
Rotation planSecretsKey(kj::ArrayPtr<const RotatedNode> nodes, kj::StringPtr fresh);
kj::Maybe<kj::String> secretsKeyPatch(const RotatedNode& node, const Rotation& rotation,
                                      RotationPhase phase);

// Returns the name of the key with which this node writes: key2.
kj::String writingKey(const RotatedNode& node);
// Returns the prefix of objects of the new key in etcd.
kj::String newPrefix(const Rotation& rotation);

// Returns the reason why an API server with these keys (SecretStatuses/kube-apiserver) is not at
// the end of a phase; nullptr if it is.
kj::Maybe<kj::StringPtr> secretsKeyError(const Rotation& rotation, RotationPhase phase,
                                         kj::ArrayPtr<const kj::String> keys);

}  // namespace talos::talosctl
