// Takes a service through the table of service-lifecycle.h: enters the next phase for each input,
// does its action, and feeds the result of the action back as the next input. Part of service.h.
//
// There are four pieces of work, each in its slot, so that a new piece replaces the old one:
//
//   work     that of the phase: waiting, preparing, starting, the pause, the grace time, the search
//   part     the part of this program, while the service runs
//   health   the checks, while the service runs
//   end      waits for the exit, as long as there is a process
//
// An input from the work of an earlier turn is ignored. Those of a start and of an end count in any
// turn, because the process exists all the same.
#pragma once

#include "machined/services/service-adoption.h"
#include "machined/services/service-runner.h"

namespace talos::machined {

class ServiceActions {
 public:
  static constexpr auto kGrace = 10 * kj::SECONDS;  // from SIGTERM to SIGKILL

  // `service` owns all of these.
  ServiceActions(ServiceSet& all, kj::Refcounted& service, ServiceDefinition& definition,
                 ServiceStatus& status, ServiceRunner& runner);
  KJ_DISALLOW_COPY_AND_MOVE(ServiceActions);

  void feed(ServiceInput input);
  // Begins with what the predecessor has left. Called once, instead of a first input. `survivor`:
  // PID of the process, for kAdopt.
  void adopt(AdoptionAction action, int survivor);
  // Ends a part at once; no input has an effect any more.
  void unload(kj::StringPtr problem);

 private:
  ServiceSet& all;
  ServiceDefinition& definition;
  ServiceStatus& status;
  ServiceRunner& runner;
  RestartPolicy policy;
  bool adopted = false;  // it ran before this brain started
  bool sought = false;   // the brain is finding out if it runs
  bool hasRun = false;   // it has run since it was loaded
  kj::TimePoint startedAt = kj::origin<kj::TimePoint>();
  kj::String reason;  // why the last run or start ended
  ServiceWork work, part, health, end;

  void feedIf(uint64_t turn, ServiceInput input);
  void feedLater(ServiceInput input);
  void act(ServiceAction action);
  void attend();
  void pause();
  void terminate();
  void conclude();
  void ended();

  kj::Promise<void> awaitConditions(uint64_t turn);
  kj::Promise<void> prepare(uint64_t turn);
  kj::Promise<bool> prepareAgain();
  kj::Promise<void> spawn();
  void has(ServiceBody::Started started);
  void pauseFor(kj::Duration delay);
  kj::Promise<void> awaitPause(uint64_t turn, kj::Duration delay);
  kj::Promise<void> awaitGrace(uint64_t turn);
  kj::Promise<void> runPart(uint64_t turn);
  kj::Promise<void> watchHealth(uint64_t turn);
  kj::Promise<void> watchEnd();

  void adoptContainer();
  void adoptEnded(AdoptionAction action);
  kj::Promise<void> seek();
};

}  // namespace talos::machined
