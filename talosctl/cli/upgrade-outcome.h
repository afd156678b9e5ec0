// Decides from a node's answers, or from missing answers, whether its upgrade or rollback has
// ended. Pure.
#pragma once

#include "rpc/machine-resources.capnp.h"
#include "talosctl/cli/node-outcome.h"

namespace talos::talosctl {

// `before`: the boot during which the upgrade was requested.
Judgement judgeUpgrade(kj::StringPtr before, kj::StringPtr bootId,
                       rpc::UpgradeStatusSpec::Reader status);

}  // namespace talos::talosctl
