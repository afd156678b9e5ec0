// The alternate screen of the terminal and its keyboard, for commands that draw in place.
//
// The destructor restores the terminal, at every end of the command that runs destructors. A signal
// that ends the process at once leaves the terminal as it is (`reset` helps). Ctrl-Z (SIGTSTP)
// restores the terminal before the process stops; when it continues (SIGCONT), the last canvas is
// drawn again.
#pragma once

#include <termios.h>

#include "common/screen/canvas.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

class TerminalScreen {
 public:
  // Requires that standard output is a terminal.
  explicit TerminalScreen(Dependencies& deps, Colors colors);
  ~TerminalScreen() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(TerminalScreen);

  // Writes only the differences from the canvas before.
  void show(Canvas canvas);
  // Makes the next show() write everything again, because another program may have written.
  void forget() { shown = nullptr; }

  // Returns the bytes that the keyboard sends, at least one; never resolves without a keyboard.
  // Rejects when the terminal is gone.
  kj::Promise<kj::Array<char>> typed();

 private:
  Dependencies& deps;
  Colors colors;
  struct termios before;
  int flagsBefore = 0;  // of the keyboard's descriptor, which the shell shares
  kj::Maybe<kj::Own<kj::AsyncInputStream>> keyboard;
  kj::Maybe<Canvas> shown;
  kj::Promise<void> following = nullptr;

  void enter();
  void leave();
  void redraw();
  kj::Promise<void> followStops();
};

}  // namespace talos::talosctl
