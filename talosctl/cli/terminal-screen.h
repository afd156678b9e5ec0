// The alternate screen of the terminal and its keyboard, for commands that draw in place.
//
// The terminal is put back when it is dropped, and by every end of the command that runs
// destructors; a signal that ends the process at once leaves it as it is (`reset` helps).
#pragma once

#include <termios.h>

#include "common/screen/canvas.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

class TerminalScreen {
 public:
  // Standard output is a terminal.
  explicit TerminalScreen(Dependencies& deps, Colors colors);
  ~TerminalScreen() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(TerminalScreen);

  // Only what differs from the canvas before is written.
  void show(Canvas canvas);
  // Everything is written again by the next show(): something else may have written.
  void forget() { shown = nullptr; }

  // Bytes as the keyboard sends them, at least one; never resolves without a keyboard. Rejects when
  // the terminal is gone.
  kj::Promise<kj::Array<char>> typed();

 private:
  Dependencies& deps;
  Colors colors;
  struct termios before;
  kj::Maybe<kj::Own<kj::AsyncInputStream>> keyboard;
  kj::Maybe<Canvas> shown;
};

}  // namespace talos::talosctl
