#include "talosctl/cluster/machines/virtual-machine.h"

#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "talosctl/cluster/processes/child-process.h"

namespace talos::cluster {
namespace {

struct Started {
  int pid;
  kj::AutoCloseFd pidfd;
};

Started startQemu(const MachineLaunch& launch, kj::ArrayPtr<const kj::String> arguments,
                  int monitor) {
  auto command = commandLine(launch.qemu, arguments);
  kj::Vector<char*> argv;
  for (auto& argument : command) argv.add(argument.begin());
  argv.add(nullptr);
  auto modules = kj::str("QEMU_MODULE_DIR=", launch.qemu.root, "/usr/lib/x86_64-linux-gnu/qemu");
  char path[] = "PATH=/usr/bin:/bin";
  char* environment[] = {path, modules.begin(), nullptr};
  pid_t parent = getpid();

  pid_t child;
  KJ_SYSCALL(child = fork());
  if (child == 0) {
    // After fork, only plain system calls are safe.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before prctl
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);  // KJ ignores it
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(launch.log, 1);
    dup2(launch.log, 2);
    fcntl(launch.tap, F_SETFD, 0);
    fcntl(monitor, F_SETFD, 0);
    if (chdir(launch.folder.cStr()) != 0) _exit(127);
    execve(argv[0], argv.begin(), environment);
    _exit(127);
  }
  int raw;
  KJ_SYSCALL(raw = syscall(SYS_pidfd_open, child, 0));
  return {child, kj::AutoCloseFd(raw)};
}

constexpr kj::Duration kMonitorAnswer = 5 * kj::SECONDS;

class Guest final : public Instance {
 public:
  Guest(kj::UnixEventPort& port, kj::Timer& timer, Started started,
        kj::Own<kj::AsyncIoStream> monitor)
      : timer(timer),
        process(port, started.pid, kj::mv(started.pidfd)),
        monitor(kj::mv(monitor)),
        negotiated(ask("qmp_capabilities", "{}").eagerlyEvaluate(nullptr)) {}

  int pid() const override { return process.pid(); }

  kj::Promise<End> onEnd() override {
    auto exit = co_await process.onExit();
    bool off = !exit.killed && exit.status == 0;
    if (off && !stopping && co_await lastEventIsReboot()) {
      co_return End{End::Kind::kReboot, kj::str("reboots")};
    }
    co_return End{off ? End::Kind::kOff : End::Kind::kFailed,
                  off ? kj::str("switched off") : kj::str("QEMU ", exit.describe())};
  }

  kj::Promise<void> shutDown() override {
    stopping = true;
    co_await command("set-action", "{\"reboot\":\"shutdown\"}");
    co_await command("send-key",
                     "{\"keys\":[{\"type\":\"qcode\",\"data\":\"ctrl\"},"
                     "{\"type\":\"qcode\",\"data\":\"alt\"},"
                     "{\"type\":\"qcode\",\"data\":\"delete\"}]}");
  }

  void kill() override { process.signal(SIGKILL); }
  void pause() override { process.stop(); }
  void resume() override { process.signal(SIGCONT); }

 private:
  kj::Timer& timer;
  ChildProcess process;
  kj::Own<kj::AsyncIoStream> monitor;
  bool stopping = false;  // the next reboot ends the run
  kj::Vector<char> unread;
  kj::Promise<void> negotiated;  // QEMU sends no events before this

  // Requires that QEMU has exited, so that all its output can be read, up to the end.
  kj::Promise<bool> lastEventIsReboot() {
    try {
      co_await kj::mv(negotiated);
      negotiated = kj::READY_NOW;
      for (;;) {
        auto line = co_await readLine();
        auto has = [&](const char* text) { return strstr(line.cStr(), text) != nullptr; };
        if (has("\"SHUTDOWN\"") && has("\"guest-reset\"")) co_return true;
      }
    } catch (const kj::Exception&) {
      co_return false;
    }
  }

  // Reads until the answer, past the greeting and events: QMP has one object on each line.
  kj::Promise<void> command(kj::StringPtr name, kj::StringPtr arguments) {
    co_await kj::mv(negotiated);
    negotiated = kj::READY_NOW;
    co_await ask(name, arguments);
  }
  kj::Promise<void> ask(kj::StringPtr name, kj::StringPtr arguments) {
    auto request = kj::str("{\"execute\":\"", name, "\",\"arguments\":", arguments, "}\n");
    co_await within(
        timer, kMonitorAnswer, exchange(request),
        kj::str("QEMU did not answer ", name, " within ", kMonitorAnswer / kj::SECONDS, " s"));
  }

  kj::Promise<void> exchange(kj::StringPtr request) {
    co_await monitor->write(request.begin(), request.size());
    for (;;) {
      auto line = co_await readLine();
      if (line.startsWith("{\"return\"")) co_return;
      if (line.startsWith("{\"error\"")) {
        fail(ErrorKind::kInternal, kj::str("QEMU refused ", request, ": ", line));
      }
    }
  }

  kj::Promise<kj::String> readLine() {
    constexpr size_t kLongest = 64 << 10;  // a greeting is a few hundred bytes
    for (;;) {
      for (size_t i = 0; i < unread.size(); ++i) {
        if (unread[i] != '\n') continue;
        auto line = kj::heapString(unread.slice(0, i));
        kj::Vector<char> rest;
        rest.addAll(unread.slice(i + 1, unread.size()));
        unread = kj::mv(rest);
        co_return line;
      }
      char chunk[4096];
      auto n = co_await monitor->tryRead(chunk, 1, sizeof chunk);
      if (n == 0 || unread.size() > kLongest) {
        fail(ErrorKind::kUnavailable, "QEMU has closed its monitor");
      }
      unread.addAll(kj::arrayPtr(chunk, n));
    }
  }
};

}  // namespace

kj::Own<Instance> launchMachine(kj::UnixEventPort& port, kj::LowLevelAsyncIoProvider& lowLevel,
                                kj::Timer& timer, MachineLaunch launch) {
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  kj::AutoCloseFd ours(ends[0]), theirs(ends[1]);
  auto started = startQemu(launch, launch.arguments(theirs.get()), theirs.get());
  return kj::heap<Guest>(
      port, timer, kj::mv(started),
      lowLevel.wrapSocketFd(ours.release(), kj::LowLevelAsyncIoProvider::TAKE_OWNERSHIP |
                                                kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC));
}

}  // namespace talos::cluster
