// Calls that take long, to nodes that may disappear meanwhile: streams, and calls of minutes.
//
// A stream has no deadline, because a quiet log is no error. Instead, while it runs, the client
// requests the node's version every ten seconds, with a deadline: the stream of a node that has
// disappeared ends with an error.
#pragma once

#include <kj/function.h>

#include "talosctl/client/answer-output.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// State of a stream's node.
struct Alive {
  bool answered = false;
  kj::String bootId;
};

// Runs `stream` until it ends, or rejects when the node no longer answers.
kj::Promise<void> watched(Session& session, rpc::Node::Client node, Alive& alive,
                          kj::Promise<void> stream);

// Runs `start(name, node)` for every node, each under watched(). Prints failures as they occur, as
// streamFailure() does. The exit status is 1 if no node's stream succeeded.
kj::Promise<int> streamAll(
    Invocation& call, Session& session, Format format,
    kj::Function<kj::Promise<void>(kj::StringPtr name, rpc::Node::Client node)> start);

// A call that may take minutes, to a node that may disappear meanwhile: when an endpoint falls
// silent, or a node reached through a forwarder, the connection stays open.
//
// During the call the client requests the node's version now and then. A busy node may miss a
// request; three missed requests in a row end the call.

// Never resolves. Rejects with DeadlineExceeded within 40 s after the node has fallen silent.
kj::Promise<void> untilSilent(kj::Timer& timer, rpc::Node::Client node);

// Returns the result of `call`, or the error of untilSilent().
template <typename T>
kj::Promise<T> whileAnswering(kj::Timer& timer, rpc::Node::Client node, kj::Promise<T> call) {
  return call.exclusiveJoin(
      untilSilent(timer, kj::mv(node)).then([]() -> kj::Promise<T> { return kj::NEVER_DONE; }));
}

}  // namespace talos::talosctl
