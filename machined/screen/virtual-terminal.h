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
  // None where the kernel has no such terminal. Its keys are ignored from now on.
  static kj::Maybe<kj::Own<VirtualTerminal>> open(kj::StringPtr path = "/dev/tty2");
  explicit VirtualTerminal(kj::AutoCloseFd fd) : fd(kj::mv(fd)) {}

  // Shows it instead of the one that is shown.
  void activate(int number = 2);

  size_t rows() const;     // 25 when unknown
  size_t columns() const;  // 80 when unknown
  // From the top; only what has changed is written. Below it, if two rows are left at least, the
  // kernel's messages scroll while this terminal is shown.
  void show(Canvas canvas);
  // Lines, each ended by "\r\n", in place of what was there.
  void show(kj::ArrayPtr<const char> lines);

 private:
  kj::AutoCloseFd fd;
  kj::Maybe<Canvas> shown;

  bool write(kj::StringPtr text);
};

}  // namespace talos::machined
