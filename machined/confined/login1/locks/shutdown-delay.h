// Delays a shutdown for the holders of locks. They get a signal that the shutdown comes; the delay
// ends when all have released their locks, or after the limit of the request: the period in the
// kubelet's config plus kShutdownMargin. No I/O but the timer, which is passed in.
//
// A request is followed once. A withdrawn request is announced as well, so that a holder that has
// begun to exit continues to work. After a crash of this program, or of the bus, the next start has
// the locks (kept-locks.h), finds the request, announces it again, and waits again.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "common/base/shutdown-times.h"
#include "common/base/signal.h"
#include "machined/confined/login1/locks/inhibitors.h"

namespace talos::login1 {

// InhibitDelayMaxUSec of the interface, and the limit of every request. A kubelet exits if its
// config has a longer period than this property, so this is the longest period that a config can
// have.
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

  // Follows the newest request; 0 if there is no request, or no longer one.
  void request(uint64_t number, kj::Duration limit = kUsualShutdownLimit);

  kj::StringPtr stateName() const;  // idle, waiting or over
  uint64_t requested() const { return number; }
  kj::StringPtr message() const { return outcome; }

 private:
  enum class State {
    kIdle,     // no request. Next: kWaiting, kOver
    kWaiting,  // for the locks. Next: kOver; kIdle if the request was withdrawn
    kOver,     // next: kIdle; kWaiting for another request
  };
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
