// The machine's own screen: its page on a virtual terminal, and for consoles without pages a line
// whenever the machine's state has changed.
#pragma once

#include <kj/function.h>

#include "machined/screen/log-terminal.h"
#include "machined/screen/screen-facts.h"

namespace talos::machined {

class MachineScreen {
 public:
  explicit MachineScreen(kj::Function<void(kj::StringPtr)> say) : say(kj::mv(say)) {}
  KJ_DISALLOW_COPY_AND_MOVE(MachineScreen);

  // Draws on a terminal from now on, if the machine has one; `activate`: and shows it. The first
  // terminal has the log (log-terminal.h).
  void open(kj::UnixEventPort& port, bool activate);
  void show(ScreenFacts facts);

 private:
  kj::Function<void(kj::StringPtr)> say;
  kj::Maybe<kj::Own<VirtualTerminal>> terminal;
  bool activates = false;
  kj::Maybe<LogTerminal> log;
  kj::Promise<void> followingLog = nullptr;
  kj::String lastState;
};

}  // namespace talos::machined
