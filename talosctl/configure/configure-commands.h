// The commands for machine configs and for the keys of a cluster.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addGenerateCommands(Command& root);       // gen config
void addPkiCommands(Command& root);            // gen ca, key, csr, crt, keypair
void addSecretsCommand(Command& root);         // gen secrets
void addMachineConfigCommands(Command& root);  // machineconfig gen, patch
void addValidateCommand(Command& root);
void addApplyCommands(Command& root);  // apply-config, apply
void addEditCommands(Command& root);
void addPatchCommands(Command& root);

// Returns --force, of a group whose commands write files.
Flag forceFlag();
// Declares the arguments, flags and action of gen config, which has two names.
void declareGenConfig(Command& command);

}  // namespace talos::talosctl
