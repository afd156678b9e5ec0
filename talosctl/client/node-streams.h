// Streaming calls to several nodes at once, with a check that the nodes still answer.
//
// A stream has no deadline, because a quiet log is no error. Instead, while it runs, the client
// requests the node's version every ten seconds, with a deadline: the stream of a node that has
// disappeared ends with an error.
#pragma once

#include <kj/function.h>

#include "talosctl/client/answer-output.h"

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

}  // namespace talos::talosctl
