// Man pages (man(7) macros) from the table of commands, one page for each command: talosctl.1,
// talosctl-config-merge.1. Pure: the same table gives the same bytes.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

struct ManPage {
  kj::String file;  // "talosctl-get.1"
  kj::String text;
};

// Returns the pages of the command and of all visible commands below it. `version` is in the
// footer.
kj::Vector<ManPage> manPages(const Command& root, kj::StringPtr version);

}  // namespace talos::talosctl
