// Certificate requests that another program signs than the one that decides on them: both have to
// read the same in them. Pure.
#pragma once

#include <kj/string.h>

namespace talos::pki {

// InvalidArgument, with a sentence, unless every parser finds one request in the text, with one
// organization and one common name: other programs take the last name where OpenSSL has the first,
// and find PEM blocks in other places. So the text has to be, byte for byte, as makeRequest()
// writes it. Foreign bytes.
void requireOneReading(kj::StringPtr requestPem);

}  // namespace talos::pki
