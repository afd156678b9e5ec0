// All commands of the program.
#pragma once

#include "talosctl/command.h"

namespace talos::talosctl {

// Adds every command but those of clusters, which main.cc adds. One line for each file that has
// some.
void addCommands(Command& root);

void addConfigCommands(Command& root);     // config.cc
void addConfigNewCommand(Command& root);   // config-new.cc
void addGenerateCommands(Command& root);   // gen.cc
void addSecretsCommand(Command& root);     // gen-secrets.cc
void addValidateCommand(Command& root);    // validate.cc
void addPkiCommands(Command& root);        // gen-pki.cc: gen ca, key, csr, crt, keypair
void addMachineCommands(Command& root);    // machine.cc: version, status, memory, mounts, stats
void addProcessCommands(Command& root);    // processes.cc
void addNetworkCommands(Command& root);    // network.cc: interfaces, routes
void addServiceCommands(Command& root);    // services.cc
void addResourceCommands(Command& root);   // get.cc
void addLogCommands(Command& root);        // logs.cc: logs, dmesg
void addEventCommands(Command& root);      // events.cc
void addFileCommands(Command& root);       // files.cc: list, usage
void addTransferCommands(Command& root);   // transfer.cc: read, copy
void addLifecycleCommands(Command& root);  // lifecycle.cc: reboot, shutdown
void addApplyCommands(Command& root);      // apply-config.cc: apply-config, apply
void addEditCommands(Command& root);       // edit.cc
void addPatchCommands(Command& root);      // patch.cc
void addStorageCommands(Command& root);    // storage.cc: disks
void addTimeCommands(Command& root);       // time.cc
void addShellCommands(Command& root);      // shell.cc: completion, help
void addAbsentCommands(Command& root);     // absent.cc: known by name, not built

}  // namespace talos::talosctl
