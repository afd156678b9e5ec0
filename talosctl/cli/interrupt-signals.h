// The signals that end a command: they drop the command's promise, which cleans up, and set the
// exit status.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

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

}  // namespace talos::talosctl
