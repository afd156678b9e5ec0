// Resolves the target of a call: this node, or the address of another node. The empty target is
// this node (rpc/node.capnp).
//
// No I/O and no resolver: a name must belong to this node or to a member of the cluster, or it is
// refused. Kubernetes has the members: a member's name is that of its Node object, to which the
// certificate of its kubelet is bound, or the first label of this name if no other member can be
// meant. A node reports its addresses itself. So a name does not lead to an address that another
// member, or this node, has as well; only a control plane's address stays its own when a worker
// reports it. The address for a name is therefore a claim, which the certificate at the address
// must prove.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::apid {

// A node of the cluster, as Kubernetes has it.
struct KnownMember {
  kj::String name;  // name of the Node object, lower case
  bool controlPlane = false;
  kj::Vector<Ip> addresses;  // in Kubernetes' order
};

// The addresses and names of this node, and the other nodes that it knows.
struct Self {
  kj::Vector<Ip> addresses;
  kj::Vector<kj::String> names;  // lower case
  kj::Vector<KnownMember> members;
};

struct ThisNode {};
// A node to dial. A call by name also has the member's name; a call by address has no name.
struct OtherNode {
  OtherNode(Ip address, kj::String name = nullptr, bool controlPlane = false)
      : address(address), name(kj::mv(name)), controlPlane(controlPlane) {}
  OtherNode clone() const { return OtherNode(address, kj::str(name), controlPlane); }

  Ip address;
  kj::String name;
  bool controlPlane;  // the member is a control plane
};
// Throws with a hint: InvalidArgument, or FailedPrecondition if two nodes have the name or the
// address.
kj::OneOf<ThisNode, OtherNode> resolveTarget(kj::StringPtr target, const Self& self);

// The certificate at the address of a node. The other fields are known if it is verified for this
// address.
struct ShownCertificate {
  kj::Maybe<kj::String> verificationError;
  bool controlPlane = false;     // no worker's certificate sets this
  kj::Vector<kj::String> names;  // DNS names
};
// Returns the error if the certificate does not belong to the named member; nullptr for a call by
// address. A joining node has no certificate yet, and may be a worker: its identity stays
// unverified.
kj::Maybe<kj::String> identityError(const OtherNode& node, const ShownCertificate& shown);

}  // namespace talos::apid
