// One service: its place in the table of service-lifecycle.h, and the actions of the table. Part of
// supervisor.h, which has the promises to users and is the only user of this class.
//
// The promises of a service are in its own slots and in the task set of all services, which must be
// destroyed before the services. A waiting task holds a reference to its service, because the
// service may be unloaded meanwhile.
#pragma once

#include <kj/refcount.h>

#include "machined/process1/value-in-memory-file.h"
#include "machined/services/service-lifecycle.h"
#include "machined/services/service-process.h"
#include "machined/services/service-record.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

// All services, as a single service sees them.
class ServiceSet {
 public:
  virtual Supervisor::Dependencies& deps() = 0;
  virtual kj::TaskSet& tasks() = 0;
  virtual void failed(kj::Exception&& e) = 0;  // reports a failure of background work
  virtual bool closed() const = 0;             // true if nothing may be started any more
  virtual bool isUp(kj::StringPtr id) const = 0;
  virtual bool isStarting(kj::StringPtr id) const = 0;  // not up, but started
  virtual kj::Promise<void> change() = 0;               // resolves when a service has changed
  virtual void changed() = 0;

 protected:
  ~ServiceSet() = default;
};

class Service : public kj::Refcounted {
 public:
  Service(ServiceSet& all, ServiceDefinition definition);
  KJ_DISALLOW_COPY_AND_MOVE(Service);

  // Restores the state that the predecessor left, and adopts its process, if any. Called once, at
  // first.
  void recover(kj::ArrayPtr<const Process1::Survivor> survivors);
  // Called instead of recover() if the service is this program.
  void markAsSelf();

  void start();
  // The methods with a promise resolve when process 1 knows of the request.
  kj::Promise<void> restart();
  kj::Promise<void> stop();
  void unload(kj::StringPtr problem);
  kj::Promise<void> signal(int number);
  int runningPid() const { return pid; }
  kj::Promise<void> kept();
  void exited(Process1::Exit exit);  // exit of a child in its slot

  void note(kj::StringPtr message) { addEvent(message); }

  kj::StringPtr id() const { return is.id; }
  const ServiceDefinition& definition() const { return is; }
  bool isSelf() const { return self; }
  bool isUp() const;
  bool isDown() const { return machined::isDown(phase); }
  // Returns true if the environment is made, and the process may not exist yet.
  bool isBeingStarted() const {
    return phase == ServicePhase::kStarting || (phase == ServicePhase::kRestarting && !preparing);
  }
  bool cannotBe() const { return phase == ServicePhase::kFailed || unloaded; }
  kj::StringPtr lastMessage() const { return record.lastMessage(); }
  void fill(rpc::Service::Builder out) const;

 private:
  ServiceSet& all;
  ServiceDefinition is;
  kj::Own<ServiceBody> body;  // unused for a part and for this program itself
  kj::Maybe<ChildBody&> child;
  bool self = false;
  bool again = false;  // start once it is down
  bool unloaded = false;
  ServicePhase phase = ServicePhase::kIdle;
  ServiceRecord record;
  RestartPolicy policy;
  int pid = 0;             // 0: no process
  bool adopted = false;    // it ran before this brain started
  bool preparing = false;  // the work before its start runs
  bool sought = false;     // the brain is finding out if it runs
  bool hasRun = false;     // true if it has run since it was loaded
  kj::TimePoint startedAt = kj::origin<kj::TimePoint>();
  kj::String reason;  // why the last run or start ended
  // The work of the phase; replaced at every step. Its inputs belong to `turn`.
  kj::Promise<void> work = nullptr;
  kj::Promise<void> health = nullptr;
  kj::Promise<void> part = nullptr;
  kj::Promise<void> end = nullptr;  // waits for the exit, as long as there is a process
  uint64_t turn = 0;
  // Requests that were answered and are carried out kAnswerFirst later, by this brain or the next.
  // A signal that is due twice is sent once, as the kernel does with pending signals.
  struct Due {
    bool restart = false;
    uint64_t signals = 0;  // bit n-1: signal n
    int to = 0;            // PID of the process that they are for
  };
  Due due;
  uint64_t memoryKills = 0;  // number of its cgroup's kills that were reported

  void addEvent(kj::StringPtr message) {
    bool again = preparing && phase == ServicePhase::kRestarting;
    addEvent(again ? rpc::ServiceState::PREPARING : shown(phase), message);
  }
  void addEvent(rpc::ServiceState state, kj::StringPtr message);

  void replace(kj::Promise<void>& slot, kj::Promise<void> next);
  void idle(kj::Promise<void>& slot) { replace(slot, nullptr); }
  void busy(kj::Promise<void>& slot, kj::Function<kj::Promise<void>()> begin);
  void feed(ServiceInput input);
  void feedIf(uint64_t turn, ServiceInput input);
  void feedLater(ServiceInput input);
  void act(ServiceAction action);
  void ended();
  kj::String startedMessage() const;
  kj::Promise<void> whenAnswered();
  void actOnDue();
  void restartNow();
  kj::Promise<void> signalNow(int number);
  bool toBeStarted() const;
  uint64_t countMemoryKills();
  kj::String crashText();

  kj::Vector<kj::String> unmetConditions();
  kj::Vector<kj::String> ahead();
  kj::Vector<kj::String> dispensable();
  kj::Promise<void> awaitConditions(uint64_t turn);
  kj::Promise<void> prepare(uint64_t turn);
  kj::Function<void(kj::StringPtr)> noteFor(uint64_t turn);
  kj::Promise<void> prepareBody();
  kj::Promise<bool> prepareAgain();
  kj::Promise<ServiceBody::Started> startBody();
  kj::Promise<void> spawn();
  void has(ServiceBody::Started started);
  kj::Promise<void> pause(uint64_t turn, kj::Duration delay);
  void pauseFor(kj::Duration delay);
  void attend();
  kj::Promise<void> terminate(uint64_t turn);
  kj::Promise<void> runPart(uint64_t turn);
  kj::Promise<void> watchHealth(uint64_t turn);
  kj::Promise<void> watchEnd();
  kj::String describeEnd(kj::Maybe<int> status);

  Held<rpc::HeldService> held() const;  // the state for a successor
  void restoreRecord(kj::ArrayPtr<const Process1::Survivor> survivors);
  rpc::ServiceState restore();
  void adopt(int pid, rpc::ServiceState before);
  void restoreEnded(rpc::ServiceState before);
  void adoptContainer(rpc::ServiceState before);
  kj::Promise<void> seek();
  void stopAsBefore(rpc::ServiceState before);
};

}  // namespace talos::machined
