// A budget for HTTP/2 frames of a client that carry no data. Each costs the server work and the
// client almost nothing, so their number is limited in proportion to data: honest clients send them
// to acknowledge and credit data that they receive, and to measure round trips meanwhile. Headers
// count too, by the size to which they unpack; the answer of an honest call gives back more. Every
// call that a client may have open is part of the burst. Pure.
#pragma once

#include "common/wire/token-bucket.h"

namespace talos::grpc {

class FrameBudget : public TokenBucket {
 public:
  // `calls`: that the client may have open at once.
  FrameBudget(kj::TimePoint now, unsigned calls)
      : TokenBucket(now, kBurst + calls * kEmpty, kPerSecond) {}

  // The burst of an honest client besides its calls (a dashboard that exits resets thirty streams),
  // and the rate at which the budget refills.
  static constexpr int64_t kBurst = 1000, kPerSecond = 100;
  // The costs of a frame without data, of a stream that the client resets, of one that the server
  // had to reset.
  static constexpr int64_t kEmpty = 1, kReset = 2, kWrong = 4;
  // The unpacked bytes of headers that cost as much as a frame: a call that names 256 nodes has
  // some 12 KiB.
  static constexpr size_t kHeaderBytes = 4u << 10;

  // The worth of a frame of data from the client: tiny ones cost.
  static constexpr int64_t worthOf(size_t bytes) { return static_cast<int64_t>(bytes / 256) - 1; }
  // The frames that a client may send in response to a frame of an answer.
  static constexpr int64_t kAnswer = 4;
};

}  // namespace talos::grpc
