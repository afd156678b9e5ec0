// Verifiers of servers outside the cluster.
#pragma once

#include <memory>

#include "common/base/disk-thread.h"
#include "common/tls/tls.h"

namespace talos {

// Makes a verifier. `authorities`: PEM; if empty, the public ones of the image. It runs in the
// queue, as parsing all of these takes milliseconds. Throws InvalidArgument as TlsVerifier does.
kj::Promise<std::shared_ptr<kj::Own<TlsVerifier>>> verifierOf(DiskQueue& queue,
                                                              kj::String authorities);

}  // namespace talos
