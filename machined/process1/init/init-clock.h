// The clock of process 1: milliseconds since the machine started; it is never stepped.
#pragma once

#include <stdint.h>
#include <time.h>

namespace talos::process1 {

inline int64_t now() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1'000'000;
}

}  // namespace talos::process1
