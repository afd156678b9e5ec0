// A timeline for tests: time as a number, events in order, and chance. Everything follows from one
// number.
#pragma once

#include <stdint.h>

#include <functional>
#include <queue>
#include <random>
#include <utility>

namespace talos::vipd {

class Timeline {
 public:
  using Time = int64_t;  // nanoseconds
  static constexpr Time kMs = 1'000'000, kSecond = 1000 * kMs;

 protected:
  explicit Timeline(uint64_t seed) : random(seed) {}

  Time now = 0;

  // Adds an event; events of the same time run in the order of their addition.
  void at(Time when, std::function<void()> what) {
    events.push({when, ++eventCount, std::move(what)});
  }
  // Runs the next event, at its time; returns false if it is after `end`, or no event is left.
  bool happen(Time end) {
    if (events.empty() || events.top().when > end) return false;
    auto event = events.top();
    events.pop();
    now = event.when;
    event.what();
    return true;
  }

  uint64_t below(uint64_t n) { return random() % n; }
  bool oneIn(uint64_t n) { return below(n) == 0; }

 private:
  struct Event {
    Time when;
    uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(when, number) > std::pair(other.when, other.number);
    }
  };
  std::mt19937_64 random;
  std::priority_queue<Event> events;
  uint64_t eventCount = 0;
};

}  // namespace talos::vipd
