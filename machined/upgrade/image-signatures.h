// Signatures of images in registries, by the key of machine.install.imageKey: what `cosign sign
// --key` puts beside an image, in the same repository with the tag sha256-<hex of its digest>.sig
// (machined/confined/parser/image-signature.h).
//
// A signature counts when the key verifies it over the bytes of its payload, and that payload names
// the digest of the image that was pulled; one of several is enough. What the registry has is
// foreign: containerd fetches it as it fetches images, and bounded pieces of it go to a confined
// process. A payload is parsed only when the key has signed it. Nothing is kept.
#pragma once

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/services/containers/containerd-connection.h"

namespace talos::machined {

// Of an image that was pulled: name@sha256:<hex>. Where its signatures lie. Pure; Internal for
// anything else.
kj::String signaturesOf(kj::StringPtr pinned);

// `key` is the public one, in PEM. PermissionDenied, saying why, when the image has no signature by
// it; Unavailable and so on when that cannot be found out.
kj::Promise<void> requireSignature(Containerd& containerd, ForeignBytes& foreign, kj::String pinned,
                                   kj::String key);

}  // namespace talos::machined
