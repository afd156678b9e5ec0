// Verifies signatures of images in registries, by the key of machine.install.imageKey. `cosign sign
// --key` stores them beside an image, in the same repository with the tag sha256-<hex of its
// digest>.sig (machined/confined/parser/image-signature.h).
//
// A signature counts if the key verifies it over the bytes of its payload, and the payload names
// the digest of the pulled image; one of several is enough. The registry's content is foreign:
// containerd fetches it as it fetches images, and bounded pieces of it go to a confined process. A
// payload is parsed only if the key has signed it. Nothing is kept.
#pragma once

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/services/containers/containerd-connection.h"

namespace talos::machined {

// Returns the place of the signatures of a pulled image, name@sha256:<hex>. Pure; Internal for any
// other name.
kj::String signaturesOf(kj::StringPtr pinned);

// Requires a signature by `key`, the public key in PEM. PermissionDenied, with the cause, if the
// image has no signature by it; Unavailable and so on if this cannot be determined.
kj::Promise<void> requireSignature(Containerd& containerd, ForeignBytes& foreign, kj::String pinned,
                                   kj::String key);

}  // namespace talos::machined
