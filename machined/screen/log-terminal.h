// The first virtual terminal, which shows the log of the machine.
//
// The kernel writes its messages to the shown terminal, whichever it is, so that a person at the
// machine sees the last messages of a kernel that stops. The first terminal therefore lacks
// messages that were written while another one was shown, and gets the end of the kernel's log when
// it is shown again. Nothing is kept: after a crash of the brain the next brain continues.
#pragma once

#include <kj/async-unix.h>

#include "machined/api/kmsg.h"
#include "machined/screen/virtual-terminal.h"

namespace talos::machined {

// The shown terminal: "tty2".
class ShownTerminal {
 public:
  virtual ~ShownTerminal() noexcept(false) = default;
  virtual kj::String name() = 0;
  virtual kj::Promise<void> whenChanged() = 0;  // since name() was called
};

// Returns nullptr if the kernel has no terminals.
kj::Maybe<kj::Own<ShownTerminal>> shownTerminal(kj::UnixEventPort& port);

class LogTerminal {
 public:
  // `openLog`: the kernel's log, from its oldest record.
  LogTerminal(kj::Own<VirtualTerminal> terminal, kj::Own<ShownTerminal> shown,
              kj::Function<kj::Own<KmsgSource>()> openLog)
      : terminal(kj::mv(terminal)), shown(kj::mv(shown)), openLog(kj::mv(openLog)) {}
  KJ_DISALLOW_COPY_AND_MOVE(LogTerminal);

  // Runs until dropped. Rejects when the log cannot be read.
  kj::Promise<void> run();

 private:
  kj::Own<VirtualTerminal> terminal;
  kj::Own<ShownTerminal> shown;
  kj::Function<kj::Own<KmsgSource>()> openLog;

  kj::Promise<void> draw();
};

}  // namespace talos::machined
