// Limits the work that one client causes between two polls of the event loop, over all its
// connections. The loop polls, and so notices other clients, only when it has nothing left to do: a
// client that sends without a pause would otherwise occupy it alone.
//
// Work is counted in units: each message is one unit however small it is, and so are each
// kUnitBytes received. A reader waits for next() before it reads and reports what it read with
// spend(). Waiting readers continue in the order in which they came. Pure, but for the timer.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

namespace talos {

class Turns {
 public:
  static constexpr size_t kUnitBytes = 4u << 10;
  // Units of one turn: a few milliseconds of small calls, less than one of data.
  static constexpr size_t kUnits = 64;

  // Returns true if the client has something left of its turn.
  bool admits(kj::TimePoint now) {
    if (now != began) begin(now);  // the loop's time is constant until it has polled
    return spent < kUnits;
  }
  void spend(size_t units) { spent += units; }

  // Resolves when admits() is true. The object and the timer outlive the promise.
  kj::Promise<void> next(kj::Timer& timer) {
    if (admits(timer.now())) return kj::READY_NOW;
    return timer.afterDelay(0 * kj::SECONDS).then([this, &timer, waitedFor = turn]() {
      // The loop has polled, even if its time is the same.
      if (turn == waitedFor) begin(timer.now());
      return next(timer);
    });
  }

 private:
  kj::TimePoint began = kj::origin<kj::TimePoint>();
  uint64_t turn = 0;
  size_t spent = 0;

  void begin(kj::TimePoint now) {
    began = now;
    spent = 0;
    ++turn;
  }
};

}  // namespace talos
