// Calls that last: one for each node, all at once, watched over.
//
// A stream has no deadline of its own (a quiet log is no error), so while it runs its node is asked
// for its version every ten seconds, with a deadline: a node that is gone without a word ends its
// stream with an error instead of leaving the user before a silent screen.
#pragma once

#include <kj/function.h>

#include "talosctl/client/answer-output.h"

namespace talos::talosctl {

// What the watch over a node has learned.
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
