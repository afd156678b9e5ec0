// The life of a service, as a table: (phase, input) -> (next phase, action). Pure: no clock, no
// process.
//
// A phase is finer than the state that users see (shown()): "Waiting" is waiting for conditions and
// also the pause before a restart; "Stopping" also covers a child that was being started when the
// stop came. An input without a meaning in a phase leaves the phase unchanged, so a late or
// repeated input does no harm.
#pragma once

#include <kj/time.h>

#include "common/base/backoff.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

enum class ServicePhase {
  kIdle,        // loaded, never started. Next: kWaiting
  kWaiting,     // waits for its conditions. Next: kPreparing, kFinished
  kPreparing,   // the work before its start runs. Next: kStarting, kFailed, kFinished
  kStarting,    // the first start was requested. Next: kRunning, kPausing, kFailed, kDooming
  kRunning,     // next: kPausing, kStopping, kFinished
  kPausing,     // it ended by itself; a start follows after a pause. Next: kRestarting, kFinished
  kRestarting,  // the next start was requested. Next: kRunning, kPausing, kDooming
  kDooming,     // stopped during a start: ended as soon as there is a process. Next: kStopping,
                // kFinished
  kStopping,    // SIGTERM was sent. Next: kFinished, kKilling
  kKilling,     // SIGKILL was sent. Next: kFinished
  kFinished,    // stopped on request, or it has done its work. Next: kWaiting
  kFailed,      // could not be started at all. Next: kWaiting
  kSeeking,     // a predecessor ran it: the brain finds out if it still runs. Next: kRunning,
                // kPausing, kDooming
};
constexpr size_t kServicePhases = 13;

enum class ServiceInput {
  kStart,
  kReady,      // all conditions are met
  kPrepared,   // the work before the start is done
  kBroken,     // this work or the start failed
  kNotYet,     // the start failed for a reason that may pass
  kStarted,    // there is a process
  kExited,     // it ended, or the search found nothing
  kCompleted,  // it ended by itself, and its definition says that it is not started again
  kDue,        // the end of the pause or of the grace time
  kStop,
};
constexpr size_t kServiceInputs = 10;

enum class ServiceAction {
  kNone,
  kAwait,      // watch the conditions
  kPrepare,    // run the work before the start
  kSpawn,      // request a child from process 1
  kAttend,     // start the health checks
  kPause,      // wait as RestartPolicy says
  kTerminate,  // SIGTERM, and start the grace time
  kKill,       // SIGKILL
  kConclude,   // report that it has ended
  kGiveUp,     // report why it cannot run
};

struct ServiceStep {
  ServicePhase next;
  ServiceAction action;
};

ServiceStep step(ServicePhase phase, ServiceInput input);

rpc::ServiceState shown(ServicePhase phase);
// Returns the state's name for users: "Running" and so on.
kj::StringPtr nameOf(rpc::ServiceState state);
// Returns true if there is no process and none will be started without a request.
bool isDown(ServicePhase phase);

// Computes the pause before a service that ended by itself is started again: no pause the first
// time, then a doubling one (100 ms to 5 s, less up to half of it by chance, so that services which
// died together do not restart together). After a run of 10 s the sequence begins again.
class RestartPolicy {
 public:
  // `random` is in [0, 1).
  kj::Duration next(kj::Duration ranFor, double random);

 private:
  bool diedQuickly = false;
  Backoff backoff{{100 * kj::MILLISECONDS, 5 * kj::SECONDS, 2, 1, 0.5}};
};

}  // namespace talos::machined
