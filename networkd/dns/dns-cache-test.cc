#include "networkd/dns/dns-cache.h"

#include <gtest/gtest.h>

#include "networkd/dns/test-dns-messages.h"

namespace talos::networkd::dns {
namespace {

struct DnsCache : testing::Test {
  ~DnsCache() noexcept override {}
  Cache cache;
  kj::TimePoint start = kj::origin<kj::TimePoint>(), now = start;

  void add(const TestQuery& query, const TestResponse& answer) {
    auto message = answer.encode(query.encode());
    auto key = query.parsed().key;
    cache.add(key, message, KJ_ASSERT_NONNULL(parseResponse(message, key, query.id)), now);
  }
  // Returns the TTL of the cached answer; -1 if the cache has no answer.
  int64_t ttl(const TestQuery& query) {
    KJ_IF_MAYBE (answer, cache.find(query.parsed(), now)) return firstTtl(*answer);
    return -1;
  }
};

// Catches: an answer that is used after its time, or whose age clients do not see, so that a name
// is used for twice its lifetime.
TEST_F(DnsCache, AnAnswerAgesAndEnds) {
  add({}, {.answers = {addressRecord("192.0.2.1", 60)}});
  EXPECT_EQ(60, ttl({}));
  now = start + 20 * kj::SECONDS;
  EXPECT_EQ(40, ttl({}));
  now = start + 60 * kj::SECONDS - 1 * kj::MILLISECONDS;
  EXPECT_EQ(1, ttl({}));
  now = start + 60 * kj::SECONDS;
  EXPECT_EQ(-1, ttl({}));
  EXPECT_EQ(0u, cache.size());
}

// Catches: a missing name that is found too late after it was made (RFC 2308).
TEST_F(DnsCache, AMissingNameIsKeptForTenSecondsAtMost) {
  add({}, {kNameError, {}, {soaRecord(300, 300)}});
  now = start + 9 * kj::SECONDS;
  EXPECT_EQ(291, ttl({}));
  now = start + 10 * kj::SECONDS;
  EXPECT_EQ(-1, ttl({}));
}

// Catches: the answer to another query: of another name, type, or with other bits.
TEST_F(DnsCache, EachQueryHasItsAnswer) {
  add({}, {.answers = {addressRecord("192.0.2.1")}});
  EXPECT_EQ(60, ttl({.name = "A.TEST", .id = 99}));
  EXPECT_EQ(-1, ttl({.name = "b.test"}));
  EXPECT_EQ(-1, ttl({.type = kAddress6}));
  EXPECT_EQ(-1, ttl({.flags = 0}));       // without recursion
  EXPECT_EQ(-1, ttl({.flags = 0x0110}));  // unchecked
  EXPECT_EQ(-1, ttl({.udp = 1232}));
  add({.udp = 1232, .dnssec = true}, {.answers = {addressRecord("192.0.2.1", 5)}});
  EXPECT_EQ(-1, ttl({.udp = 1232}));
  EXPECT_EQ(5, ttl({.udp = 4096, .dnssec = true}));
}

// Catches: a newer answer that is not taken, or beside which the old one stays.
TEST_F(DnsCache, ANewerAnswerReplaces) {
  add({}, {.answers = {addressRecord("192.0.2.1", 60)}});
  add({}, {.answers = {addressRecord("192.0.2.1", 9)}});
  EXPECT_EQ(9, ttl({}));
  add({}, {.answers = {addressRecord("192.0.2.1", 0)}});
  EXPECT_EQ(-1, ttl({}));
  add({}, {.answers = {addressRecord("192.0.2.1", 60)}});
  cache.clear();
  EXPECT_EQ(-1, ttl({}));
}

// Catches: a cache that grows with the names that pods ask for, by count or by bytes; one that
// drops what is in use.
TEST_F(DnsCache, IsBounded) {
  auto nameOf = [](size_t i) { return kj::str("n", i, ".test"); };
  for (size_t i = 0; i < Cache::kMostAnswers + 10; ++i) {
    auto name = nameOf(i);
    add({.name = name}, {.answers = {addressRecord("192.0.2.1")}});
    EXPECT_EQ(60, ttl({.name = "n0.test"})) << i;
  }
  EXPECT_EQ(Cache::kMostAnswers, cache.size());
  EXPECT_EQ(-1, ttl({.name = "n1.test"}));
  cache.clear();
  constexpr size_t kLarge = 60000;
  TestResponse large{.answers = {{16, 60, std::string(kLarge, 'x')}}};  // TXT
  for (size_t i = 0; i < 2 * Cache::kMostBytes / kLarge; ++i) {
    auto name = nameOf(i);
    add({.name = name, .type = 16}, large);
  }
  EXPECT_LE(cache.size(), Cache::kMostBytes / kLarge);
  EXPECT_GT(cache.size(), Cache::kMostBytes / kLarge / 2);
}

}  // namespace
}  // namespace talos::networkd::dns
