// One run of the program: parse, dispatch, report, exit status.
#pragma once

#include "common/base/error.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Runs the command that `words` (without the program's name) name, and resolves to the exit status,
// 0 or 1. Never rejects: every failure is reported on the console first. `interrupt` resolves at
// the first SIGINT, SIGTERM or SIGHUP (kj::NEVER_DONE if there are no signals).
kj::Promise<int> run(Dependencies& deps, const Command& root,
                     kj::ArrayPtr<const kj::StringPtr> words, kj::Promise<void> interrupt);

// The signals that end a command: they drop the command's promise, which cleans up, and set the
// exit status.
class InterruptSignals {
 public:
  // Must be constructed before the event loop. SIGHUP (the terminal was closed) stays ignored if it
  // is ignored already, as nohup(1) sets it.
  InterruptSignals();
  // Resolves at the first SIGINT, SIGTERM or SIGHUP for this process; the next signal ends the
  // process. While a child has the terminal, SIGINT is left to the child.
  kj::Promise<void> caught(Dependencies& deps);

 private:
  bool hangUp;
};

// Points the user from an error that only the node can explain to the node's log.

// Returns a line for stderr, to be printed after the error: the command that shows the lines of
// this request in the node's logs. Empty for other errors, and if no node was called.
kj::String requestNote(const Dependencies& deps, const kj::Exception& e);

}  // namespace talos::talosctl
