// Tests of things that a machine may lack: an image, a device, a feature of the kernel.
//
// $PROVIDES has the names, separated by blanks, of the things that the target provides for its
// tests: `make e2e` the releases of Kubernetes, a guest the features of its kernel. There a test
// that misses one of them fails; elsewhere it is skipped. So each test that may be skipped has a
// target in which it cannot be.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

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
