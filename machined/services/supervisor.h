// Supervises services: starts and restarts them, waits for their conditions, and stops them.
//
// The life of a service is a table of (phase, input) -> (next phase, action), in
// service-lifecycle.h, pure and tested exhaustively; this class does the actions. Each service runs
// under its own uid in its own cgroup, behind the exec wrapper that its definition names, or in a
// container.
//
// After a crash of the brain at any line the successor, which loads the same definitions, adopts
// the children that process 1 still has, and the containers that containerd has, as soon as it
// answers: nothing is restarted, history goes on (it is held by process 1 under "service/<id>"),
// health is asked anew. A service that had been stopped stays stopped, one that was waiting waits
// again, one that was being stopped is stopped. A service that is a part of this program begins
// again.
//
// A request that was answered is carried out: a promise of restart(), signal() and kept() resolves
// when process 1 has done it or holds it as due, and then a successor does it.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/crash/crash-record.h"
#include "machined/process1/process1.h"
#include "machined/services/replaced-program.h"
#include "machined/services/service-instance.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

// Something a service waits for: named as it is shown (file "/etc/x" to exist).
class Condition {
 public:
  virtual ~Condition() noexcept(false) = default;
  virtual kj::String description() const = 0;
  virtual bool met() const = 0;
};

struct HealthCheck {
  kj::Function<kj::Promise<void>()> check;  // rejects with the reason
  kj::Duration delay = 1 * kj::SECONDS, period = 5 * kj::SECONDS, timeout = 500 * kj::MILLISECONDS;
  // The first pause of a service that has not been healthy since its start; each is half as long
  // again as the one before, up to `period`. None: `period` from the beginning.
  kj::Maybe<kj::Duration> starting = nullptr;
};

struct ServiceDefinition {
  kj::String id;
  kj::String command;          // what runs, as events name it
  kj::String task;             // empty, or the name by which scripts look for its start
  kj::Array<kj::String> argv;  // with the exec wrapper in front
  // Asked for at each start of a process; none: no developer is here.
  kj::Maybe<kj::ConstFunction<DebugOrder()>> debugOrder;
  kj::Array<kj::String> environment;
  kj::String cgroup;                 // below /sys/fs/cgroup
  uint64_t memoryMax = 0;            // bytes, of that cgroup; 0: no limit
  kj::Vector<kj::String> dependsOn;  // service ids that must be up
  // Those to which it leaves the processors when all of them are about to start: it waits for them
  // to be up as well, but only for so long, and not for one that is not on its way.
  kj::Vector<kj::String> givesWayTo;
  kj::Duration givesWayFor = 3 * kj::SECONDS;
  // The service waits for these services before its first start, for `waitsAtMost` after its other
  // conditions are met. It does not wait for a service that is not loaded or not started.
  kj::Vector<kj::String> waitsFor;
  kj::Duration waitsAtMost = 30 * kj::SECONDS;
  kj::Vector<kj::Own<Condition>> conditions;
  kj::Maybe<HealthCheck> health;
  // Descriptors that outlive the service (listening sockets), with their numbers in it. The caller
  // keeps them open as long as the supervisor lives.
  struct Socket {
    int fd;
    int as;
  };
  kj::Vector<Socket> sockets;
  // Before each start, also after it has ended by itself: work that may take long. Dropped when the
  // service is stopped meanwhile; a rejection is a start that failed. `note` gets messages for
  // users.
  using Prepare = kj::Function<kj::Promise<void>(kj::Function<void(kj::StringPtr)> note)>;
  kj::Maybe<Prepare> prepare;
  // The same, when all else is ready: the image of a container is there.
  kj::Maybe<Prepare> prepareLast;
  // Behind those of argv, asked for at each start of a process.
  kj::Maybe<kj::ConstFunction<kj::Array<kj::String>()>> arguments;
  // Instead of a process: a part of this program. It runs until it is dropped, which is how it is
  // stopped; when it ends or rejects, it is begun again as a process would be. No successor adopts
  // it: that one begins its own.
  kj::Maybe<kj::Function<kj::Promise<void>()>> part;
  // Instead of a process: a container (service-container.h). It has neither argv nor sockets.
  kj::Maybe<kj::Own<ServiceBody>> body;
  bool awaited = true;  // the boot is not over before it is up
  // Over the API. Who answers the API, or carries it, is not to be stopped by it.
  bool mayBeStarted = true, mayBeStopped = true;
  // The caller may depend on the service: a restart or a signal comes 100 ms after the answer.
  bool carriesApi = false;
};

