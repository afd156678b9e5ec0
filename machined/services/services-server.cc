#include "machined/services/services-server.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/fill-list.h"

namespace talos::machined {
namespace {

class ServicesServer final : public rpc::Services::Server {
 public:
  ServicesServer(Supervisor& supervisor, kj::Maybe<CrashArchive&> crashes)
      : supervisor(supervisor), crashes(crashes) {}

  kj::Promise<void> list(ListContext context) override {
    auto ids = supervisor.ids();
    auto out = context.getResults().initServices(ids.size());
    for (size_t i = 0; i < ids.size(); i++) supervisor.fill(ids[i], out[i]);
    return kj::READY_NOW;
  }

  kj::Promise<void> start(StartContext context) override {
    auto id = kj::heapString(context.getParams().getId());
    if (!supervisor.mayBeStarted(id)) refuse(id, "start");
    supervisor.start(id);
    co_await supervisor.kept(id);
    context.getResults().setResponse(kj::str("Service \"", id, "\" started"));
  }

  kj::Promise<void> stop(StopContext context) override {
    auto id = kj::heapString(context.getParams().getId());
    if (!supervisor.mayBeStopped(id)) refuse(id, "stop");
    co_await supervisor.stop(id);
    context.getResults().setResponse(kj::str("Service \"", id, "\" stopped"));
  }

  kj::Promise<void> restart(RestartContext context) override {
    auto id = kj::heapString(context.getParams().getId());
    if (!supervisor.mayBeStarted(id)) refuse(id, "restart");
    co_await supervisor.restart(id);
    context.getResults().setResponse(kj::str("Service \"", id, "\" restarted"));
  }

  kj::Promise<void> kill(KillContext context) override {
    auto params = context.getParams();
    if (params.getSignal() < 1 || params.getSignal() > SIGRTMAX) {
      fail(ErrorKind::kInvalidArgument,
           kj::str(params.getSignal(), " is not a valid signal; must be 1 to ", SIGRTMAX));
    }
    refuseToStop(params.getSignal());
    return supervisor.signal(params.getId(), params.getSignal());
  }

  kj::Promise<void> stack(StackContext context) override {
    auto record = co_await supervisor.stackOf(context.getParams().getId());
    auto out = context.getResults().initStack();
    out.setProgram(record.program);
    out.setBuildId(record.buildId);
    out.setPid(record.pid);
    fillTexts(out.initFrames(record.frames.size()), record.frames);
    std::sort(record.waits.begin(), record.waits.end(),
              [](auto& a, auto& b) { return a.ms > b.ms; });
    auto waits = out.initWaits(record.waits.size());
    for (auto i : kj::indices(record.waits)) {
      waits[i].setSinceMs(record.waits[i].ms);
      waits[i].setText(record.waits[i].text);
    }
  }

  kj::Promise<void> setLogLevel(SetLogLevelContext context) override {
    auto id = kj::heapString(context.getParams().getId());
    supervisor.setLogLevel(id, context.getParams().getLevel());
    return supervisor.kept(id);
  }

  kj::Promise<void> keepCores(KeepCoresContext context) override {
    auto id = kj::heapString(context.getParams().getId());
    supervisor.setKeepsCores(id, context.getParams().getKeep());
    return supervisor.kept(id);
  }

  kj::Promise<void> core(CoreContext context) override {
    auto bytes =
        co_await archive(context.getParams().getReport()).core(context.getParams().getReport());
    context.getResults().setCore(bytes);
  }

  kj::Promise<void> removeCrash(RemoveCrashContext context) override {
    return archive(context.getParams().getReport()).remove(context.getParams().getReport());
  }

 private:
  Supervisor& supervisor;
  kj::Maybe<CrashArchive&> crashes;

  CrashArchive& archive(kj::StringPtr report) {
    KJ_IF_MAYBE (a, crashes) return *a;
    fail(ErrorKind::kNotFound, kj::str("there is no crash report \"", report, "\""));
  }

  // A stopped machined or apid could never get the SIGCONT that it needs to continue.
  static void refuseToStop(int number) {
    for (auto& stops : {std::pair(SIGSTOP, "SIGSTOP"_kj), std::pair(SIGTSTP, "SIGTSTP"_kj),
                        std::pair(SIGTTIN, "SIGTTIN"_kj), std::pair(SIGTTOU, "SIGTTOU"_kj)}) {
      if (number != stops.first) continue;
      fail(ErrorKind::kInvalidArgument,
           kj::str(stops.second, " would suspend the service, which nothing resumes; use SIGTERM ",
                   "or SIGKILL, or stop the service"));
    }
  }

  [[noreturn]] void refuse(kj::StringPtr id, kj::StringPtr action) {
    kj::Vector<kj::String> allowed;
    for (auto& other : supervisor.ids()) {
      bool may = action == "stop" ? supervisor.mayBeStopped(other) : supervisor.mayBeStarted(other);
      if (may) allowed.add(kj::str(other));
    }
    fail(ErrorKind::kFailedPrecondition,
         kj::str("service \"", id, "\" does not support ", action, " over the API; ",
                 allowed.empty() ? kj::str("no service of this node does")
                                 : kj::str("services that do: ", kj::strArray(allowed, ", "))));
  }
};

}  // namespace

rpc::Services::Client serveServices(Supervisor& supervisor, kj::Maybe<CrashArchive&> crashes) {
  return kj::heap<ServicesServer>(supervisor, crashes);
}

}  // namespace talos::machined
