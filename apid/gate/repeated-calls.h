// Repeats calls to another node that were left without an answer when its connection ended.
//
// All clients share one connection to a node (peer-connections.h). It ends when the node's apid
// restarts, when either side exceeds a limit, or when the node so decides, and the calls of all
// clients with it. A call that only reads is made again, once, over a new connection; one that
// changes something may have been done and is not: it fails with Unavailable and the node's
// address. So does one that passes a capability (a sink) or returns one, as either is bound to its
// connection. The schema decides: $audit marks methods that change something, and some that only
// read: these are not made again either, so that each call is one line of the audit log. A part of
// a node (Machine, Resources, ...) is requested again with the connection, so that it outlives it.
#pragma once

#include <kj/function.h>
#include <kj/map.h>
#include <kj/refcount.h>

#include "rpc/node.capnp.h"

namespace talos::apid {

// The methods of the parts of a node that are made again.
class RepeatableMethods final : public kj::Refcounted {
 public:
  RepeatableMethods();
  bool includes(uint64_t interface, uint16_t method) const;

 private:
  kj::HashMap<uint64_t, kj::Array<bool>> byInterface;
};

// A node over one connection.
struct ConnectedNode {
  rpc::Node::Client node;
  kj::Function<bool()> lost;  // the connection has ended
};

// `connect` opens another connection, or fails with an error that names the node.
rpc::Node::Client repeatingNode(kj::Own<RepeatableMethods> methods, ConnectedNode first,
                                kj::Function<kj::Promise<ConnectedNode>()> connect);

}  // namespace talos::apid
