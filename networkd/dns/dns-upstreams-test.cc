#include "networkd/dns/dns-upstreams.h"

#include <gtest/gtest.h>

#include <string>

#include "common/testing/test-ip.h"

namespace talos::networkd::dns {
namespace {

const Endpoint kFirst{ip("192.0.2.1"), 53}, kSecond{ip("192.0.2.2"), 53},
    kThird{ip("192.0.2.3"), 53};

// Returns the last digits of the next upstreams; "-" at their end.
std::string next(Attempts& attempts, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) {
    auto upstream = attempts.next();
    text += upstream ? std::to_string(upstream->address.bytes()[3]) : "-";
  }
  return text;
}

struct DnsUpstreams : testing::Test {
  ~DnsUpstreams() noexcept override {}
  Upstreams upstreams;
  kj::TimePoint now = kj::origin<kj::TimePoint>();
  DnsUpstreams() { upstreams.set({kFirst, kSecond, kThird}); }

  std::string order() {
    auto attempts = upstreams.attempts(now);
    return next(attempts, 3);
  }
};

// Catches: an upstream that is queried before those that the config names before it; a query that
// fails after one lost datagram for each.
TEST_F(DnsUpstreams, AreAskedInTheOrderOfTheList) {
  auto attempts = upstreams.attempts(now);
  EXPECT_EQ("12312", next(attempts, 5));
}

// Catches: an upstream that refuses a name and gets the same query again and again.
TEST_F(DnsUpstreams, OneThatFailedIsNotAskedAgain) {
  auto attempts = upstreams.attempts(now);
  EXPECT_EQ("1", next(attempts, 1));
  attempts.failed();
  EXPECT_EQ("232", next(attempts, 3));
  attempts.failed();
  EXPECT_EQ("33", next(attempts, 2));
  attempts.failed();
  EXPECT_EQ("-", next(attempts, 1));
  Upstreams none;
  auto nothing = none.attempts(now);
  EXPECT_EQ("-", next(nothing, 1));
}

// Catches: a first upstream that is down, for which every query waits; one that is up again and is
// not used; one that is forgotten because another was silent.
TEST_F(DnsUpstreams, ASilentOneComesLastForAWhile) {
  upstreams.silent(kFirst, now, now);
  EXPECT_EQ("231", order());
  now += 5 * kj::SECONDS;
  upstreams.silent(kSecond, now, now);
  EXPECT_EQ("312", order());
  now += 5 * kj::SECONDS;
  EXPECT_EQ("132", order());
  upstreams.answered(kSecond, now);
  EXPECT_EQ("123", order());
}

// Catches: an upstream that works and comes last because of a name whose own servers are down; an
// answer of the past for which it is taken for one that works.
TEST_F(DnsUpstreams, ASlowNameIsNoSilence) {
  auto began = now;
  now += 1 * kj::SECONDS;
  upstreams.answered(kFirst, now);
  upstreams.silent(kFirst, began, now);
  EXPECT_EQ("123", order());
  began = now + 1 * kj::MILLISECONDS;
  now += 2 * kj::SECONDS;
  upstreams.silent(kFirst, began, now);
  EXPECT_EQ("231", order());
}

// Catches: new upstreams that come last because an earlier one of this address was silent.
TEST_F(DnsUpstreams, ANewListBeginsWithoutSilence) {
  upstreams.silent(kFirst, now, now);
  upstreams.set({kFirst, kSecond, kThird});
  EXPECT_EQ("123", order());
}

}  // namespace
}  // namespace talos::networkd::dns
