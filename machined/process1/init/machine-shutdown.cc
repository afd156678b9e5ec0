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

namespace talos::process1 {
namespace {

constexpr int64_t kKillGraceMs = 5'000;
constexpr int64_t kUnmountGraceMs = 30'000;
constexpr int64_t kSayAgainMs = 60'000, kTrialEndsMs = 10'000;

// The next blocked signal within `ms`, or -1.
int nextSignal(int64_t ms, bool onlyChildren) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  if (!onlyChildren) {
    for (int number : {SIGINT, SIGTERM, SIGPWR}) sigaddset(&set, number);
  }
  struct timespec wait = {ms / 1000, (ms % 1000) * 1'000'000};
  return sigtimedwait(&set, nullptr, &wait);
}

// True once no process but this one is left: every orphan is a child of process 1.
bool reapUntilAlone(int64_t ms) {
  int64_t deadline = now() + ms;
  for (;;) {
    pid_t pid = waitpid(-1, nullptr, WNOHANG);
    if (pid > 0) continue;
    if (pid < 0 && errno == ECHILD) return true;
    int64_t left = deadline - now();
    if (left <= 0) return false;
    nextSignal(left < 100 ? left : 100, true);
  }
}

// One line of mountinfo, taken apart in place.
struct Mount {
  char* target;
  const char* type;
  const char* source;
};

void unescape(char* text) {
  char* out = text;
  for (char* in = text; *in != 0; ++in, ++out) {
    if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' &&
        in[3] >= '0' && in[3] <= '7') {
      *out = static_cast<char>((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
      in += 3;
    } else {
      *out = *in;
    }
  }
  *out = 0;
}

bool parseMount(char* line, Mount& mount) {
  // id parent major:minor root target options... - type source super-options
  char* fields[32];
  unsigned count = 0, dash = 0;
  for (char* p = strtok_r(line, " ", &line); p != nullptr && count < 32;
       p = strtok_r(nullptr, " ", &line)) {
    if (count > 5 && dash == 0 && strcmp(p, "-") == 0) dash = count;
    fields[count++] = p;
  }
  if (dash == 0 || dash + 2 >= count) return false;
  mount.target = fields[4];
  mount.type = fields[dash + 1];
  mount.source = fields[dash + 2];
  unescape(mount.target);
  return true;
}

bool staysMounted(const Mount& mount) {
  for (const char* type : {"proc", "sysfs", "devtmpfs", "devpts", "cgroup2", "rootfs", "ramfs"}) {
    if (strcmp(mount.type, type) == 0) return true;
  }
  return strcmp(mount.target, "/") == 0;
}

// Newest first; what is busy is made read-only, so that it is whole on the disk. Runs in a child: a
// dead disk can hang any of these calls.
void unmountAll(const Console& console) {
  static char table[256 * 1024];
  static char* lines[4096];
  int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
  size_t used = 0;
  ssize_t size;
  while (fd >= 0 && used < sizeof(table) - 1 &&
         (size = read(fd, table + used, sizeof(table) - 1 - used)) > 0) {
    used += static_cast<size_t>(size);
  }
  table[used] = 0;
  unsigned count = 0;
  char* rest = table;
  for (char* line; count < 4096 && (line = strtok_r(rest, "\n", &rest)) != nullptr;) {
    lines[count++] = line;
  }
  while (count > 0) {
    Mount mount;
    if (!parseMount(lines[--count], mount) || staysMounted(mount)) continue;
    if (umount2(mount.target, UMOUNT_NOFOLLOW) == 0 || strncmp(mount.source, "/dev/", 5) != 0) {
      continue;
    }
    int error = errno;
    if (::mount(nullptr, mount.target, nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      console.error("cannot unmount ", static_cast<const char*>(mount.target), ": ",
                    errorText(error));
    }
  }
  sync();
}

void unmountWithLimit(const Console& console) {
  pid_t pid = fork();
  if (pid == 0) {
    unmountAll(console);
    _exit(0);
  }
  if (pid < 0) {
    console.error("cannot start unmounting: ", errorText(errno));
  } else if (!reapUntilAlone(kUnmountGraceMs)) {
    console.error("unmounting and syncing timed out after 30 s; shutting down anyway");
  }
}

}  // namespace

void goDown(unsigned command, int64_t termGraceMs, const Console& console) {
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
    // In a container the kernel unmounts what is left when the namespace goes. What lies below are
    // the host's file systems: there is nothing that this node could do to them on its way out.
    if (!inContainer()) unmountWithLimit(console);
  } else {
    console.error("not process 1: not stopping or unmounting anything");
  }
  console.info("shutting down after ", now() - started, " ms");
  syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, command, nullptr);
  // RESTART and POWER_OFF do not return; if there is nothing that could switch it off, halting is
  // next.
  int error = errno;
  // A container that may not call it ends all the same, and its launcher still sees which it was:
  // what a shell makes of the signals that reboot(2) ends a pid namespace with.
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
  static int known = -1;  // asked for early: /proc is away while the root is changed
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

void stayForEver(const Console& console, const char* what, int error) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  if (trialSecondsOfCommandLine() > 0) {
    console.error("fatal: ", what, error == 0 ? "" : ": ", error == 0 ? "" : errorText(error),
                  "; this system is on trial: rebooting into the other in 10 s");
    for (int64_t end = now() + kTrialEndsMs, left; (left = end - now()) > 0;) {
      nextSignal(left, false);
    }
    goDown(LINUX_REBOOT_CMD_RESTART, 1000, console);
  }
  for (;;) {
    console.error("fatal: ", what, error == 0 ? "" : ": ", error == 0 ? "" : errorText(error),
                  "; halted (ctrl-alt-del reboots)");
    for (int64_t end = now() + kSayAgainMs, left; (left = end - now()) > 0;) {
      switch (nextSignal(left, false)) {
        case SIGINT:
          goDown(LINUX_REBOOT_CMD_RESTART, 1000, console);
        case SIGTERM:
        case SIGPWR:
          goDown(LINUX_REBOOT_CMD_POWER_OFF, 1000, console);
        default:
          while (waitpid(-1, nullptr, WNOHANG) > 0) {
          }
      }
    }
  }
}

}  // namespace talos::process1
