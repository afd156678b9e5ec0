#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

void addCommands(Command& root) {
  addConfigCommands(root);
  addConfigNewCommand(root);
  addGenerateCommands(root);
  addPkiCommands(root);
  addSecretsCommand(root);
  addValidateCommand(root);
  addMachineCommands(root);
  addProcessCommands(root);
  addNetworkCommands(root);
  addServiceCommands(root);
  addResourceCommands(root);
  addLogCommands(root);
  addEventCommands(root);
  addFileCommands(root);
  addTransferCommands(root);
  addLifecycleCommands(root);
  addApplyCommands(root);
  addEditCommands(root);
  addPatchCommands(root);
  addStorageCommands(root);
  addTimeCommands(root);
  addShellCommands(root);
  addAbsentCommands(root);
}

}  // namespace talos::talosctl
