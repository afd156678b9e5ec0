// The signals that end a command: its promise is dropped, which cleans up, and the exit status
// shows it.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

class InterruptSignals {
 public:
  // Before the event loop exists. SIGHUP (the terminal was closed) is left alone where it is
  // ignored, as nohup(1) makes it.
  InterruptSignals();
  // Resolves at the first SIGINT, SIGTERM or SIGHUP for this process; the next one ends it. SIGINT
  // is a child's while that has the terminal.
  kj::Promise<void> caught(Dependencies& deps);

 private:
  bool hangUp;
};

}  // namespace talos::talosctl
