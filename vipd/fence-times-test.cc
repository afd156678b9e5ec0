#include "vipd/fence-times.h"

#include <gtest/gtest.h>

namespace talos::vipd {
namespace {

constexpr auto kStart = kj::origin<kj::TimePoint>() + 1000 * kj::SECONDS;

// Catches: a lifetime that is rounded up, or that ignores the kernel's delay, the clocks' drift, or
// that a renewal counts from its sending.
TEST(FenceTimes, NoAddressOutlivesItsLeaseAndTheGuard) {
  for (int ttl = 2; ttl <= 60; ++ttl) {
    Term term{kStart, ttl * kj::SECONDS};
    for (int ms = 0; ms <= ttl * 1000; ms += 7) {
      auto now = kStart + ms * kj::MILLISECONDS;
      auto stay = stayFor(term, now);
      if (!stay) continue;
      EXPECT_GE(stay->latest, now + kLeastSlack);
      // The slowest kernel, and a clock that is slower than etcd's.
      auto gone = stay->latest + stay->seconds * kj::SECONDS + kKernelLate;
      auto others = kStart + ttl * kj::SECONDS - ttl * kj::MILLISECONDS + kGuard;
      EXPECT_LE(gone, others) << ttl << " s, after " << ms << " ms";
      EXPECT_LE(stay->seconds, kLongestStay);
    }
  }
}

// Catches: a fence so strict that no host ever holds the address.
TEST(FenceTimes, AFreshRenewalIsWorthALifetime) {
  auto stay = [](int ttl, int ms) {
    auto found = stayFor({kStart, ttl * kj::SECONDS}, kStart + ms * kj::MILLISECONDS);
    return found ? int(found->seconds) : 0;
  };
  EXPECT_EQ(1, stay(2, 0));
  EXPECT_EQ(1, stay(2, 190));
  EXPECT_EQ(0, stay(2, 210));  // A kernel that is busy for 50 ms would be late.
  EXPECT_EQ(2, stay(3, 50));
  EXPECT_EQ(13, stay(15, 50));
  EXPECT_EQ(13, stay(60, 0)) << "a timer that is farther away is too coarse";
  EXPECT_EQ(0, stay(60, 60000));
}

// Catches: an outdated figure in the table of docs/vip.md, "Lease and lifetime".
TEST(FenceTimes, AreThoseOfThePage) {
  Term term{kStart, 2 * kj::SECONDS};
  auto after = [](int ms) { return kStart + ms * kj::MILLISECONDS; };
  EXPECT_TRUE(stayFor(term, after(208)).has_value());
  EXPECT_FALSE(stayFor(term, after(209)).has_value());
  auto stay = stayFor(term, after(208)).value();
  EXPECT_EQ(stay.latest, after(258));
  auto end = stay.latest + stay.seconds * kj::SECONDS;
  EXPECT_EQ(end, after(1258));
  EXPECT_EQ(end + kKernelLate, after(2298));
  EXPECT_EQ(term.end(), after(1998));
}

}  // namespace
}  // namespace talos::vipd
