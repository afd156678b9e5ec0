// How many frames of HTTP/2 a client may send that carry nothing. Each costs the server work and
// the client next to nothing, so they are limited as the data is that honest clients send them for:
// a client acknowledges and credits what it gets, and measures its way to the server meanwhile.
// Pure.
#pragma once

#include <kj/time.h>

namespace talos::grpc {

class FrameBudget {
 public:
  explicit FrameBudget(kj::TimePoint now) : since(now) {}

  // What an honest client sends in a burst (a dashboard that ends resets thirty streams), and what
  // it gets back with time.
  static constexpr int64_t kMost = 1000, kPerSecond = 100;
  // Costs: of a frame that asks for nothing or next to nothing, of a stream that was opened for
  // nothing, of one that the server had to reset.
  static constexpr int64_t kEmpty = 1, kReset = 2, kWrong = 4;

  // False: it is used up.
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

  // What a frame of data from the client is worth: tiny ones cost.
  static constexpr int64_t worthOf(size_t bytes) { return static_cast<int64_t>(bytes / 256) - 1; }
  // What the client may send because of a frame of an answer.
  static constexpr int64_t kAnswer = 4;

 private:
  int64_t left = kMost;
  kj::TimePoint since;
};

}  // namespace talos::grpc
