// The machine's own screen: its pages on virtual terminals, and for consoles without pages a line
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

  // Draws on terminals from now on, if the machine has them; `activate`: and shows the first page.
  // The first terminal has the log (log-terminal.h), the next ones the pages in their order.
  void open(kj::UnixEventPort& port, bool activate);
  void show(ScreenFacts facts);

 private:
  kj::Function<void(kj::StringPtr)> say;
  using Page = Canvas(const ScreenFacts& facts, size_t rows, size_t columns);
  struct Shown {
    kj::Own<VirtualTerminal> terminal;
    Page& page;
  };
  kj::Vector<Shown> pages;
  bool activates = false;
  kj::Maybe<LogTerminal> log;
  kj::Promise<void> followingLog = nullptr;
  kj::String lastState;
};

}  // namespace talos::machined