// The debug switches of services, until the node is rebooted: the level of the log, and whether a
// crash leaves a core. FailedPrecondition for a service that has none.
class DebugSwitches {
 public:
  virtual rpc::LogLevel level(kj::StringPtr service) const = 0;
  virtual void setLevel(kj::StringPtr service, rpc::LogLevel level) = 0;
  virtual bool keepsCores(kj::StringPtr service) const = 0;
  virtual void setKeepsCores(kj::StringPtr service, bool keep) = 0;

 protected:
  ~DebugSwitches() = default;
};

class Supervisor {
 public:
  struct Dependencies {
    Process1& process1;
    kj::Timer& timer;
    const kj::Clock& clock;
    kj::Function<double()> random;  // [0, 1)
    // Where a service's output goes: the writing end of a pipe that process 1 keeps open.
    kj::Function<kj::Promise<kj::AutoCloseFd>(kj::StringPtr id)> output;
    // Every state or health change, at once: the event ring and the console.
    kj::Function<void(rpc::ServiceStateEvent::Reader)> announce;
    // The environment that a service is started with, K=V, made of its definition's at each start.
    // None: just that.
    kj::Maybe<
        kj::Function<kj::Array<kj::String>(kj::StringPtr id, kj::ArrayPtr<const kj::String> own)>>
        environment = nullptr;
    // How many processes of a cgroup the kernel has killed for memory, ever. None: nobody knows.
    kj::Maybe<kj::Function<uint64_t(kj::StringPtr cgroup)>> memoryKills = nullptr;
    // The process of a service is gone: keeps what it wrote about its crash before the next one
    // starts, and returns the id of the report. None: nobody does.
    kj::Maybe<kj::Function<kj::Maybe<kj::String>(kj::StringPtr id)>> crashReport = nullptr;
    // For who sets and shows them. None: there are none.
    kj::Maybe<DebugSwitches&> switches = nullptr;
    // Where the service's program is; none: nobody knows.
    kj::Maybe<kj::Function<kj::Promise<crash::CrashRecord>(kj::StringPtr id)>> stackOf = nullptr;
  };
  // Takes process 1's survivors, and its exits from here on.
  explicit Supervisor(Dependencies deps);
  ~Supervisor() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Supervisor);

  void load(ServiceDefinition definition);  // state Initialized, or what the predecessor left
  // Ends a part at once; it is no service of this machine any more, until it is loaded again, by
  // this brain or the next: then it is as new.
  void unload(kj::StringPtr id, kj::StringPtr problem);
  // Nothing to do when it was started before. One that is stopping is started when it has ended.
  void start(kj::StringPtr id);
  // Stop, then start, whether or not the caller stays.
  kj::Promise<void> restart(kj::StringPtr id);
  // To its process, or the first one of its container; FailedPrecondition when it has none.
  kj::Promise<void> signal(kj::StringPtr id, int number);
  // The service's program as it is now. FailedPrecondition when it does not run.
  kj::Promise<crash::CrashRecord> stackOf(kj::StringPtr id);
  // Counts at the next line of its log.
  void setLogLevel(kj::StringPtr id, rpc::LogLevel level);
  // Counts from the next crash on.
  void setKeepsCores(kj::StringPtr id, bool keep);
  // Resolves when process 1 knows what was decided about it last, so that a successor does it.
  kj::Promise<void> kept(kj::StringPtr id);
  kj::Promise<void> stop(kj::StringPtr id);    // SIGTERM, 10 s, SIGKILL; resolves when it is down
  kj::Promise<void> stopAll();                 // dependants first, <= 30 s for them; for good
  kj::Promise<void> whenUp(kj::StringPtr id);  // rejects when it cannot start at all
  // Resolves when no start of it is under way, whose environment was made before: it has a process,
  // or is to have none yet, because it is still being prepared or waits.
  kj::Promise<void> whenStarted(kj::StringPtr id);
  // Running and healthy, or stopped on request: who waits for it is then let go.
  bool isUp(kj::StringPtr id) const;
  bool isAwaited(kj::StringPtr id) const;
  bool mayBeStarted(kj::StringPtr id) const;  // and restarted
  bool mayBeStopped(kj::StringPtr id) const;

  void fill(kj::StringPtr id, rpc::Service::Builder out) const;  // NotFound
  kj::Vector<kj::String> ids() const;                            // sorted
  // Of those that were started: which is stopped, has failed or fails its checks, and why.
  kj::Vector<kj::String> problems() const;
  void note(kj::StringPtr id, kj::StringPtr message);  // an event of it, in its present state
  // This program itself: state Running, no process of its own to supervise.
  void loadSelf(kj::StringPtr id);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// Starts the services that make the machine reachable, networkd and apid. A node on which a
// developer runs another daemon alone may lack them.
void startApi(Supervisor& supervisor);

}  // namespace talos::machined
