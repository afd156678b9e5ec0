// Tests of things that a machine may lack: an image, a device, a feature of the kernel.
//
// $PROVIDES has the names, separated by blanks, of the things that the target provides for its
// tests: `make e2e` the releases of Kubernetes, a guest the features of its kernel. There a test
// that misses one of them fails; elsewhere it is skipped. So each test that may be skipped has a
// target in which it cannot be.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>
#include <string>

namespace talos {

inline bool isProvided(const std::string& name) {
  auto* all = getenv("PROVIDES");
  std::istringstream names(all == nullptr ? "" : all);
  for (std::string one; names >> one;) {
    if (one == name) return true;
  }
  return false;
}

// Returns true if this program is root of the host, and not only of a user namespace.
inline bool isRootOfTheHost() {
  std::ifstream map("/proc/self/uid_map");
  unsigned long inside = 1, outside = 1, count = 0;
  map >> inside >> outside >> count;
  return inside == 0 && outside == 0 && count == 4294967295;
}

}  // namespace talos

// Ends the test unless `there` holds. `missing` names the missing thing.
#define TALOS_NEEDS(there, name, missing)                                                      \
  do {                                                                                         \
    if (there) break;                                                                          \
    if (::talos::isProvided(name)) {                                                           \
      FAIL() << (missing) << ", and this target has it: $PROVIDES names \"" << (name) << "\""; \
    }                                                                                          \
    GTEST_SKIP() << (missing);                                                                 \
  } while (false)
