// Compares the identity that a config gives to the node with the one that the node has. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/resources/store.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

struct NodeIdentity {
  struct Other {
    kj::String name;  // in Kubernetes
    kj::Vector<kj::String> addresses;
  };
  kj::String nodename;       // in Kubernetes; empty: it has none yet
  kj::Vector<Other> others;  // the other nodes of the cluster, as far as this one knows them
};

// From Nodenames, Members and NodeAddresses. A member with an address of this node is no other one:
// it is what is left of this node under an earlier name.
NodeIdentity identityOf(Store& store);

// The warnings of a change of the identity: another host name makes another Node object in
// Kubernetes, another CA shuts out the clients of this cluster. FailedPrecondition for a host name,
// or an address, that is new to this node and another node's: the config is that node's.
kj::Vector<kj::String> checkIdentity(config::Config::Reader running, config::Config::Reader wanted,
                                     const NodeIdentity& node);

}  // namespace talos::machined
