// A few instructions that must not be executed late, however long this process is kept from the
// processor between any two of them: stopped by a signal or a freezer, or only behind many others.
//
// A look at the clock before them is not enough, for the pause may come after the look. So a timer
// of the kernel is set first, for the moment after which it is too late, whose signal ends the
// process: a process that is let go on takes its signals before its next instruction. Whoever
// starts it again finds it as after any other crash. (A virtual machine that is paused notices
// nothing, for its clocks stand still as well.)
//
// The code inside must have no wait of its own. Where the kernel itself was late, inside of the one
// system call, the process ends as well, right after it; what came late is taken back first, by a
// message that was made ready before, for there is nobody left who could do so later. One for each
// process; the signal is SIGALRM.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/time.h>

namespace talos::vipd {

class Guard {
 public:
  virtual ~Guard() noexcept(false) = default;
  // False, and nothing was done: it is too late already. `undo`: for rtnetlink (netlink-codec.h),
  // of what `body` does; may be empty, and may be of what is not there.
  virtual bool before(kj::TimePoint latest, kj::ArrayPtr<const kj::byte> undo,
                      kj::FunctionParam<void()> body) = 0;
};

// `latest` is of the system's monotonic clock. Of the network namespace that the caller is in.
kj::Own<Guard> makeGuard();

}  // namespace talos::vipd
