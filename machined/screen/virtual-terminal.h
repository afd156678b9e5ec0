// A virtual terminal of the kernel (console_codes(4), ioctl_console(2)) on which the machine's
// screen is drawn.
//
// A machine without them, or whose screen does not take more (Scroll Lock), is as well off as
// before: nothing here blocks, and what was not written is drawn whole the next time. After a crash
// of the brain the next one opens it again and draws the whole screen.
#pragma once

#include <kj/io.h>

#include "common/screen/canvas.h"

namespace talos::machined {

class VirtualTerminal {
 public:
  // None where the kernel has no such terminal. Its keys are ignored from now on. Messages of the
  // kernel go to the first one: process 1 has seen to that.
  static kj::Maybe<kj::Own<VirtualTerminal>> open(kj::StringPtr path = "/dev/tty2");
  explicit VirtualTerminal(kj::AutoCloseFd fd) : fd(kj::mv(fd)) {}

  // Shows it instead of the one that is shown.
  void activate(int number = 2);

  size_t rows() const;     // 25 when unknown
  size_t columns() const;  // 80 when unknown
  // Only what has changed is written.
  void show(Canvas canvas);

 private:
  kj::AutoCloseFd fd;
  kj::Maybe<Canvas> shown;
};

}  // namespace talos::machined
