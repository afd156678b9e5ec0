// The texts that a node signs with the key of its API certificate when it calls trustd: each of one
// call alone, so that a signature for one is none for the other, nor for anything else.
#pragma once

#include <kj/string.h>

namespace talos {

// To renew the certificate by this request (PEM).
inline kj::String messageToRenew(kj::StringPtr request) {
  return kj::str("talos trustd certificate\n", request);
}
// To prove an address.
inline kj::StringPtr messageToProve() {
  return "talos trustd prove\n";
}

}  // namespace talos
