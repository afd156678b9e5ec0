// A call that may take minutes, to a node that may disappear meanwhile: when an endpoint falls
// silent, or a node reached through a forwarder, the connection stays open.
//
// During the call the client requests the node's version now and then. A busy node may miss a
// request; three missed requests in a row end the call.
#pragma once

#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// Never resolves. Rejects with DeadlineExceeded within 40 s after the node has fallen silent.
kj::Promise<void> untilSilent(kj::Timer& timer, rpc::Node::Client node);

// Returns the result of `call`, or the error of untilSilent().
template <typename T>
kj::Promise<T> whileAnswering(kj::Timer& timer, rpc::Node::Client node, kj::Promise<T> call) {
  return call.exclusiveJoin(
      untilSilent(timer, kj::mv(node)).then([]() -> kj::Promise<T> { return kj::NEVER_DONE; }));
}

}  // namespace talos::talosctl
