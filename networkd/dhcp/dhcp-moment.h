// What the state machines of DHCP know of time and chance: they are passed in with every input.
#pragma once

#include <kj/common.h>
#include <kj/time.h>

namespace talos::networkd::dhcp {

// With every input: when it is, and a new random number.
struct Moment {
  kj::TimePoint time;
  uint64_t random;
};

inline bool reached(const kj::Maybe<kj::TimePoint>& moment, kj::TimePoint now) {
  KJ_IF_MAYBE (m, moment) return now >= *m;
  return false;
}

}  // namespace talos::networkd::dhcp
