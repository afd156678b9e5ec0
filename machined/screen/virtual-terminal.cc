#include "machined/screen/virtual-terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vt.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace talos::machined {
namespace {

// Returns the codes that make only the rows below the page scroll, and move the cursor to the last
// row.
kj::String kernelsPart(size_t page, size_t rows) {
  auto region = rows >= page + 2 ? kj::str(page + 1, ';', rows) : kj::String();
  return kj::str("\x1b[", region, "r\x1b[", rows, ";1H");
}

}  // namespace

kj::Maybe<kj::Own<VirtualTerminal>> VirtualTerminal::open(kj::StringPtr path) {
  kj::AutoCloseFd fd(::open(path.cStr(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0) return nullptr;
  // Keys must not echo, and input must not be buffered without a reader.
  struct termios settings;
  if (tcgetattr(fd, &settings) == 0) {
    settings.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG);
    tcsetattr(fd, TCSANOW, &settings);
  }
  return kj::heap<VirtualTerminal>(kj::mv(fd));
}

void VirtualTerminal::activate(int number) {
  // Without a screen there is nothing to show, so errors are ignored.
  ioctl(fd, VT_ACTIVATE, number);
}

size_t VirtualTerminal::rows() const {
  constexpr size_t kUsual = 25;
  struct winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsual;
}

size_t VirtualTerminal::columns() const {
  constexpr size_t kUsual = 80;
  struct winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

void VirtualTerminal::show(Canvas canvas) {
  bool same = false;
  KJ_IF_MAYBE (before, shown) {
    same = before->rows() == canvas.rows() && before->columns() == canvas.columns();
  }
  // The first write sets UTF-8, and hides the cursor.
  auto start = shown == nullptr ? "\x1b%G\x1b[?25l"_kj : ""_kj;
  auto drawn =
      canvas.ansi(shown.map([](Canvas& one) -> const Canvas& { return one; }), Colors::kAnsi);
  // The cursor is at the kernel's next output, and returns there with its colours.
  auto text = !same              ? kj::str(start, drawn, kernelsPart(canvas.rows(), rows()))
              : drawn.size() > 0 ? kj::str(
                                       "\x1b"
                                       "7",
                                       drawn,
                                       "\x1b"
                                       "8")
                                 : kj::String();
  if (write(text)) {
    shown = kj::mv(canvas);
  } else {
    shown = nullptr;
  }
}

void VirtualTerminal::show(kj::ArrayPtr<const char> lines) {
  // Lines that the terminal does not accept now are written the next time.
  write(kj::str("\x1b[0m\x1b[H\x1b[2J", lines));
}

bool VirtualTerminal::write(kj::StringPtr text) {
  for (auto rest = text.asArray(); rest.size() > 0;) {
    auto written = ::write(fd, rest.begin(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest = rest.slice(size_t(written), rest.size());
  }
  return true;
}

}  // namespace talos::machined
