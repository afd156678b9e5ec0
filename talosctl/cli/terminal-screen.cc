#include "talosctl/cli/terminal-screen.h"

#include <unistd.h>

#include "common/base/error.h"

namespace talos::talosctl {

TerminalScreen::TerminalScreen(Dependencies& deps, Colors colors) : deps(deps), colors(colors) {
  if (deps.console.inIsTerminal()) {
    KJ_SYSCALL(tcgetattr(deps.input, &before));
    auto raw = before;
    raw.c_lflag &= ~tcflag_t(ICANON | ECHO);
    KJ_SYSCALL(tcsetattr(deps.input, TCSANOW, &raw));
    keyboard = deps.lowLevel.wrapInputFd(deps.input);
  }
  deps.console.out(DrawnText().enterScreen());
}

TerminalScreen::~TerminalScreen() noexcept(false) {
  deps.console.out(DrawnText().leaveScreen());
  if (deps.console.inIsTerminal()) tcsetattr(deps.input, TCSANOW, &before);
}

void TerminalScreen::show(Canvas canvas) {
  DrawnText changes;
  changes.add(canvas, shown.map([](Canvas& one) -> const Canvas& { return one; }), colors);
  if (changes.asPtr().size() > 0) deps.console.out(changes);
  shown = kj::mv(canvas);
}

kj::Promise<kj::Array<char>> TerminalScreen::typed() {
  KJ_IF_MAYBE (keys, keyboard) {
    char bytes[64];
    auto count = co_await (*keys)->tryRead(bytes, 1, sizeof bytes);
    if (count == 0) fail(ErrorKind::kUnavailable, "the terminal is gone");
    co_return kj::heapArray<char>(bytes, count);
  }
  co_return co_await kj::Promise<kj::Array<char>>(kj::NEVER_DONE);
}

}  // namespace talos::talosctl
