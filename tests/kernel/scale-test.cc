// Large networks of the kinds that a host may lack, beside `ip -batch`: how long each takes is
// printed for docs/evidence/figures.md, and checked is only that it comes to rest and stays so.
#include <gtest/gtest.h>

#include "tests/bench/network-scale.h"

namespace talos::networkd {
namespace {

void compare(const Scale& scale) {
  auto times = measure(scale);
  EXPECT_EQ(times.problem, "");
  EXPECT_GT(times.sent, scale.count);
  EXPECT_EQ(times.sentAgain, 0u);
  printf("  %u %s: %.1f ms, ip -batch %.1f ms of processor time (%.2f of it); again %.1f ms\n",
         scale.count, scale.name.c_str(), times.ours, times.ip, times.ours / times.ip, times.again);
}

// Catches: work that is done again although nothing differs, when there is much of it.
TEST(KernelScale, Vlans) {
  compare(vlans(500));
}
TEST(KernelScale, BondsOfTwo) {
  compare(bonds(100));
}

}  // namespace
}  // namespace talos::networkd
