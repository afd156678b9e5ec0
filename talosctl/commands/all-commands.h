// All commands of the program.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Adds every command of commands.inc: all but the commands for clusters, which talosctl/main.cc
// adds.
void addCommands(Command& root);
// Runs `reset`.
kj::Promise<int> runReset(Invocation& call);
// Adds the documents' commands that this program lacks, and Talos' flags that are refused
// with a reason. Must be called after all other commands are added, because an existing command is
// not absent.
void addAbsentCommands(Command& root);
// Adds the examples that help shows, to the commands that `root` has by then (examples.cc).
void addExamples(Command& root);

}  // namespace talos::talosctl
