// Verifiers of servers outside of the cluster.
#pragma once

#include <memory>

#include "common/base/disk-thread.h"
#include "common/tls/tls.h"

namespace talos {

// `authorities`: PEM; empty: the public ones of the image. In the queue, as parsing all of these
// takes milliseconds. InvalidArgument as of TlsVerifier.
kj::Promise<std::shared_ptr<kj::Own<TlsVerifier>>> verifierOf(DiskQueue& queue,
                                                              kj::String authorities);

}  // namespace talos
