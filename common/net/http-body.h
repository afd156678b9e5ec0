// Reads the bodies of HTTP answers, which are foreign, bounded, and may hold secrets: no copy stays
// in memory but the result, which the caller wipes if it is a secret.
#pragma once

#include <kj/async-io.h>

#include "common/base/error.h"

namespace talos {

// Reads to the end. Fails with `tooLarge` if there are more than `most` bytes.
kj::Promise<kj::Array<char>> readBody(kj::AsyncInputStream& body, size_t most, kj::String tooLarge,
                                      ErrorKind kind = ErrorKind::kResourceExhausted);

}  // namespace talos
