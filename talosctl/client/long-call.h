// A call that may take minutes, of a node that may be gone: an endpoint that falls silent, or a
// forwarder before it, leaves the connection open.
//
// While the call runs its node is asked for its version now and then. A node that is busy may leave
// a question unanswered; one that leaves three in a row ends the call.
#pragma once

#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// Never resolves; DeadlineExceeded, within 40 s, when the node has fallen silent.
kj::Promise<void> untilSilent(kj::Timer& timer, rpc::Node::Client node);

// `call`, or that.
template <typename T>
kj::Promise<T> whileAnswering(kj::Timer& timer, rpc::Node::Client node, kj::Promise<T> call) {
  return call.exclusiveJoin(
      untilSilent(timer, kj::mv(node)).then([]() -> kj::Promise<T> { return kj::NEVER_DONE; }));
}

}  // namespace talos::talosctl
