#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

void addCommands(Command& root) {
#define COMMANDS(add) add(root);
#include "talosctl/commands/commands.inc"
#undef COMMANDS
}

}  // namespace talos::talosctl
