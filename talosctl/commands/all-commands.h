// All commands of the program.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Adds every command except those of clusters, which talosctl/main.cc adds.
void addCommands(Command& root);

void addConfigCommands(Command& root);    // config-commands.cc
void addConfigNewCommand(Command& root);  // config-new-command.cc
void addGenerateCommands(Command& root);  // gen-config-command.cc
void addSecretsCommand(Command& root);    // gen-secrets-command.cc
void addValidateCommand(Command& root);   // validate-command.cc
void addPkiCommands(Command& root);       // gen-pki-commands.cc: gen ca, key, csr, crt, keypair
void addMachineCommands(
    Command& root);  // machine-commands.cc: version, status, memory, mounts, stats
void addProcessCommands(Command& root);    // processes-command.cc
void addNetworkCommands(Command& root);    // network-commands.cc: interfaces, routes
void addServiceCommands(Command& root);    // service-command.cc
void addResourceCommands(Command& root);   // get-command.cc
void addLogCommands(Command& root);        // logs-commands.cc: logs, dmesg
void addEventCommands(Command& root);      // events-command.cc
void addFileCommands(Command& root);       // files-commands.cc: list, usage
void addTransferCommands(Command& root);   // transfer-commands.cc: read, copy
void addLifecycleCommands(Command& root);  // lifecycle-commands.cc: reboot, shutdown
void addApplyCommands(Command& root);      // apply-command.cc: apply-config, apply
void addEditCommands(Command& root);       // edit-command.cc
void addPatchCommands(Command& root);      // patch-command.cc
void addStorageCommands(Command& root);    // disks-command.cc: disks
void addTimeCommands(Command& root);       // time-command.cc
void addShellCommands(Command& root);      // shell-commands.cc: completion, help
void addAbsentCommands(Command& root);     // absent-commands.cc: known by name, not available

}  // namespace talos::talosctl
