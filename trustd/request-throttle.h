// Back-off for callers without the token. Pure: the time is passed in.
//
// After a failure, requests of the address that do not have the token either are refused for
// kFirst, after each further failure twice as long, at most kLongest; a success, or kForget without
// a failure, resets it. Memory is bounded: of more than `most` addresses the one that failed
// longest ago is forgotten. IPv6 callers count by their /64, all of which one node can use.
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

  // The time for which this caller still has to wait; 0 when it may make a request.
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
