// Which machine a caller means: this one, or another that is to be dialled.
//
// Rules: spec machine-api.md §2.2, with the empty target meaning this machine (rpc/node.capnp). No
// I/O and no resolver: a name is this machine's own or it is refused.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::apid {

// What this machine is called.
struct Self {
  kj::Vector<Ip> addresses;
  kj::Vector<kj::String> names;  // lower case
};

struct ThisNode {};
// ThisNode or the address to dial; InvalidArgument says what would be right.
kj::OneOf<ThisNode, Ip> resolveTarget(kj::StringPtr target, const Self& self);

}  // namespace talos::apid
