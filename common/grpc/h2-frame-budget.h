// A budget for HTTP/2 frames of a client that carry no data. Each costs the server work and the
// client almost nothing, so their number is limited in proportion to data: honest clients send such
// frames to acknowledge and credit data that they receive, and to measure round trips meanwhile.
// Headers count too, by the size to which they unpack; the answer to an honest call gives back
// more. The burst covers every call that a client may have open. Pure.
#pragma once

#include "common/wire/token-bucket.h"

namespace talos::grpc {

class FrameBudget : public TokenBucket {
 public:
  // `calls`: number that the client may have open at once.
  FrameBudget(kj::TimePoint now, unsigned calls)
      : TokenBucket(now, kBurst + calls * kEmpty, kPerSecond) {}

  // Burst of an honest client besides its calls (a dashboard that exits resets thirty streams), and
  // the rate at which the budget refills.
  static constexpr int64_t kBurst = 1000, kPerSecond = 100;
  // Costs of a frame without data, of a stream that the client resets, and of one that the server
  // had to reset.
  static constexpr int64_t kEmpty = 1, kReset = 2, kWrong = 4;
  // Unpacked bytes of headers that cost as much as a frame: a call that names 256 nodes has some 12
  // KiB.
  static constexpr size_t kHeaderBytes = 4u << 10;

  // Returns the worth of a frame of data from the client: tiny frames cost.
  static constexpr int64_t worthOf(size_t bytes) { return static_cast<int64_t>(bytes / 256) - 1; }
  // Frames that a client may send in response to a frame of an answer.
  static constexpr int64_t kAnswer = 4;
};

}  // namespace talos::grpc
