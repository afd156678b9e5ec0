// One run of the program: parse, dispatch, report, exit status.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Runs the command that `words` (without the program's name) name, and resolves to the exit status,
// 0 or 1. Never rejects: every failure is reported on the console first. `interrupt` resolves at
// the first SIGINT, SIGTERM or SIGHUP (kj::NEVER_DONE if there are no signals).
kj::Promise<int> run(Dependencies& deps, const Command& root,
                     kj::ArrayPtr<const kj::StringPtr> words, kj::Promise<void> interrupt);

}  // namespace talos::talosctl
