// Supervises services: starts and restarts them, waits for their conditions, and stops them.
//
// The life of a service is a table of (phase, input) -> (next phase, action), in
// service-lifecycle.h, pure and tested exhaustively; this class does the actions. Each service runs
// under its own uid in its own cgroup, started by the exec wrapper that its definition names, or in
// a container.
//
// After a crash of the brain at any line the successor, which loads the same definitions, adopts
// the children that process 1 still has, and the containers that containerd has, as soon as
// containerd answers: nothing is restarted, the history continues (process 1 holds it under
// "service/<id>"), and health is checked again. A service that had been stopped stays stopped, one
// that was waiting waits again, one that was being stopped is stopped. A service that is a part of
// this program starts again.
//
// A request that was answered is carried out: a promise of restart(), signal() and kept() resolves
// when process 1 has done the request or holds it as due; in the second case a successor does it.
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

// A condition that a service waits for: named as it is shown (file "/etc/x" to exist).
class Condition {
 public:
  virtual ~Condition() noexcept(false) = default;
  virtual kj::String description() const = 0;
  virtual bool met() const = 0;
};

struct HealthCheck {
  kj::Function<kj::Promise<void>()> check;  // rejects with the reason
  kj::Duration delay = 1 * kj::SECONDS, period = 5 * kj::SECONDS, timeout = 500 * kj::MILLISECONDS;
  // The first pause after a bad check; each further one in a row is half as long again, up to
  // `period`. So a service that starts is up, and one that failed for a moment is healthy again,
  // soon after it is. nullptr: always `period`.
  kj::Maybe<kj::Duration> retry = nullptr;
};

constexpr auto kWaitsAtMost = 30 * kj::SECONDS;

// Says which end of a service by itself leads to a new start.
enum class ServiceRestart {
  kAlways,
  kUntilSuccess,  // an end with another exit status than 0
  kNever,
};

struct ServiceDefinition {
  kj::String id;
  kj::String command;          // program name in events
  kj::String task;             // empty, or the name that scripts search for its start
  kj::Array<kj::String> argv;  // with the exec wrapper first
  // Called at each start of a process; nullptr on a node without a developer.
  kj::Maybe<kj::ConstFunction<DebugOrder()>> debugOrder;
  kj::Array<kj::String> environment;
  kj::String cgroup;                 // below /sys/fs/cgroup
  uint64_t memoryMax = 0;            // bytes, of this cgroup; 0: no limit
  kj::Vector<kj::String> dependsOn;  // service ids that must be up
  // Services that get the processors first if all of them are about to start: this service also
  // waits until they are up, but only for a limited time, and not for a service that is not being
  // started.
  kj::Vector<kj::String> givesWayTo;
  kj::Duration givesWayFor = 3 * kj::SECONDS;
  // The service waits for these services before its first start, for waitsAtMost() after its other
  // conditions are met. It does not wait for a service that is not loaded or not started.
  kj::Vector<kj::String> waitsFor;
  kj::ConstFunction<kj::Duration()> waitsAtMost = [] { return kWaitsAtMost; };
  kj::Vector<kj::Own<Condition>> conditions;
  kj::Maybe<HealthCheck> health;
  // Descriptors that outlive the service (listening sockets), with their numbers in the service.
  // The caller keeps them open as long as the supervisor lives.
  struct Socket {
    int fd;
    int as;
  };
  kj::Vector<Socket> sockets;
  // Runs before each start, also after the service has ended by itself: work that may take long.
  // Dropped if the service is stopped meanwhile; a rejection counts as a failed start. `note` gets
  // messages for users.
  using Prepare = kj::Function<kj::Promise<void>(kj::Function<void(kj::StringPtr)> note)>;
  kj::Maybe<Prepare> prepare;
  // The same, after all other preparation: the image of a container is available.
  kj::Maybe<Prepare> prepareLast;
  // Arguments after those of argv; called at each start of a process.
  kj::Maybe<kj::ConstFunction<kj::Array<kj::String>()>> arguments;
  // A part of this program, instead of a process. It runs until its promise is dropped, which is
  // how it is stopped; if it ends or rejects, it is started again as a process would be. A
  // successor does not adopt it, but starts its own.
  kj::Maybe<kj::Function<kj::Promise<void>()>> part;
  // A container, instead of a process (service-container.h). It has neither argv nor sockets.
  kj::Maybe<kj::Own<ServiceBody>> body;
  bool awaited = true;  // the boot ends only when it is up
  ServiceRestart restart = ServiceRestart::kAlways;
  // Rights of the API. The API must not stop a service that answers or carries API calls.
  bool mayBeStarted = true, mayBeStopped = true;
  // The caller may depend on the service: a restart or a signal comes 100 ms after the answer.
  bool carriesApi = false;
};

