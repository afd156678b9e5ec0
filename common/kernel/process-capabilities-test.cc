#include "common/kernel/process-capabilities.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

// Catches: a container that gets the brain's capabilities instead of the node's.
TEST(ProcessCapabilities, BoundingSet) {
  EXPECT_EQ(boundingSetOf("CapEff:\t0000000000000001\nCapBnd:\t000001ffffffffff\nCapAmb:\t0\n"),
            uint64_t{0x1ffffffffff});
  EXPECT_EQ(boundingSetOf("CapEff:\t0000000000000001\nCapBnd:\t000001ffffffffff"),
            uint64_t{0x1ffffffffff});
  for (auto text : {""_kj, "Name:\tinit\n"_kj, "CapBnd:\t\n"_kj, "CapBnd:\tnone\n"_kj}) {
    EXPECT_TRUE(boundingSetOf(text) == nullptr) << text.cStr();
  }
  EXPECT_FALSE(process1May(63));
  EXPECT_FALSE(process1May(64));
}

}  // namespace
}  // namespace talos
