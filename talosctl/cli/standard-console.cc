#include "talosctl/cli/standard-console.h"

#include <errno.h>
#include <kj/debug.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

namespace {

kj::StringPtr variable(kj::StringPtr name) {
  const char* value = getenv(name.cStr());
  return value == nullptr ? ""_kj : kj::StringPtr(value);
}

bool wantsAscii() {
  static const bool wanted =
      !isUtf8Locale(variable("LC_ALL"), variable("LC_CTYPE"), variable("LANG"));
  return wanted;
}

void endWithSignal(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
}

// Waits until `fd` accepts bytes. A signal that ends a program by default ends this program during
// the wait.
void waitWritable(int fd) {
  for (;;) {
    struct pollfd p = {.fd = fd, .events = POLLOUT, .revents = 0};
    if (poll(&p, 1, 200) > 0) return;
    sigset_t pending;
    sigpending(&pending);
    for (int s : {SIGINT, SIGTERM, SIGHUP}) {
      if (sigismember(&pending, s)) endWithSignal(s);
    }
  }
}

void writeAll(int fd, kj::ArrayPtr<const char> text) {
  constexpr size_t kStep = 4096;  // PIPE_BUF: the room that poll() promises
  while (text.size() > 0) {
    waitWritable(fd);
    ssize_t n = ::write(fd, text.begin(), kj::min(text.size(), kStep));
    if (n >= 0) {
      text = text.slice(n, text.size());
    } else if (errno == EPIPE) {
      endWithSignal(SIGPIPE);
      _exit(1);
    } else if (errno != EINTR && errno != EAGAIN) {
      if (fd == STDERR_FILENO) return;  // there is no stream left to report to
      KJ_FAIL_SYSCALL("write(stdout)", errno);
    }
  }
}

struct winsize window() {
  struct winsize w = {};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
  return w;
}

}  // namespace

void StandardConsole::write(Stream stream, kj::ArrayPtr<const char> bytes) {
  ++texts;
  int fd = stream == Stream::kOut ? STDOUT_FILENO : STDERR_FILENO;
  if (wantsAscii() && isatty(fd)) return writeAll(fd, asciiText(bytes));
  writeAll(fd, bytes);
}
bool StandardConsole::outIsTerminal() const {
  return isatty(STDOUT_FILENO);
}
bool StandardConsole::errIsTerminal() const {
  return isatty(STDERR_FILENO);
}
bool StandardConsole::canDraw() const {
  return variable("TERM") != "dumb";
}
bool StandardConsole::inIsTerminal() const {
  return isatty(STDIN_FILENO);
}

unsigned StandardConsole::columns() const {
  auto w = window();
  return w.ws_col > 0 ? w.ws_col : 80;
}

unsigned StandardConsole::rows() const {
  auto w = window();
  return w.ws_row > 0 ? w.ws_row : 24;
}

}  // namespace talos::talosctl
