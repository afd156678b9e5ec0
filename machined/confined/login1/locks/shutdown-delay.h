// Delays a shutdown for the holders of locks: they get a signal that it comes, and the delay ends
// when all have released their locks, or after the limit that the request has: the time that the
// kubelet asks for by its config, and kShutdownMargin. No I/O but the timer, which is passed in.
//
// A request is followed once. A request that is withdrawn is announced as well, so that a holder
// that has begun to end goes on. After a crash of this program, or of the bus, the next start has
// the locks (kept-locks.h), finds the request, announces it again, and waits anew.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "common/base/shutdown-times.h"
#include "common/base/signal.h"
#include "machined/confined/login1/locks/inhibitors.h"

namespace talos::login1 {

// InhibitDelayMaxUSec of the interface, and the limit of every request. A kubelet whose config asks
// for more than this property says exits, so it is the most that a config can ask for.
constexpr auto kInhibitDelayMax = kMostShutdownPeriod + kShutdownMargin;

class ShutdownDelay {
 public:
  // `prepare`: sends the signal PrepareForShutdown. `changed`: the state has changed.
  ShutdownDelay(kj::Timer& timer, kj::Function<void(bool begins)> prepare,
                kj::Function<void()> changed)
      : timer(timer), prepare(kj::mv(prepare)), changed(kj::mv(changed)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ShutdownDelay);

  Inhibitors::Id take(Inhibitor lock);
  void release(Inhibitors::Id id);
  const Inhibitors& inhibitors() const { return locks; }

  // The newest request; 0: there is none (any more).
  void request(uint64_t number, kj::Duration limit = kUsualShutdownLimit);

  kj::StringPtr stateName() const;  // idle, waiting or over
  uint64_t requested() const { return number; }
  kj::StringPtr message() const { return outcome; }

 private:
  enum class State { kIdle, kWaiting, kOver };
  kj::Timer& timer;
  kj::Function<void(bool)> prepare;
  kj::Function<void()> changed;
  Inhibitors locks;
  uint64_t number = 0;
  State now = State::kIdle;
  kj::String outcome;
  kj::Promise<void> deadline = nullptr;

  void over(kj::String how);
};

}  // namespace talos::login1
