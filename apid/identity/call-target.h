// Resolves the target of a call: this node, or the address of another one. The empty target is this
// node (rpc/node.capnp).
//
// No I/O and no resolver: a name must be this node's own or that of a member of the cluster, or it
// is refused. Members are what Kubernetes has: the name of a Node object, to which the certificate
// of its kubelet is bound, or the first label of that name if no other member can be meant. A
// node reports its addresses itself, so a name does not lead to an address that another member, or
// this node, has as well; only a control plane's address stays its own when a worker reports it.
// So what a name leads to is a claim, which the certificate at the address must prove.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::apid {

// A node of the cluster, as Kubernetes has it.
struct KnownMember {
  kj::String name;  // of the Node object, lower case
  bool controlPlane = false;
  kj::Vector<Ip> addresses;  // in its order
};

// The addresses and names of this node, and the other nodes that it knows.
struct Self {
  kj::Vector<Ip> addresses;
  kj::Vector<kj::String> names;  // lower case
  kj::Vector<KnownMember> members;
};

struct ThisNode {};
// A node to dial. A call by name has the member's name as well; one by address has none.
struct OtherNode {
  OtherNode(Ip address, kj::String name = nullptr, bool controlPlane = false)
      : address(address), name(kj::mv(name)), controlPlane(controlPlane) {}
  OtherNode clone() const { return OtherNode(address, kj::str(name), controlPlane); }

  Ip address;
  kj::String name;
  bool controlPlane;  // the member is one
};
// Throws with a hint: InvalidArgument, or FailedPrecondition if two nodes have the name or the
// address.
kj::OneOf<ThisNode, OtherNode> resolveTarget(kj::StringPtr target, const Self& self);

// The certificate at the address of a node. The rest is known if it is verified for that address.
struct ShownCertificate {
  kj::Maybe<kj::String> verificationError;
  bool controlPlane = false;     // no worker can have it
  kj::Vector<kj::String> names;  // for DNS
};
// The error if the certificate is not that of the member with the name. A node that is joining has
// none yet, and may be a worker: its identity stays unverified. None for a call by address.
kj::Maybe<kj::String> identityError(const OtherNode& node, const ShownCertificate& shown);

}  // namespace talos::apid
