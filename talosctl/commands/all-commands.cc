#include "talosctl/commands/all-commands.h"

#include "talosctl/configure/configure-commands.h"
#include "talosctl/diagnose/diagnose-command.h"
#include "talosctl/etcd/etcd-commands.h"
#include "talosctl/health/health-command.h"
#include "talosctl/kube/kube-commands.h"
#include "talosctl/upgrade-k8s/upgrade-k8s-command.h"

namespace talos::talosctl {
namespace {

// Commands that help lists together. A command without a theme is listed at the end.
std::vector<Theme> themes() {
  return {
      {"Set up a cluster",
       {"gen", "machineconfig", "validate", "apply-config", "bootstrap", "kubeconfig", "health",
        "cluster"}},
      {"Change nodes",
       {"edit", "patch", "apply", "restart", "upgrade", "rollback", "reboot", "shutdown", "reset",
        "meta", "encryption"}},
      {"Kubernetes and etcd", {"upgrade-k8s", "etcd", "images"}},
      {"State of nodes",
       {"status", "get", "version", "service", "containers", "image", "processes", "stats",
        "memory", "cgroups", "disks", "mounts", "interfaces", "routes", "netstat", "time"}},
      {"Find out what is wrong",
       {"diagnose", "logs", "dmesg", "events", "list", "usage", "read", "copy", "pcap", "inspect",
        "support", "crashdump"}},
      {"This client", {"config", "completion", "help"}},
  };
}

}  // namespace

void addCommands(Command& root) {
  root.themes = themes();
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
