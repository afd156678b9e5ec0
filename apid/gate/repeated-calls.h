// Repeats calls to another node that were left without an answer when their connection ended.
//
// All clients share one connection to a node (peer-connections.h). It ends when the node's apid
// restarts, when either side exceeds a limit, or when the node so decides, and the calls of all
// clients end with it. A read-only call is retried once, over a new connection. A call that changes
// something may already have taken effect, so it is not retried: it fails with Unavailable and the
// node's address. Calls that pass a capability (a sink) or return one fail in the same way, because
// a capability belongs to its connection. The schema decides: $audit marks methods that change
// something, and some read-only ones; these are not retried either, so that each call is one line
// of the audit log. A part of a node (Machine, Resources, ...) is requested again with the
// connection, so that it outlives the connection.
#pragma once

#include <kj/function.h>
#include <kj/map.h>
#include <kj/refcount.h>

#include "rpc/node.capnp.h"

namespace talos::apid {

// The methods of a node's parts that may be retried.
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
