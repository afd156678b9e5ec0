#include "machined/process1/init/machine-shutdown.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

#include "machined/process1/init/init-clock.h"
#include "machined/process1/init/inside-container.h"
#include "machined/process1/init/unmount-all.h"

namespace talos::process1 {
namespace {

constexpr int64_t kKillGraceMs = 5'000;
constexpr int64_t kSayAgainMs = 60'000, kTrialEndsMs = 10'000;

// Returns the next blocked signal within `ms`, or -1.
int nextSignal(int64_t ms) {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGPWR}) sigaddset(&set, number);
  struct timespec wait = {ms / 1000, (ms % 1000) * 1'000'000};
  return sigtimedwait(&set, nullptr, &wait);
}

}  // namespace

void shutDownMachine(unsigned command, int64_t termGraceMs, const Console& console) {
  int64_t started = now();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  if (getpid() == 1) {
    kill(-1, SIGTERM);
    kill(-1, SIGCONT);  // a stopped process cannot end
    if (!reapUntilAlone(termGraceMs)) {
      console.error("some processes did not exit after SIGTERM; killing them");
      int64_t deadline = now() + kKillGraceMs;
      do {
        kill(-1, SIGKILL);
      } while (!reapUntilAlone(200) && now() < deadline);
    }
    // In a container the kernel unmounts the rest when the namespace ends. The file systems below
    // are the host's, and the node must not change them.
    if (!inContainer()) unmountAll(console);
  } else {
    console.error("not process 1: not stopping or unmounting anything");
  }
  console.info("shutting down after ", now() - started, " ms");
  syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, command, nullptr);
  // RESTART and POWER_OFF do not return; if the machine cannot be switched off, it is halted.
  int error = errno;
  // A container that may not call reboot(2) ends all the same, and its launcher still sees the
  // command: the status is what a shell makes of the signals by which reboot(2) ends a pid
  // namespace.
  if (getpid() == 1 && inContainer()) {
    _exit(128 + (command == LINUX_REBOOT_CMD_RESTART ? SIGHUP : SIGINT));
  }
  for (;;) {
    console.error("cannot switch off or reboot the node: ", errorText(error),
                  "; it is safe to switch it off by hand");
    reapUntilAlone(0);
    struct timespec minute = {60, 0};
    nanosleep(&minute, nullptr);
  }
}

unsigned trialSeconds(const char* commandLine) {
  constexpr char kArgument[] = "talos.trial=";
  const char* found = commandLine;
  while ((found = strstr(found, kArgument)) != nullptr) {
    bool whole = found == commandLine || found[-1] == ' ';
    found += sizeof(kArgument) - 1;
    if (whole) return static_cast<unsigned>(strtoul(found, nullptr, 10));
  }
  return 0;
}

unsigned trialSecondsOfCommandLine() {
  static int known = -1;  // read early: /proc is away while the root is changed
  if (known >= 0) return static_cast<unsigned>(known);
  int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[4096];
  ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[size < 0 ? 0 : size] = 0;
  bool ofHost = inContainer() && !hasOwnCommandLine();
  known = ofHost ? 0 : static_cast<int>(trialSeconds(text));
  return static_cast<unsigned>(known);
}

void haltWithError(const Console& console, const char* what, int error) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  if (trialSecondsOfCommandLine() > 0) {
    console.error("fatal: ", what, error == 0 ? "" : ": ", error == 0 ? "" : errorText(error),
                  "; this system is on trial: rebooting into the other in 10 s");
    for (int64_t end = now() + kTrialEndsMs, left; (left = end - now()) > 0;) {
      nextSignal(left);
    }
    shutDownMachine(LINUX_REBOOT_CMD_RESTART, 1000, console);
  }
  for (;;) {
    console.error("fatal: ", what, error == 0 ? "" : ": ", error == 0 ? "" : errorText(error),
                  "; halted (ctrl-alt-del reboots)");
    for (int64_t end = now() + kSayAgainMs, left; (left = end - now()) > 0;) {
      switch (nextSignal(left)) {
        case SIGINT:
          shutDownMachine(LINUX_REBOOT_CMD_RESTART, 1000, console);
        case SIGTERM:
        case SIGPWR:
          shutDownMachine(LINUX_REBOOT_CMD_POWER_OFF, 1000, console);
        default:
          while (waitpid(-1, nullptr, WNOHANG) > 0) {
          }
      }
    }
  }
}

}  // namespace talos::process1
