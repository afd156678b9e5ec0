// A screen on a pseudo terminal, in a job of a session that stands for a shell.
#include "talosctl/cli/terminal-screen.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "common/screen/drawn-text.h"
#include "talosctl/cli/standard-console.h"

namespace talos::talosctl {
namespace {

constexpr int kDeadlineMs = 30'000;

// Stands for a command: shows a picture until `q`.
void showPicture() {
  auto io = kj::setupAsyncIo();
  StandardConsole console;
  Dependencies deps{.lowLevel = *io.lowLevelProvider,
                    .port = io.unixEventPort,
                    .timer = io.provider->getTimer(),
                    .clock = kj::systemPreciseCalendarClock(),
                    .console = console,
                    .environment = [](kj::StringPtr) -> kj::Maybe<kj::String> { return nullptr; }};
  TerminalScreen screen(deps, Colors::kNone);
  Canvas canvas(2, 20);
  canvas.put(0, 0, "picture");
  screen.show(kj::mv(canvas));
  for (;;) {
    for (char key : screen.typed().wait(io.waitScope)) {
      if (key == 'q') return;
    }
  }
}

[[noreturn]] void runJob(int terminal) {
  setpgid(0, 0);
  signal(SIGTTOU, SIG_IGN);
  tcsetpgrp(terminal, getpid());
  signal(SIGTTOU, SIG_DFL);
  for (int fd = 0; fd < 3; ++fd) dup2(terminal, fd);
  showPicture();
  _exit(0);
}

bool isRestored(int terminal) {
  struct termios now;
  if (tcgetattr(terminal, &now) != 0) return false;
  constexpr tcflag_t kUsual = ICANON | ECHO;
  return (now.c_lflag & kUsual) == kUsual && (fcntl(terminal, F_GETFL) & O_NONBLOCK) == 0;
}

// Reports each stop of the job, 's' if the terminal is restored then and 'x' if not, and its end
// ('e' or 'f'). Continues the job for each byte on `commands`.
[[noreturn]] void runShell(const char* path, int reports, int commands) {
  setsid();
  int terminal = open(path, O_RDWR);
  pid_t job = fork();
  if (job == 0) runJob(terminal);
  for (;;) {
    int status = 0;
    if (waitpid(job, &status, WUNTRACED) != job) _exit(1);
    char report = WIFSTOPPED(status) ? isRestored(terminal) ? 's' : 'x'
                  : WIFEXITED(status) && WEXITSTATUS(status) == 0 && isRestored(terminal) ? 'e'
                                                                                          : 'f';
    if (write(reports, &report, 1) != 1 || !WIFSTOPPED(status)) _exit(0);
    char command;
    if (read(commands, &command, 1) != 1) _exit(1);
    signal(SIGTTOU, SIG_IGN);
    tcsetpgrp(terminal, job);
    kill(job, SIGCONT);
  }
}

int64_t nowMs() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

struct TerminalSession {
  int master, reports, commands;
  pid_t shell;
  std::string text;  // written to the terminal and not consumed by until()

  TerminalSession() {
    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    KJ_ASSERT(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    char path[64];
    KJ_ASSERT(ptsname_r(master, path, sizeof(path)) == 0);
    struct winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(master, TIOCSWINSZ, &size);
    int up[2], down[2];
    KJ_SYSCALL(pipe2(up, O_CLOEXEC));
    KJ_SYSCALL(pipe2(down, O_CLOEXEC));
    KJ_SYSCALL(shell = fork());
    if (shell == 0) {
      close(up[0]), close(down[1]), close(master);
      runShell(path, up[1], down[0]);
    }
    close(up[1]), close(down[0]);
    reports = up[0], commands = down[1];
  }
  ~TerminalSession() noexcept {
    close(master), close(reports), close(commands);  // the hang-up ends the job
    waitpid(shell, nullptr, 0);
  }
  // Reads from the terminal until the text has come. Returns what preceded it; fails after the
  // deadline.
  std::string until(kj::StringPtr wanted) {
    auto end = nowMs() + kDeadlineMs;
    for (;;) {
      auto at = text.find(wanted.cStr());
      if (at != std::string::npos) {
        auto before = text.substr(0, at);
        text.erase(0, at + wanted.size());
        return before;
      }
      struct pollfd wait = {.fd = master, .events = POLLIN, .revents = 0};
      char bytes[4096];
      auto left = end - nowMs();
      ssize_t n =
          left > 0 && poll(&wait, 1, int(left)) == 1 ? read(master, bytes, sizeof(bytes)) : 0;
      if (n <= 0) {
        ADD_FAILURE() << "\"" << wanted.cStr() << "\" was not written; instead: " << text;
        return text;
      }
      text.append(bytes, n);
    }
  }
  char report() {
    struct pollfd wait = {.fd = reports, .events = POLLIN, .revents = 0};
    char byte = 0;
    return poll(&wait, 1, kDeadlineMs) == 1 && read(reports, &byte, 1) == 1 ? byte : '-';
  }
  void type(char key) { KJ_ASSERT(write(master, &key, 1) == 1); }
  void resume() { KJ_ASSERT(write(commands, "c", 1) == 1); }
};

// Catches: a shell that gets the terminal without echo, in the alternate screen or non-blocking; a
// screen that is empty or has the shell's text after `fg`.
TEST(TerminalScreen, AStopRestoresTheTerminalAndContinuingDrawsAgain) {
  auto enters = kj::str(DrawnText().enterScreen().asPtr());
  auto leaves = kj::str(DrawnText().leaveScreen().asPtr());
  constexpr char kSuspend = 'Z' - '@';
  TerminalSession session;
  session.until(enters);
  session.until("picture");
  for (int round = 0; round < 2; ++round) {
    session.type(kSuspend);
    ASSERT_EQ(session.report(), 's');
    session.until(leaves);
    session.resume();
    session.until(enters);
    session.until("picture");
  }
  session.type('q');
  EXPECT_EQ(session.report(), 'e');
}

}  // namespace
}  // namespace talos::talosctl
