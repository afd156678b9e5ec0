// The commands for the cluster's etcd.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addBootstrapCommand(Command& root);
void addEtcdCommands(Command& root);   // members, status, leave, remove-member, snapshot, …
void addTokenCommands(Command& root);  // create, list, revoke

void addSnapshotCommand(Command& etcd);

}  // namespace talos::talosctl
