// The kernel's monotonic clock, for deadlines of code that has no event loop: clock_gettime(2).
#pragma once

#include <stdint.h>
#include <time.h>

namespace talos {

inline int64_t monotonicMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace talos
