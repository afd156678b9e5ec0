// A budget for HTTP/2 frames of a client that carry no data. Each costs the server work and the
// client almost nothing, so their number is limited in proportion to data: honest clients send them
// to acknowledge and credit data that they receive, and to measure round trips meanwhile. Pure.
#pragma once

#include <kj/time.h>

namespace talos::grpc {

class FrameBudget {
 public:
  explicit FrameBudget(kj::TimePoint now) : since(now) {}

  // The burst of an honest client (a dashboard that exits resets thirty streams), and the rate at
  // which the budget refills.
  static constexpr int64_t kMost = 1000, kPerSecond = 100;
  // The costs of a frame without data, of a stream that the client resets, of one that the server
  // had to reset.
  static constexpr int64_t kEmpty = 1, kReset = 2, kWrong = 4;

  // False when the budget is exhausted.
  bool spend(int64_t cost, kj::TimePoint now) {
    auto seconds = (now - since) / kj::SECONDS;
    if (seconds > 0) {
      left = kj::min(left + kj::min(seconds, kMost) * kPerSecond, kMost);
      since += seconds * kj::SECONDS;
    }
    left -= cost;
    return left >= 0;
  }
  void earn(int64_t frames) { left = kj::min(left + frames, kMost); }

  // The worth of a frame of data from the client: tiny ones cost.
  static constexpr int64_t worthOf(size_t bytes) { return static_cast<int64_t>(bytes / 256) - 1; }
  // The frames that a client may send in response to a frame of an answer.
  static constexpr int64_t kAnswer = 4;

 private:
  int64_t left = kMost;
  kj::TimePoint since;
};

}  // namespace talos::grpc
