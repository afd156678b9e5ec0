#include "machined/services/service-lifecycle.h"

#include <kj/debug.h>

namespace talos::machined {
namespace {

using P = ServicePhase;
using A = ServiceAction;
using I = ServiceInput;

// All transitions; any other pair leaves the phase unchanged.
// clang-format off
constexpr struct { P phase; I input; P next; A action; } kTransitions[] = {
    {P::kIdle,       I::kStart,    P::kWaiting,    A::kAwait},
    {P::kFinished,   I::kStart,    P::kWaiting,    A::kAwait},
    {P::kFailed,     I::kStart,    P::kWaiting,    A::kAwait},
    {P::kWaiting,    I::kReady,    P::kPreparing,  A::kPrepare},
    {P::kWaiting,    I::kStop,     P::kFinished,   A::kConclude},
    {P::kPreparing,  I::kPrepared, P::kStarting,   A::kSpawn},
    {P::kPreparing,  I::kBroken,   P::kFailed,     A::kGiveUp},
    {P::kPreparing,  I::kStop,     P::kFinished,   A::kConclude},
    {P::kStarting,   I::kStarted,  P::kRunning,    A::kAttend},
    {P::kStarting,   I::kBroken,   P::kFailed,     A::kGiveUp},
    {P::kStarting,   I::kNotYet,   P::kPausing,    A::kPause},
    {P::kStarting,   I::kStop,     P::kDooming,    A::kNone},
    {P::kRunning,    I::kExited,   P::kPausing,    A::kPause},
    {P::kRunning,    I::kCompleted, P::kFinished,  A::kConclude},
    {P::kRunning,    I::kStop,     P::kStopping,   A::kTerminate},
    {P::kPausing,    I::kDue,      P::kRestarting, A::kSpawn},
    {P::kPausing,    I::kStop,     P::kFinished,   A::kConclude},
    {P::kRestarting, I::kStarted,  P::kRunning,    A::kAttend},
    {P::kRestarting, I::kBroken,   P::kPausing,    A::kPause},   // it ran before: the reason may pass
    {P::kRestarting, I::kNotYet,   P::kPausing,    A::kPause},
    {P::kRestarting, I::kStop,     P::kDooming,    A::kNone},
    {P::kDooming,    I::kStarted,  P::kStopping,   A::kTerminate},
    {P::kDooming,    I::kBroken,   P::kFinished,   A::kConclude},
    {P::kDooming,    I::kNotYet,   P::kFinished,   A::kConclude},
    {P::kDooming,    I::kExited,   P::kFinished,   A::kConclude},
    {P::kStopping,   I::kExited,   P::kFinished,   A::kConclude},
    {P::kStopping,   I::kDue,      P::kKilling,    A::kKill},
    {P::kKilling,    I::kExited,   P::kFinished,   A::kConclude},
    {P::kSeeking,    I::kStarted,  P::kRunning,    A::kAttend},
    {P::kSeeking,    I::kExited,   P::kPausing,    A::kPause},
    {P::kSeeking,    I::kStop,     P::kDooming,    A::kNone},
};
// clang-format on

}  // namespace

ServiceStep step(ServicePhase phase, ServiceInput input) {
  for (auto& row : kTransitions) {
    if (row.phase == phase && row.input == input) return {row.next, row.action};
  }
  return {phase, A::kNone};
}

rpc::ServiceState shown(ServicePhase phase) {
  using St = rpc::ServiceState;
  switch (phase) {
    case P::kIdle:
      return St::INITIALIZED;
    case P::kWaiting:
    case P::kPausing:
    case P::kRestarting:
      return St::WAITING;
    case P::kPreparing:
    case P::kStarting:
      return St::PREPARING;
    case P::kRunning:
    case P::kSeeking:
      return St::RUNNING;
    case P::kDooming:
    case P::kStopping:
    case P::kKilling:
      return St::STOPPING;
    case P::kFinished:
      return St::FINISHED;
    case P::kFailed:
      return St::FAILED;
  }
  KJ_UNREACHABLE;
}

kj::StringPtr nameOf(rpc::ServiceState state) {
  static constexpr kj::StringPtr kNames[] = {"Initialized"_kj, "Preparing"_kj, "Waiting"_kj,
                                             "Running"_kj,     "Stopping"_kj,  "Finished"_kj,
                                             "Failed"_kj,      "Skipped"_kj};
  auto index = static_cast<size_t>(state);
  return index < kj::size(kNames) ? kNames[index] : "Unknown"_kj;
}

bool isDown(ServicePhase phase) {
  return phase == P::kIdle || phase == P::kFinished || phase == P::kFailed;
}

kj::Duration RestartPolicy::next(kj::Duration ranFor, double random) {
  if (ranFor >= 10 * kj::SECONDS) *this = {};
  if (diedQuickly) return backoff.next(random);
  diedQuickly = true;
  return 0 * kj::SECONDS;
}

}  // namespace talos::machined
