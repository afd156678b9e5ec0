// Back-off for callers without the token. Pure: the time is passed in.
//
// After a failure, further requests without the token from this address are refused for kFirst,
// after each further failure twice as long, at most kLongest; a success, or kForget without a
// failure, resets the delay. Memory is bounded: beyond `most` addresses the one that failed longest
// ago is forgotten. IPv6 callers count by their /64, because one node can use the whole /64.
#pragma once

#include <kj/map.h>
#include <kj/time.h>

#include "common/base/backoff.h"
#include "common/net/ip.h"
#include "trustd/quota-holder.h"

namespace talos::trustd {

class Throttle {
 public:
  static constexpr auto kFirst = 500 * kj::MILLISECONDS;
  static constexpr auto kLongest = 60 * kj::SECONDS;
  static constexpr auto kForget = 10 * kj::MINUTES;

  explicit Throttle(size_t most = 4096) : most(most) {}

  // Returns the time for which this caller still has to wait; 0 if it may make a request.
  kj::Duration wait(const Ip& caller, kj::TimePoint now) const;
  void failed(const Ip& caller, kj::TimePoint now);
  void succeeded(const Ip& caller);
  size_t size() const { return entries.size(); }

 private:
  struct Entry {
    Backoff backoff;
    kj::TimePoint last, allowedAt;
  };
  size_t most;
  kj::TreeMap<Ip, Entry> entries;
};

}  // namespace talos::trustd
