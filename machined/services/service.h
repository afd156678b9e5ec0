// One service: its place in the table of service-lifecycle.h, and the doing of what the table says.
// Part of supervisor.h, which promises what there is to promise; only that uses it.
//
// Its promises lie in slots of its own and in the task set of all services, which has to go before
// the services do. Whoever waits for one holds a reference: it may be unloaded meanwhile.
#pragma once

#include <kj/refcount.h>

#include "machined/process1/value-in-memory-file.h"
#include "machined/services/service-lifecycle.h"
#include "machined/services/service-process.h"
#include "machined/services/service-record.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

// All services, as one of them sees them.
class ServiceSet {
 public:
  virtual Supervisor::Dependencies& deps() = 0;
  virtual kj::TaskSet& tasks() = 0;
  virtual void failed(kj::Exception&& e) = 0;  // of what was done aside
  virtual bool closed() const = 0;             // nothing is started any more
  virtual bool isUp(kj::StringPtr id) const = 0;
  virtual bool isOnItsWay(kj::StringPtr id) const = 0;  // not up, but started
  virtual kj::Promise<void> change() = 0;               // resolves when one of them has changed
  virtual void changed() = 0;

 protected:
  ~ServiceSet() = default;
};

class Service : public kj::Refcounted {
 public:
  Service(ServiceSet& all, ServiceDefinition definition);
  KJ_DISALLOW_COPY_AND_MOVE(Service);

  // Once, at first: what the predecessor left, and with it the process that it left, if any.
  void recover(kj::ArrayPtr<const Process1::Survivor> survivors);
  // Instead: the service is this program.
  void markAsSelf();

  void start();
  // These three resolve when process 1 knows.
  kj::Promise<void> restart();
  kj::Promise<void> stop();
  void unload(kj::StringPtr problem);
  kj::Promise<void> signal(int number);
  int runningPid() const { return pid; }
  kj::Promise<void> kept();
  void exited(Process1::Exit exit);  // of a child in its slot

  void note(kj::StringPtr message) { addEvent(message); }

  kj::StringPtr id() const { return is.id; }
  const ServiceDefinition& definition() const { return is; }
  bool isSelf() const { return self; }
  bool isUp() const;
  bool isDown() const { return machined::isDown(phase); }
  // Its environment is made, and its process may not be there yet.
  bool isBeingStarted() const {
    return phase == ServicePhase::kStarting || (phase == ServicePhase::kRestarting && !preparing);
  }
  bool cannotBe() const { return phase == ServicePhase::kFailed || unloaded; }
  kj::StringPtr lastMessage() const { return record.lastMessage(); }
  void fill(rpc::Service::Builder out) const;

 private:
  ServiceSet& all;
  ServiceDefinition is;
  kj::Own<ServiceBody> body;  // of a part and of this program itself: unused
  kj::Maybe<ChildBody&> child;
  bool self = false;
  bool again = false;  // start once it is down
  bool unloaded = false;
  ServicePhase phase = ServicePhase::kIdle;
  ServiceRecord record;
  RestartPolicy policy;
  int pid = 0;             // 0: no process
  bool adopted = false;    // it ran before this brain did
  bool preparing = false;  // its pre work runs
  bool sought = false;     // whether it runs is being found out
  bool hasRun = false;     // since it was loaded
  kj::TimePoint startedAt = kj::origin<kj::TimePoint>();
  kj::String reason;  // why the last thing ended or failed
  // The work of the phase; replaced at every step. An input that it gives belongs to `turn`.
  kj::Promise<void> work = nullptr;
  kj::Promise<void> health = nullptr;
  kj::Promise<void> part = nullptr;
  kj::Promise<void> end = nullptr;  // of the process: awaited as long as there is one
  uint64_t turn = 0;
  // Requests that were answered and are carried out kAnswerFirst later, by this brain or the next.
  // A signal that is due twice comes once, as the kernel has it too.
  struct Due {
    bool restart = false;
    uint64_t signals = 0;  // bit n-1: signal n
    int to = 0;            // the process that they are for
  };
  Due due;
  uint64_t memoryKills = 0;  // of its cgroup, that were reported

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

  kj::Vector<kj::String> unmet();
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

  Held<rpc::HeldService> held() const;  // what a successor is left
  void restoreRecord(kj::ArrayPtr<const Process1::Survivor> survivors);
  rpc::ServiceState restore();
  void adopt(int pid, rpc::ServiceState before);
  void restoreEnded(rpc::ServiceState before);
  void adoptContainer(rpc::ServiceState before);
  kj::Promise<void> seek();
  void stopAsBefore(rpc::ServiceState before);
};

}  // namespace talos::machined
