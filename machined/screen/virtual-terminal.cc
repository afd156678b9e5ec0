#include "machined/screen/virtual-terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vt.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace talos::machined {

kj::Maybe<kj::Own<VirtualTerminal>> VirtualTerminal::open(kj::StringPtr path) {
  kj::AutoCloseFd fd(::open(path.cStr(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0) return nullptr;
  // A key must not echo, and what is typed would be kept for nobody.
  struct termios settings;
  if (tcgetattr(fd, &settings) == 0) {
    settings.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG);
    tcsetattr(fd, TCSANOW, &settings);
  }
  return kj::heap<VirtualTerminal>(kj::mv(fd));
}

void VirtualTerminal::activate(int number) {
  // Where there is no screen, there is nothing to be done about it.
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
  // The first time: UTF-8, and no cursor.
  auto start = shown == nullptr ? "\x1b%G\x1b[?25l"_kj : ""_kj;
  auto text = kj::str(
      start,
      canvas.ansi(shown.map([](Canvas& one) -> const Canvas& { return one; }), Colors::kAnsi));
  shown = kj::mv(canvas);
  for (auto rest = text.asArray(); rest.size() > 0;) {
    auto written = write(fd, rest.begin(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      shown = nullptr;
      return;
    }
    rest = rest.slice(size_t(written), rest.size());
  }
}

}  // namespace talos::machined
