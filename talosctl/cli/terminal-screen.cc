#include "talosctl/cli/terminal-screen.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::talosctl {

namespace {

// Stops this process as the terminal's Ctrl-Z would, and returns when it continues. KJ blocks the
// signal and has a handler for it.
void stopUntilContinued() {
  struct sigaction usual = {}, handler;
  usual.sa_handler = SIG_DFL;
  sigset_t stop, blocked;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  KJ_SYSCALL(sigaction(SIGTSTP, &usual, &handler));
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, &blocked);  // the process is stopped here
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  KJ_SYSCALL(sigaction(SIGTSTP, &handler, nullptr));
}

}  // namespace

TerminalScreen::TerminalScreen(Dependencies& deps, Colors colors) : deps(deps), colors(colors) {
  kj::UnixEventPort::captureSignal(SIGTSTP);
  kj::UnixEventPort::captureSignal(SIGCONT);
  if (deps.console.inIsTerminal()) {
    KJ_SYSCALL(tcgetattr(deps.input, &before));
    KJ_SYSCALL(flagsBefore = fcntl(deps.input, F_GETFL));
    keyboard = deps.lowLevel.wrapInputFd(deps.input);
  }
  enter();
  following = followStops().eagerlyEvaluate(nullptr);
}

TerminalScreen::~TerminalScreen() noexcept(false) {
  leave();
}

void TerminalScreen::enter() {
  if (keyboard != nullptr) {
    auto raw = before;
    raw.c_lflag &= ~tcflag_t(ICANON | ECHO);
    tcsetattr(deps.input, TCSANOW, &raw);
    fcntl(deps.input, F_SETFL, flagsBefore | O_NONBLOCK);
  }
  deps.console.out(DrawnText().enterScreen());
}

void TerminalScreen::leave() {
  deps.console.out(DrawnText().leaveScreen());
  if (keyboard == nullptr) return;
  tcsetattr(deps.input, TCSANOW, &before);
  fcntl(deps.input, F_SETFL, flagsBefore);
}

void TerminalScreen::redraw() {
  KJ_IF_MAYBE (last, shown) {
    auto again = kj::mv(*last);
    forget();
    show(kj::mv(again));
  }
}

kj::Promise<void> TerminalScreen::followStops() {
  for (;;) {
    auto info = co_await deps.port.onSignal(SIGTSTP).exclusiveJoin(deps.port.onSignal(SIGCONT));
    if (info.si_signo == SIGTSTP) {
      leave();
      stopUntilContinued();
    }
    enter();
    redraw();
  }
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
