// The rotation of the key that signs service account tokens (rotation-plan.h): the phases, by the
// configs of the control-plane nodes.
//   accept  every API server accepts tokens of the new key (cluster.acceptedServiceAccountKeys)
//   issue   every API server and controller manager signs with it (cluster.serviceAccount.key), and
//           the old key's tokens are accepted
//   drop    no API server accepts the old key; before, its tokens have been renewed
//
// A node that has issued also lists its own public key as accepted until `drop`; this distinguishes
// a new key in use from a new key that is only accepted. The private key of the new key is in no
// config before the first node issues with it; a run that was interrupted before starts again with
// another new key, as the first one has signed nothing. `drop` empties the list. Pure.
#pragma once

#include <kj/function.h>

#include "talosctl/rotate-ca/rotation-plan.h"

namespace talos::talosctl {

// Plans the rotation. A new key has the type of the old one, RSA or ECDSA. Throws
// FailedPrecondition.
Rotation planServiceAccountKey(kj::ArrayPtr<const RotatedNode> nodes,
                               kj::FunctionParam<pki::Pem(pki::KeyType)> make);
kj::Maybe<kj::String> serviceAccountPatch(const RotatedNode& node, const Rotation& rotation,
                                          RotationPhase phase);

// Returns the reason why a node whose API server and controller manager have these keys
// (SecretStatuses) is not at the end of a phase; nullptr if it is.
kj::Maybe<kj::StringPtr> serviceAccountError(const Rotation& rotation, RotationPhase phase,
                                             kj::ArrayPtr<const kj::String> apiServer,
                                             kj::ArrayPtr<const kj::String> controllerManager);

}  // namespace talos::talosctl
