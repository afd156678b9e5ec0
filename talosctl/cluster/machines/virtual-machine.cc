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
#include "talosctl/cluster/disks/node-disks.h"
#include "talosctl/cluster/processes/child-process.h"
#include "tests/disks/disk-process.h"

namespace talos::cluster {
namespace {

struct Started {
  int pid;
  kj::AutoCloseFd pidfd;
};

kj::Array<kj::AutoCloseFd> openAll(kj::ArrayPtr<const kj::String> paths) {
  return KJ_MAP(path, paths) {
    int fd;
    int access = isWriteProtected(path) ? O_RDONLY : O_RDWR;
    KJ_SYSCALL(fd = open(path.cStr(), access | O_CLOEXEC), path);
    return kj::AutoCloseFd(fd);
  };
}

Started startQemu(const MachineLaunch& launch, kj::ArrayPtr<const kj::String> arguments,
                  int monitor, kj::ArrayPtr<const kj::AutoCloseFd> disks) {
  auto words = commandLine(launch.qemu, arguments);
  kj::Vector<char*> argv;
  for (auto& word : words) argv.add(word.begin());
  argv.add(nullptr);
  auto modules = kj::str("QEMU_MODULE_DIR=", launch.qemu.root, "/usr/lib/x86_64-linux-gnu/qemu");
  char path[] = "PATH=/usr/bin:/bin";
  char* environment[] = {path, modules.begin(), nullptr};
  pid_t parent = getpid();

  pid_t child;
  KJ_SYSCALL(child = fork());
  if (child == 0) {
    // Only what is safe after fork: plain system calls.
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
    for (auto& disk : disks) fcntl(disk, F_SETFD, 0);
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
        kj::Own<kj::AsyncIoStream> monitor, kj::Own<disk::DiskProcess> held)
      : timer(timer),
        disks(kj::mv(held)),
        process(port, started.pid, kj::mv(started.pidfd)),
        monitor(kj::mv(monitor)),
        cut(disks->onCut()
                .then(
                    [this](disk::Cut how) {
                      withoutDisks = End{End::Kind::kOff, kj::str("power cut")};
                      kill();
                      return how;
                    },
                    [this](kj::Exception&& e) -> disk::Cut {
                      // Otherwise their process has ended, and it is told next how.
                      if (e.getType() != kj::Exception::Type::DISCONNECTED) {
                        withoutDisks = End{End::Kind::kFailed, messageOf(e)};
                        kill();
                      }
                      kj::throwFatalException(kj::mv(e));
                    })
                .fork()),
        broken(disks->onExit()
                   .then([this](Exit exit) {
                     withoutDisks = End{End::Kind::kFailed,
                                        kj::str("the process of its disks ", exit.describe())};
                     kill();
                   })
                   .eagerlyEvaluate(nullptr)),
        negotiated(ask("qmp_capabilities", "{}").eagerlyEvaluate(nullptr)) {}

  int pid() const override { return process.pid(); }

  kj::Promise<End> onEnd() override {
    auto exit = co_await process.onExit();
    KJ_IF_MAYBE (end, withoutDisks) co_return kj::mv(*end);
    bool off = !exit.killed && exit.status == 0;
    if (off && !stopping && co_await lastWordsAreReboot()) {
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
  // The answer may come either way; whichever it is, the machine ends.
  kj::Promise<disk::Cut> cutPower(uint64_t atWrite, uint64_t seed) override {
    return disks->cut(atWrite, seed).exclusiveJoin(cut.addBranch());
  }
  kj::Promise<disk::MachineDisks::Recording> record(disk::RecordRequest wish) override {
    return disks->record(kj::mv(wish));
  }
  void pause() override { process.stop(); }
  void resume() override { process.signal(SIGCONT); }

 private:
  kj::Timer& timer;
  kj::Own<disk::DiskProcess> disks;
  ChildProcess process;
  kj::Own<kj::AsyncIoStream> monitor;
  kj::Maybe<End> withoutDisks;  // how it ends for the lack of them
  kj::ForkedPromise<disk::Cut> cut;
  kj::Promise<void> broken;
  bool stopping = false;  // the reboot that comes is to be the end
  kj::Vector<char> unread;
  kj::Promise<void> negotiated;  // before that QEMU tells nothing

  // QEMU has exited, so all that it said is there, up to the end.
  kj::Promise<bool> lastWordsAreReboot() {
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

  // Until the answer, over the greeting and events: QMP has one object on each line.
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
  auto disks = disk::DiskProcess::launch(port, lowLevel, launch.name, openAll(launch.disks));
  auto clients = disks->takeClients();
  auto started = startQemu(launch, launch.arguments(theirs.get(), clients), theirs.get(), clients);
  return kj::heap<Guest>(
      port, timer, kj::mv(started),
      lowLevel.wrapSocketFd(ours.release(), kj::LowLevelAsyncIoProvider::TAKE_OWNERSHIP |
                                                kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC),
      kj::mv(disks));
}

}  // namespace talos::cluster
