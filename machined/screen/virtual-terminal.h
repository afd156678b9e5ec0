// A virtual terminal of the kernel (console_codes(4), ioctl_console(2)) on which the machine's
// screen is drawn.
//
// On a machine without terminals, or with a screen that does not accept output (Scroll Lock), this
// changes nothing: no call blocks, and unwritten text is drawn completely the next time. After a
// crash of the brain the next brain opens the terminal again and draws the whole screen.
#pragma once

#include <kj/io.h>

#include "common/screen/canvas.h"

namespace talos::machined {

class VirtualTerminal {
 public:
  // Returns nullptr if the kernel has no such terminal. Its keys are ignored from now on.
  static kj::Maybe<kj::Own<VirtualTerminal>> open(kj::StringPtr path);
  explicit VirtualTerminal(kj::AutoCloseFd fd) : fd(kj::mv(fd)) {}

  // Shows this terminal instead of the shown one.
  void activate(int number = 2);

  size_t rows() const;     // 25 if unknown
  size_t columns() const;  // 80 if unknown
  // Draws from the top; writes only changes. If at least two rows are left below, the kernel's
  // messages scroll there while this terminal is shown.
  void show(Canvas canvas);
  // Writes lines, each ended by "\r\n", in place of the earlier content.
  void show(kj::ArrayPtr<const char> lines);

 private:
  kj::AutoCloseFd fd;
  kj::Maybe<Canvas> shown;

  bool write(kj::StringPtr text);
};

}  // namespace talos::machined
