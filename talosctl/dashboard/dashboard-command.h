// dashboard
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addDashboardCommand(Command& root);

}  // namespace talos::talosctl
