// How long a killed service is away: from kill(2) to the first instruction of the next process's
// main(), as that process reports it (restart-child.cc).
//
//   restart-bench [KILLS]             under our supervision: this program is the brain, with the
//                                     real Supervisor and the socket to the real process 1
//   restart-bench watch NAME KILLS PAUSE   under another supervisor, which starts restart-child
//   with
//                                     RESTART_BENCH=NAME: only kills and reads the clock
//
// Both print {"kills":N,"p50ms":…,"p99ms":…}. Supervisors wait before they restart a service that
// died soon after its start. This wait is not measured: our supervisor gets a clock that runs
// ahead, and another's child runs for PAUSE milliseconds first.
//
// link: machined-services machined-process1 init-harness
#include <errno.h>
#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "machined/process1/init/init-harness.h"
#include "machined/process1/process1-socket.h"
#include "machined/services/supervisor.h"
#include "tests/bench/arguments.h"
#include "tests/bench/processes.h"

namespace talos::machined {
namespace {

using namespace bench;

constexpr int kDeadlineMs = 20'000;
constexpr int kProgramAs = 10;  // restart-child, in a root where no path leads to it

struct Running {
  int pid;  // as seen from here
  int64_t since;
};

// The socket at which every new process of the service announces itself.
class Announcements {
 public:
  explicit Announcements(kj::StringPtr name) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    KJ_REQUIRE(name.size() < sizeof address.sun_path - 1, name);
    memcpy(address.sun_path + 1, name.begin(), name.size());
    auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    int raw, yes = 1;
    KJ_SYSCALL(raw = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    socketFd = kj::AutoCloseFd(raw);
    KJ_SYSCALL(setsockopt(raw, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes));
    KJ_SYSCALL(bind(raw, reinterpret_cast<sockaddr*>(&address), size), name);
  }
  int fd() const { return socketFd.get(); }

  kj::Maybe<Running> take() {
    Running running = {};
    iovec io = {&running.since, sizeof running.since};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    msghdr message = {};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n = recvmsg(fd(), &message, 0);
    if (n < 0 && errno == EAGAIN) return nullptr;
    KJ_REQUIRE(n == sizeof running.since);
    auto* c = CMSG_FIRSTHDR(&message);
    KJ_REQUIRE(c != nullptr && c->cmsg_type == SCM_CREDENTIALS);
    ucred sender;
    memcpy(&sender, CMSG_DATA(c), sizeof sender);
    running.pid = sender.pid;
    return running;
  }

 private:
  kj::AutoCloseFd socketFd;
};

void print(kj::Vector<int64_t>& took) {
  std::sort(took.begin(), took.end());
  printf("{\"kills\":%zu,\"p50ms\":%.3f,\"p99ms\":%.3f}\n", took.size(),
         took[took.size() / 2] / 1e6, took[took.size() * 99 / 100] / 1e6);
}

// --- another's supervision ---

void watch(kj::StringPtr name, unsigned kills, unsigned pauseMs) {
  Announcements announcements(name);
  kj::Vector<int64_t> took;
  int64_t killedAt = 0;
  for (unsigned i = 0; i <= kills; ++i) {
    pollfd p = {announcements.fd(), POLLIN, 0};
    KJ_REQUIRE(poll(&p, 1, kDeadlineMs) == 1, "the service did not come back within 20 s", i);
    auto running = KJ_ASSERT_NONNULL(announcements.take());
    if (i > 0) took.add(running.since - killedAt);
    usleep(pauseMs * 1000);
    killedAt = nanoseconds();
    KJ_SYSCALL(kill(running.pid, SIGKILL));
  }
  print(took);
}

// --- ours ---

ServiceDefinition service(int program, kj::StringPtr socketName) {
  ServiceDefinition d;
  d.id = kj::str("service");
  d.command = kj::str("restart-child");
  d.argv = kj::arr(kj::str("/proc/self/fd/", kProgramAs));
  d.environment = kj::arr(kj::str("RESTART_BENCH=", socketName));
  d.sockets.add(ServiceDefinition::Socket{program, kProgramAs});
  return d;
}

kj::Promise<void> supervise(kj::AsyncIoContext& io, Announcements& announcements,
                            kj::TimerImpl& ahead, unsigned kills, kj::Vector<int64_t>& took) {
  kj::UnixEventPort::FdObserver observer(io.unixEventPort, announcements.fd(),
                                         kj::UnixEventPort::FdObserver::OBSERVE_READ);
  auto& timer = io.provider->getTimer();
  int64_t killedAt = 0;
  for (unsigned i = 0; i <= kills;) {
    auto more = observer.whenBecomesReadable();  // before the check: it is edge-triggered
    KJ_IF_MAYBE (running, announcements.take()) {
      if (i > 0) took.add(running->since - killedAt);
      if (i++ == kills) co_return;
      // The supervisor has the answer to its spawn and is at rest; then its service grows old.
      co_await timer.afterDelay(5 * kj::MILLISECONDS);
      ahead.advanceTo(ahead.now() + 11 * kj::SECONDS);
      killedAt = nanoseconds();
      KJ_SYSCALL(kill(running->pid, SIGKILL));
    } else {
      co_await timer.timeoutAfter(kDeadlineMs * kj::MILLISECONDS, kj::mv(more));
    }
  }
}

void run(unsigned kills) {
  process1::Harness::Options options;
  options.program = besideThis("parts/machined/process1/init/init-test-child").cStr();
  process1::Harness harness(options);
  auto name = kj::str("talos-restart-bench-", getpid());
  Announcements announcements(name);
  auto path = besideThis("restart-child");
  int program;
  KJ_SYSCALL(program = open(path.cStr(), O_RDONLY | O_CLOEXEC), path);
  kj::AutoCloseFd programFd(program);

  auto io = kj::setupAsyncIo();
  SocketProcess1 process1(io.unixEventPort, kj::AutoCloseFd(dup(harness.next().socket)));
  kj::TimerImpl ahead(kj::origin<kj::TimePoint>());
  Supervisor supervisor(Supervisor::Dependencies{
      process1, ahead, kj::systemPreciseCalendarClock(), []() { return 0.5; },
      [](kj::StringPtr) -> kj::Promise<kj::AutoCloseFd> {
        return kj::AutoCloseFd(open("/dev/null", O_WRONLY | O_CLOEXEC));
      },
      [](rpc::ServiceStateEvent::Reader) {}});
  supervisor.load(service(program, name));
  supervisor.start("service");
  kj::Vector<int64_t> took;
  supervise(io, announcements, ahead, kills, took).wait(io.waitScope);
  print(took);
}

}  // namespace
}  // namespace talos::machined

int main(int argc, char** argv) {
  auto usage = "[KILLS] | watch NAME KILLS PAUSE"_kj;
  return talos::bench::runMain(argc, argv, "restart-bench", usage, [](auto& arguments) {
    constexpr unsigned kMostKills = 100'000, kLongestPauseMs = 60'000;
    if (arguments.text(1) == "watch") {
      arguments.expect(4, 4);
      talos::machined::watch(arguments.text(2), arguments.number(3, "KILLS", 1, kMostKills),
                             arguments.number(4, "PAUSE", 0, kLongestPauseMs));
    } else {
      arguments.expect(0, 1);
      talos::machined::run(arguments.numberOr(200, 1, "KILLS", 1, kMostKills));
    }
  });
}
