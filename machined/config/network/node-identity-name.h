// The host name that a node makes of its identity (machine.features.stableHostname): it stays when
// the node gets another address.
//
// The identity is a random text in a file on STATE, made once in an installation, in the form of
// Talos' node-identity.yaml. The file is replaced as a whole, so a crash leaves the old file or the
// new one. A file without an identity counts as missing.
#pragma once

#include <kj/string.h>

namespace talos::machined {

constexpr kj::StringPtr kIdentityFile = "/system/state/node-identity.yaml"_kj;

// Returns talos-XXX-YYY: six digits of base 36 of the SHA-256 of the identity. Pure.
kj::String nameOfIdentity(kj::StringPtr identity);

// Returns the identity in the file; makes the file if it is missing. Blocking.
kj::String keptIdentity(kj::StringPtr path = kIdentityFile);

}  // namespace talos::machined
