// Renders the answer of a node to an apply as text. Pure.
#pragma once

#include "talosctl/configure/apply-configs.h"

namespace talos::talosctl {

// Returns true if the node did nothing, as nothing changes.
bool isUnchanged(rpc::ApplyResult::Reader result);

// Renders the `result` of one node. Warnings are separate, because they go to stderr.
DrawnText renderOutcome(kj::StringPtr node, rpc::ApplyResult::Reader result,
                        const ApplySettings& settings, bool insecure, bool colour);
kj::String renderWarnings(kj::StringPtr node, rpc::ApplyResult::Reader result);

}  // namespace talos::talosctl
