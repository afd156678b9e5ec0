// `gen config --insecure`: a node without a config generates the configs of a new cluster, for its
// own version.
#pragma once

#include "common/config/config-generate.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// A usage error for flags that are not sent to the node. Rejects if a document is missing.
// Of the talosconfig only the identity is taken.
kj::Promise<config::Generated> generateOnNode(Invocation& call, kj::StringPtr installImage);

}  // namespace talos::talosctl
