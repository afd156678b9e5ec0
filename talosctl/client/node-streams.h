// Streaming calls, one for each node and all at once, with a check that the nodes still answer.
//
// A stream has no deadline (a quiet log is no error). So while it runs, its node is asked for its
// version every ten seconds, with a deadline: the stream of a node that has disappeared ends with
// an error.
#pragma once

#include <kj/function.h>

#include "talosctl/client/answer-output.h"

namespace talos::talosctl {

// The state of the node of a stream.
struct Alive {
  bool answered = false;
  kj::String bootId;
};

// `stream` until it ends, or the node's failure to answer.
kj::Promise<void> watched(Session& session, rpc::Node::Client node, Alive& alive,
                          kj::Promise<void> stream);

// Runs `start(name, node)` for every node under watch. Failures are printed as they come, as
// streamFailure() does. The exit status is 1 when no node's stream succeeded.
kj::Promise<int> streamAll(
    Invocation& call, Session& session, Format format,
    kj::Function<kj::Promise<void>(kj::StringPtr name, rpc::Node::Client node)> start);

}  // namespace talos::talosctl
