#include "machined/process1/helpers/kernel-helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr auto kPause = 1 * kj::SECONDS;
constexpr auto kProcSys = "/proc/sys"_kj, kModuleFiles = "/lib/modules"_kj;

bool isThere(kj::StringPtr path) {
  return access(path.cStr(), F_OK) == 0;
}

// Returns true if sysfs shows the module as loaded; many devices need the same one.
bool isLoaded(kj::StringPtr file) {
  auto path = kj::str("/sys/module/", plainModuleName(file), "/initstate");
  int raw = open(path.cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0) return false;
  kj::AutoCloseFd state(raw);
  char text[4] = {};
  return read(state, text, sizeof text) == sizeof text &&
         kj::StringPtr("live") == kj::heapString(text, sizeof text);
}

// Connects the client to a new pair, and returns the helper's end.
kj::AutoCloseFd connect(helper::KernelClient& client) {
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
  client.connect(kj::AutoCloseFd(ends[0]));
  return kj::AutoCloseFd(ends[1]);
}

}  // namespace

kj::Array<kj::String> helperCommand(kj::StringPtr right, const HelperPrograms& programs) {
  bool modules = right == helper::kModules;
  kj::Vector<kj::String> argv;
  argv.add(kj::str(programs.confine));
  argv.add(kj::str("--uid=0"));
  argv.add(kj::str("--capabilities=", modules ? "sys_module,setpcap" : "sys_rawio"));
  argv.add(kj::str("--seccomp=", right));
  argv.add(
      kj::str("--landlock-read=", programs.helper));  // enters a ruleset, whatever paths are below
  if (modules && isThere(kModuleFiles)) argv.add(kj::str("--landlock-read=", kModuleFiles));
  for (auto& each : helper::kParameters) {
    auto path = kj::str(kProcSys, "/", each.path);
    if (each.helper == right && isThere(path)) argv.add(kj::str("--landlock-write=", path));
  }
  for (auto none : {"core", "memlock"}) argv.add(kj::str("--rlimit=", none, "=0"));
  argv.add(kj::str("--rlimit=nofile=32"));
  argv.add(kj::str("--oom-score=-999"));
  argv.add(kj::str("--output=none"));
  argv.add(kj::str("--"));
  argv.add(kj::str(programs.helper));
  argv.add(kj::str(right));
  return argv.releaseAsArray();
}

KernelHelpers::KernelHelpers(Process1& process1, kj::UnixEventPort& port, kj::Timer& timer,
                             kj::Function<void(kj::StringPtr)> say, HelperPrograms programs)
    : process1(process1), port(port), timer(timer), say(kj::mv(say)), programs(programs) {}

kj::Promise<void> KernelHelpers::run() {
  auto both = kj::heapArrayBuilder<kj::Promise<void>>(2);
  both.add(keep(helper::kModules, modules));
  both.add(keep(helper::kRawIo, rawIo));
  return kj::joinPromises(both.finish());
}

// Each start has its own slot, because a helper of an earlier brain may still be finishing its
// call.
kj::Promise<kj::AutoCloseFd> KernelHelpers::start(kj::StringPtr right, unsigned starts,
                                                  int socket) {
  Process1::SpawnRequest request;
  request.slot = kj::str("kernel-helper/", right, "/", process1.brainRestarts(), "-", starts);
  request.argv = helperCommand(right, programs);
  request.passed.add(Process1::SpawnRequest::Passed{socket, helper::kRequestsFd});
  auto started = co_await process1.spawn(kj::mv(request));
  co_return kj::mv(started.pidfd);
}

kj::Promise<void> KernelHelpers::keep(kj::StringPtr right, helper::KernelClient& client) {
  for (unsigned starts = 0;; ++starts) {
    auto end = connect(client);
    kj::Maybe<kj::AutoCloseFd> running;
    kj::String problem;
    co_await start(right, starts, end)
        .then([&](kj::AutoCloseFd&& pidfd) { running = kj::mv(pidfd); },
              [&](kj::Exception&& e) { problem = messageOf(e); });
    end = nullptr;  // only the helper has it, so calls fail when the helper is gone
    KJ_IF_MAYBE (pidfd, running) {
      kj::UnixEventPort::FdObserver gone(port, *pidfd, kj::UnixEventPort::FdObserver::OBSERVE_READ);
      co_await gone.whenBecomesReadable();
      problem = kj::str("it exited");
    }
    say(kj::str("the kernel helper for ", right, ": ", problem, "; retrying"));
    co_await timer.afterDelay(kPause);
  }
}

Modules KernelHelpers::openModules() const {
  return Modules::ofRunningKernel(
      kModuleFiles, [this](kj::StringPtr, kj::StringPtr file, kj::StringPtr parameters) {
        return isLoaded(file) ? EEXIST : modules.insertModule(file, parameters);
      });
}

kj::Maybe<int> KernelHelpers::setParameter(kj::StringPtr path, kj::StringPtr line) const {
  for (auto& each : helper::kParameters) {
    if (each.path != path) continue;
    return (each.helper == helper::kModules ? modules : rawIo).setParameter(path, line);
  }
  return nullptr;
}

}  // namespace talos::machined
