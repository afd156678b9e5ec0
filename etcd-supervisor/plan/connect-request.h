// Request of an HTTP client to a proxy for a connection (CONNECT, RFC 9110 section 9.3.6). Pure.
#pragma once

#include "common/net/ip.h"

namespace talos::supervisor {

// A longer head is refused.
constexpr size_t kLongestHead = 4096;

// Returns the size of the head, with the empty line that ends it; nullptr while it is not complete.
kj::Maybe<size_t> headSize(kj::ArrayPtr<const char> received);

// Returns the target of "CONNECT 10.0.0.1:2380 HTTP/1.1". Throws InvalidArgument for another
// method, and for a target that is not an address with a port. Foreign bytes.
Endpoint connectTarget(kj::ArrayPtr<const char> head);

}  // namespace talos::supervisor
