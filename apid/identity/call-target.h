// Resolves the target of a call: this node, or the address of another one. The empty target is this
// node (rpc/node.capnp).
//
// No I/O and no resolver: a name must be this node's own, or it is refused.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::apid {

// The addresses and names of this node.
struct Self {
  kj::Vector<Ip> addresses;
  kj::Vector<kj::String> names;  // lower case
};

struct ThisNode {};
// ThisNode or the address to dial. Throws InvalidArgument with a hint.
kj::OneOf<ThisNode, Ip> resolveTarget(kj::StringPtr target, const Self& self);

}  // namespace talos::apid
