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
// Hidden flag: path of an empty file that is written before the first change of the cluster.
constexpr kj::StringPtr kChangeMark = "change-mark"_kj;

}  // namespace talos::talosctl
