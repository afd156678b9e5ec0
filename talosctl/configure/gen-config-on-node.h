// `gen config --insecure`: a node without a config generates the configs of a new cluster, for its
// own version.
#pragma once

#include "common/config/config-generate.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Requests the configs from the node. A usage error for flags that cannot be sent to it. Rejects if
// a document is missing. Uses only the identity of the node's talosconfig.
kj::Promise<config::Generated> generateOnNode(Invocation& call, kj::StringPtr installImage);

}  // namespace talos::talosctl
