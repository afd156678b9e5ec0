// The life of a service, as a table: (phase, input) -> (next phase, action). Pure: no clock, no
// process.
//
// A phase is finer than the state that users see (shown()): "Waiting" is waiting for conditions and
// also the pause before a restart; "Stopping" also covers a child whose start was under way when
// the stop came. An input that means nothing in a phase leaves it as it is, so a late or doubled
// one does no harm.
#pragma once

#include <kj/time.h>

#include "common/base/backoff.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

enum class ServicePhase {
  kIdle,       // loaded, never started
  kWaiting,    // for its conditions
  kPreparing,  // its pre work runs
  kStarting,   // the first start was asked for
  kRunning,
  kPausing,     // it ended by itself; the next start is due later
  kRestarting,  // that start was asked for
  kDooming,     // stopped while a start was under way: ends as soon as there is a process to end
  kStopping,    // SIGTERM was sent
  kKilling,     // SIGKILL was sent
  kFinished,    // stopped on request
  kFailed,      // could not be started at all
  kSeeking,     // a predecessor had it running: whether it still runs is asked for
};
constexpr size_t kServicePhases = 13;

enum class ServiceInput {
  kStart,
  kReady,     // all conditions are met
  kPrepared,  // the pre work is done
  kBroken,    // pre work or start failed
  kNotYet,    // the start failed for a reason that may pass
  kStarted,   // there is a process
  kExited,    // it ended, or what was sought is not there
  kDue,       // the end of the pause or of the grace time
  kStop,
};
constexpr size_t kServiceInputs = 9;

enum class ServiceAction {
  kNone,
  kAwait,      // watch the conditions
  kPrepare,    // run the pre work
  kSpawn,      // ask process 1 for a child
  kAttend,     // begin the health checks
  kPause,      // wait as RestartPolicy says
  kTerminate,  // SIGTERM, and begin the grace time
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
// "Running" and so on, as users see it.
kj::StringPtr nameOf(rpc::ServiceState state);
// No process is there and none will come by itself.
bool isDown(ServicePhase phase);

// How long to wait before a service that ended by itself is started again: not at all the first
// time, then twice as long each time (100 ms to 5 s, less up to half of it by chance, so that
// services which died together do not return together), and from the start again once it ran for 10
// s.
class RestartPolicy {
 public:
  // `random` in [0, 1).
  kj::Duration next(kj::Duration ranFor, double random);

 private:
  bool diedQuickly = false;
  Backoff backoff{{100 * kj::MILLISECONDS, 5 * kj::SECONDS, 2, 1, 0.5}};
};

}  // namespace talos::machined
