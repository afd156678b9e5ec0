// image cache-create
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addImageCacheCommand(Command& root);

}  // namespace talos::talosctl
