#include "machined/confined/login1/locks/shutdown-delay.h"

namespace talos::login1 {

kj::StringPtr ShutdownDelay::stateName() const {
  switch (now) {
    case State::kIdle:
      return "idle";
    case State::kWaiting:
      return "waiting";
    case State::kOver:
      return "over";
  }
  KJ_UNREACHABLE;
}

Inhibitors::Id ShutdownDelay::take(Inhibitor lock) {
  auto id = locks.add(kj::mv(lock));
  changed();
  return id;
}

void ShutdownDelay::release(Inhibitors::Id id) {
  locks.remove(id);
  if (now == State::kWaiting && locks.empty()) {
    deadline = nullptr;
    return over(kj::str("all locks were released"));
  }
  changed();
}

void ShutdownDelay::request(uint64_t wanted, kj::Duration asked) {
  if (wanted == number) return;
  bool announced = number != 0;
  number = wanted;
  deadline = nullptr;
  outcome = kj::str();
  if (number == 0) {
    now = State::kIdle;
    prepare(false);
    return changed();
  }
  if (!announced) prepare(true);
  if (locks.empty()) return over(kj::str("no program holds a lock"));
  now = State::kWaiting;
  auto limit = kj::min(asked, kInhibitDelayMax);
  deadline = timer.afterDelay(limit)
                 .then([this, limit]() {
                   over(kj::str("locks not released within ", limit / kj::SECONDS,
                                " s: ", kj::strArray(locks.holders(), ", ")));
                 })
                 .eagerlyEvaluate(nullptr);
  changed();
}

void ShutdownDelay::over(kj::String how) {
  now = State::kOver;
  outcome = kj::mv(how);
  changed();
}

}  // namespace talos::login1
