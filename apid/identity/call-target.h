// Resolves the target of a call: this node, or the address of another one. The empty target is this
// node (rpc/node.capnp).
//
// No I/O and no resolver: a name must be this node's own or that of a member of the cluster, or it
// is refused. Members are what Kubernetes has: a worker's kubelet says its addresses itself, so a
// name does not lead to an address that another member, or this node, has as well.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::apid {

// A node of the cluster, as Kubernetes has it.
struct KnownMember {
  kj::String name;           // lower case
  kj::Vector<Ip> addresses;  // in its order
};

// The addresses and names of this node, and the other nodes that it knows.
struct Self {
  kj::Vector<Ip> addresses;
  kj::Vector<kj::String> names;  // lower case
  kj::Vector<KnownMember> members;
};

struct ThisNode {};
// ThisNode or the address to dial. Throws InvalidArgument with a hint.
kj::OneOf<ThisNode, Ip> resolveTarget(kj::StringPtr target, const Self& self);

}  // namespace talos::apid
