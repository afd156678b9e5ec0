#include "talosctl/commands/all-commands.h"

#include "talosctl/configure/configure-commands.h"
#include "talosctl/convert-k8s/convert-k8s-command.h"
#include "talosctl/debug/debug-commands.h"
#include "talosctl/drain/drain-commands.h"
#include "talosctl/etcd/etcd-commands.h"
#include "talosctl/health/health-command.h"
#include "talosctl/kube/kube-commands.h"
#include "talosctl/rotate-ca/rotate-ca-command.h"
#include "talosctl/upgrade-k8s/upgrade-k8s-command.h"
#include "talosctl/upgrade/upgrade-commands.h"

namespace talos::talosctl {

#define THEME(...)
#define COMMANDS(add) void add(Command& root);
#include "talosctl/commands/commands.inc"
#undef COMMANDS
#undef THEME

void addCommands(Command& root) {
#define THEME(title, ...) root.themes.push_back({title, {__VA_ARGS__}});
#define COMMANDS(add) add(root);
#include "talosctl/commands/commands.inc"
#undef COMMANDS
#undef THEME
}

}  // namespace talos::talosctl