// The debug switches of services, until the node is rebooted: the level of the log, and if a crash
// leaves a core. Throws FailedPrecondition for a service without them.
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
    // Returns the destination of a service's output: the write end of a pipe that process 1 keeps
    // open.
    kj::Function<kj::Promise<kj::AutoCloseFd>(kj::StringPtr id)> output;
    // Announces every change of state or health, at once, to the event ring and the console.
    kj::Function<void(rpc::ServiceStateEvent::Reader)> announce;
    // Makes the environment of a service, K=V, from its definition's at each start. nullptr: the
    // definition's environment.
    kj::Maybe<
        kj::Function<kj::Array<kj::String>(kj::StringPtr id, kj::ArrayPtr<const kj::String> own)>>
        environment = nullptr;
    // Returns how many processes of a cgroup the kernel has ever killed for memory. nullptr if
    // there is no count.
    kj::Maybe<kj::Function<uint64_t(kj::StringPtr cgroup)>> memoryKills = nullptr;
    // Called after the exit of a service's process: stores the process's crash output before the
    // next process starts, and returns the ID of the report. nullptr: crash output is not stored.
    kj::Maybe<kj::Function<kj::Maybe<kj::String>(kj::StringPtr id)>> crashReport = nullptr;
    // Debug switches that clients set and see. nullptr: there are no switches.
    kj::Maybe<DebugSwitches&> switches = nullptr;
    // Returns the stack of the service's program; nullptr if stacks cannot be read.
    kj::Maybe<kj::Function<kj::Promise<crash::CrashRecord>(kj::StringPtr id)>> stackOf = nullptr;
  };
  // Takes process 1's survivors, and from now on its exits.
  explicit Supervisor(Dependencies deps);
  ~Supervisor() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Supervisor);

  void load(ServiceDefinition definition);  // state Initialized, or the predecessor's state
  // Ends a part at once. The part is not a service of this machine any more, until this brain or
  // the next loads it again: then it is new.
  void unload(kj::StringPtr id, kj::StringPtr problem);
  // Does nothing if the service was started before. A service that is stopping is started when it
  // has ended.
  void start(kj::StringPtr id);
  // Stops, then starts the service, even if the caller disconnects.
  kj::Promise<void> restart(kj::StringPtr id);
  // Signals the service's process, or the first process of its container; throws FailedPrecondition
  // if it has no process.
  kj::Promise<void> signal(kj::StringPtr id, int number);
  // Returns the present stack of the service's program. Throws FailedPrecondition if it does not
  // run.
  kj::Promise<crash::CrashRecord> stackOf(kj::StringPtr id);
  // Takes effect with the next line of its log.
  void setLogLevel(kj::StringPtr id, rpc::LogLevel level);
  // Takes effect with the next crash.
  void setKeepsCores(kj::StringPtr id, bool keep);
  // Resolves when process 1 knows the last decision about the service, so that a successor carries
  // it out.
  kj::Promise<void> kept(kj::StringPtr id);
  kj::Promise<void> stop(kj::StringPtr id);    // SIGTERM, 10 s, SIGKILL; resolves when it is down
  kj::Promise<void> stopAll();                 // dependants first, <= 30 s for them; permanent
  kj::Promise<void> whenUp(kj::StringPtr id);  // rejects if it cannot start at all
  // Resolves when no start with an earlier environment is under way: the service has a process, or
  // has no process yet because it is being prepared or waits.
  kj::Promise<void> whenStarted(kj::StringPtr id);
  // Returns true if the service is running and healthy, or stopped on request: then its dependants
  // need not wait.
  bool isUp(kj::StringPtr id) const;
  bool isAwaited(kj::StringPtr id) const;
  bool mayBeStarted(kj::StringPtr id) const;  // and restarted
  bool mayBeStopped(kj::StringPtr id) const;

  void fill(kj::StringPtr id, rpc::Service::Builder out) const;  // NotFound
  kj::Vector<kj::String> ids() const;                            // sorted
  // Returns the problems of services that were started: which service is stopped, has failed or
  // fails its checks, and why.
  kj::Vector<kj::String> problems() const;
  void note(kj::StringPtr id, kj::StringPtr message);  // adds an event in its present state
  // Loads this program itself: state Running, without a process to supervise.
  void loadSelf(kj::StringPtr id);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// Starts the services that make the machine reachable, networkd and apid. A node on which a
// developer runs a single other daemon may lack them.
void startApi(Supervisor& supervisor);

}  // namespace talos::machined
