// Texts that a node signs with the key of its API certificate when it calls trustd. Each text is
// for one call alone, so that its signature is not valid for the other call, nor for anything else.
#pragma once

#include <kj/string.h>

namespace talos {

// Returns the text for renewing the certificate by this request (PEM).
inline kj::String messageToRenew(kj::StringPtr request) {
  return kj::str("talos trustd certificate\n", request);
}
// Returns the text for proving an address.
inline kj::StringPtr messageToProve() {
  return "talos trustd prove\n";
}

}  // namespace talos
