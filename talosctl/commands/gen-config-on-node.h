// `gen config --insecure`: the configs of a new cluster made by a machine without a config, hence
// by its version.
#pragma once

#include "common/config/generate.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// A usage error for flags that the machine is not told of. Rejects when it leaves out a document.
kj::Promise<config::Generated> generateOnNode(Invocation& call, kj::StringPtr installImage);

}  // namespace talos::talosctl
