// What the state machines of both versions (dhcp-client4.h, dhcp-client6.h) have in common. Pure.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <stdint.h>

namespace talos::networkd::dhcp {

// With every input: when it is, and a new random number.
struct Moment {
  kj::TimePoint time;
  uint64_t random;
};

// Whether that moment has come; none never does.
inline bool reached(const kj::Maybe<kj::TimePoint>& moment, kj::TimePoint now) {
  KJ_IF_MAYBE (m, moment) return now >= *m;
  return false;
}

// The first of those that there are.
inline kj::Maybe<kj::TimePoint> earliest(std::initializer_list<kj::Maybe<kj::TimePoint>> moments) {
  kj::Maybe<kj::TimePoint> first;
  for (auto& moment : moments) {
    KJ_IF_MAYBE (m, moment) first = kj::min(*m, first.orDefault(*m));
  }
  return first;
}

// --- what both tell
struct Bound {};  // lease() holds from now, or has other content
struct Lost {     // there is none any more
  kj::String why;
};

}  // namespace talos::networkd::dhcp
