#include "talosctl/commands/all-commands.h"

#include "talosctl/configure/configure-commands.h"
#include "talosctl/diagnose/diagnose-command.h"
#include "talosctl/etcd/etcd-commands.h"
#include "talosctl/health/health-command.h"
#include "talosctl/kube/kube-commands.h"
#include "talosctl/upgrade-k8s/upgrade-k8s-command.h"

namespace talos::talosctl {

void addCommands(Command& root) {
#define COMMANDS(add) add(root);
#include "talosctl/commands/commands.inc"
#undef COMMANDS
  addGenerateCommands(root);
  addPkiCommands(root);
  addSecretsCommand(root);
  addMachineConfigCommands(root);
  addValidateCommand(root);
  addApplyCommands(root);
  addEditCommands(root);
  addPatchCommands(root);
  addBootstrapCommand(root);
  addEtcdCommands(root);
  addKubeconfigCommand(root);
  addImagesCommand(root);
  addDiagnoseCommand(root);
  addHealthCommand(root);
  addUpgradeK8sCommand(root);
}

}  // namespace talos::talosctl
