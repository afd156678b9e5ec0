// Pulls artifacts of a registry, which are not unpacked, such as the signatures of an image. The
// CRI pulls it, as it pulls images (container-images.h), and containerd has compared each piece
// with its digest.
//
// Nothing is kept here. An artifact that a crash leaves behind is replaced by the next pull of its
// name.
#pragma once

#include "machined/services/containers/containerd-connection.h"

namespace talos::machined {

// Pulled anew. The errors of pullImage; FailedPrecondition when it is larger than `most`.
kj::Promise<kj::Array<kj::byte>> pullManifest(Containerd& containerd, kj::String reference,
                                              size_t most);

// The content that was pulled with this digest. NotFound, and FailedPrecondition when it is larger
// than `most`.
kj::Promise<kj::Array<kj::byte>> pulledContent(Containerd& containerd, kj::String digest,
                                               size_t most);

}  // namespace talos::machined
