// The first virtual terminal, which has the log of the machine.
//
// The kernel writes its messages on the terminal that is shown, whichever that is: so the last
// words of a kernel that stops are seen by who stands before the machine. The first terminal
// therefore lacks what was written while another one was shown, and gets the end of the kernel's
// log when somebody comes back to it. Nothing is kept: after a crash of the brain the next one goes
// on.
#pragma once

#include <kj/async-unix.h>

#include "machined/api/kmsg.h"
#include "machined/screen/virtual-terminal.h"

namespace talos::machined {

// The terminal that is shown: "tty2".
class ShownTerminal {
 public:
  virtual ~ShownTerminal() noexcept(false) = default;
  virtual kj::String name() = 0;
  virtual kj::Promise<void> whenChanged() = 0;  // since name() was called
};

// None where the kernel has no terminals.
kj::Maybe<kj::Own<ShownTerminal>> shownTerminal(kj::UnixEventPort& port);

class LogTerminal {
 public:
  // `openLog`: the kernel's log, from its oldest record.
  LogTerminal(kj::Own<VirtualTerminal> terminal, kj::Own<ShownTerminal> shown,
              kj::Function<kj::Own<KmsgSource>()> openLog)
      : terminal(kj::mv(terminal)), shown(kj::mv(shown)), openLog(kj::mv(openLog)) {}
  KJ_DISALLOW_COPY_AND_MOVE(LogTerminal);

  // Until dropped. Rejects when the log cannot be read.
  kj::Promise<void> run();

 private:
  kj::Own<VirtualTerminal> terminal;
  kj::Own<ShownTerminal> shown;
  kj::Function<kj::Own<KmsgSource>()> openLog;

  kj::Promise<void> draw();
};

}  // namespace talos::machined
