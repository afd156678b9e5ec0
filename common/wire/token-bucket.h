// Limits how often something happens: a burst, and a number per second after it. Pure.
#pragma once

#include <kj/time.h>

namespace talos {

class TokenBucket {
 public:
  TokenBucket(kj::TimePoint now, int64_t most, int64_t perSecond)
      : most(most), perSecond(perSecond), left(most), since(now) {}

  // Returns false if the bucket is empty.
  bool spend(int64_t cost, kj::TimePoint now) {
    auto seconds = (now - since) / kj::SECONDS;
    if (seconds > 0) {
      left = kj::min(left + kj::min(seconds, most) * perSecond, most);
      since += seconds * kj::SECONDS;
    }
    left -= cost;
    return left >= 0;
  }
  void earn(int64_t tokens) { left = kj::min(left + tokens, most); }

 private:
  const int64_t most, perSecond;
  int64_t left;
  kj::TimePoint since;
};

}  // namespace talos
