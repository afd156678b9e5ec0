// Compares the node's identity in a config with the node's present identity. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/resources/store.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

struct NodeIdentity {
  struct Other {
    kj::String name;  // name in Kubernetes
    kj::Vector<kj::String> addresses;
  };
  kj::String nodename;       // name in Kubernetes; empty before it has a name
  kj::Vector<Other> others;  // the other nodes of the cluster that this node knows
};

// Reads Nodenames, Members and NodeAddresses. A member with an address of this node is not another
// node: it is a remainder of this node under an earlier name.
NodeIdentity identityOf(Store& store);

// Returns the warnings of a change of the identity: another host name creates another Node object
// in Kubernetes, another CA shuts out the clients of this cluster. Throws FailedPrecondition for a
// host name, or an address, that is new to this node and belongs to another node: then the config
// is that node's.
kj::Vector<kj::String> checkIdentity(config::Config::Reader running, config::Config::Reader wanted,
                                     const NodeIdentity& node);

}  // namespace talos::machined
