// Pulls artifacts of a registry, such as the signatures of an image, which are not unpacked. The
// CRI pulls them, as it pulls images (container-images.h), and containerd compares each piece with
// its digest.
//
// Keeps no state. The next pull of the same name replaces an artifact that is left after a crash.
#pragma once

#include "machined/services/containers/containerd-connection.h"

namespace talos::machined {

// Pulls the manifest again at each call. Throws the errors of pullImage; FailedPrecondition if the
// manifest is larger than `most`.
kj::Promise<kj::Array<kj::byte>> pullManifest(Containerd& containerd, kj::String reference,
                                              size_t most);

// Returns the pulled content with this digest. Throws NotFound, and FailedPrecondition if the
// content is larger than `most`.
kj::Promise<kj::Array<kj::byte>> pulledContent(Containerd& containerd, kj::String digest,
                                               size_t most);

}  // namespace talos::machined
