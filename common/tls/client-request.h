// Certificate requests that one program approves and another one signs: both must read the same
// content in them. Pure.
#pragma once

#include <kj/string.h>

namespace talos::pki {

// Throws InvalidArgument, with a sentence, unless every parser finds one request in the text, with
// one organization and one common name: other programs take the last name where OpenSSL takes the
// first, and find PEM blocks in other places. So the text must be, byte for byte, the PEM block
// that makeRequest() and Go's encoding/pem write. Foreign bytes.
void requireOneReading(kj::StringPtr requestPem);

// Throws InvalidArgument, with a sentence, unless the only extension of the request is one list of
// alternative names, with DNS names and addresses alone: of several lists one program takes the
// first and another one the last. Foreign bytes.
void requireServerNames(kj::StringPtr requestPem);

}  // namespace talos::pki
