// The one process of a service, a child of process 1 or a container (service-instance.h): prepares,
// starts, finds and signals it, and describes its end. Part of service.h; ServiceActions decides
// when. Keeps no state that a crash could lose: a successor finds the process (service-adoption.h).
#pragma once

#include "machined/services/service-process.h"
#include "machined/services/service-status.h"

namespace talos::machined {

class ServiceRunner {
 public:
  // Takes the container of the definition; makes a child without one. A part of this program has
  // neither, and its child is not used.
  ServiceRunner(ServiceSet& all, ServiceDefinition& definition, ServiceStatus& status);
  KJ_DISALLOW_COPY_AND_MOVE(ServiceRunner);

  // The service is this program: its process is that of the status, and only signals work.
  void beSelf() { self = true; }
  bool isSelf() const { return self; }
  bool isContainer() const { return child == nullptr; }

  // Returns true if a restart has to be prepared, too.
  bool hasPreparation() const;
  // Prepares a start. `preparing` of the status is true meanwhile, and messages become events.
  kj::Promise<void> prepare();
  // Starts the process. Not dropped while the brain lives, because a new process must be recorded.
  kj::Promise<ServiceBody::Started> start();
  kj::String startedMessage(ServiceBody::Started started) const;

  // Uses a child that process 1 still has.
  void adopt(int survivor);
  // Looks for the container that a predecessor may have left. `problem`: nothing is known.
  struct Found {
    kj::Maybe<int> pid;
    kj::Maybe<kj::String> problem;
  };
  kj::Promise<Found> find();

  // Resolves to a description when the process of the status has ended, its crash is reported and
  // its remains are removed.
  kj::Promise<kj::String> ended();
  // Returns true if the definition says that the service is not started again after the end that
  // ended() has described last.
  bool isCompleted() const;
  // Describes an end that the predecessor did not report.
  kj::String endedMeanwhile(kj::StringPtr crash);
  // Stores the report of a crash, and returns the text that names it; empty if there was no crash.
  kj::String reportCrash();
  // Removes what an ended container leaves. A failure is logged.
  kj::Promise<void> removeRemains();

  // Resolves when the signal is certain to arrive.
  kj::Promise<void> signal(int number);
  // Called when process 1 reports the exit of a child in the service's slot.
  void exited(Process1::Exit exit);
  // Counts the present memory kills of the cgroup as reported.
  void markMemoryKillsReported();

 private:
  ServiceSet& all;
  ServiceDefinition& definition;
  ServiceStatus& status;
  kj::Own<ServiceBody> body;
  kj::Maybe<ChildBody&> child;
  bool self = false;
  kj::Maybe<int> lastExit;  // status of wait(2)

  uint64_t countMemoryKills();
  kj::String describeEnd(kj::Maybe<int> exit);
};

}  // namespace talos::machined
