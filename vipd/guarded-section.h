// A few instructions that must not be executed late, however long this process is kept from the
// processor between any two of them: stopped by a signal or a freezer, or waiting for many others.
//
// A look at the clock before them is not enough, because the pause may come after the look. So the
// guard first sets a kernel timer for the moment after which it is too late. The timer's signal
// ends the process: a process that continues receives its signals before its next instruction. The
// supervisor starts it again as after any other crash. (A paused virtual machine notices nothing,
// because its clocks stand still as well.)
//
// The code inside must not wait. If the kernel itself was late, inside the one system call, the
// process ends as well, right after the call. It first undoes the late change with a message that
// was prepared before, because no process could undo it later. There is one guard for each process;
// the signal is SIGALRM.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/time.h>

namespace talos::vipd {

class Guard {
 public:
  virtual ~Guard() noexcept(false) = default;
  // Returns false, and does nothing, if it is already too late. `undo`: a message for rtnetlink
  // (netlink-codec.h) that reverts `body`; may be empty, and may undo a change that was not made.
  virtual bool before(kj::TimePoint latest, kj::ArrayPtr<const kj::byte> undo,
                      kj::FunctionParam<void()> body) = 0;
};

// `latest` is of the system's monotonic clock. `undo` applies to the network namespace of
// makeGuard()'s caller.
kj::Own<Guard> makeGuard();

}  // namespace talos::vipd
