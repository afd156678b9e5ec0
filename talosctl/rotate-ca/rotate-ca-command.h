// The command `rotate-ca`.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addRotateCaCommand(Command& root);

// Runs `rotate-ca`.
kj::Promise<int> runRotateCa(Invocation& call);
// Hidden flag: further client configurations of the cluster, whose current context gets the new
// certificate as the user's context does.
constexpr kj::StringPtr kRenewedConfigs = "also-renew"_kj;

}  // namespace talos::talosctl
