// The DHCPv6 client against servers that exist only in the test; see dhcp-client4-test.cc.
#include "networkd/dhcp/test-dhcp-client6.h"

namespace talos::networkd::dhcp {
namespace {

using namespace model6;

TEST(Client6, GetsAnAddressInOneExchange) {
  Client6Bench bench;
  bench.up();
  EXPECT_EQ(bench.takeLog(), "SOLICIT, bound");
  auto& solicit = bench.sent[0];
  EXPECT_TRUE(solicit.client == linkLayerIdentifier(1, kMac6));
  EXPECT_EQ(solicit.associations[0].id, kNumber);
  auto& lease = KJ_ASSERT_NONNULL(bench.client().lease());
  EXPECT_TRUE(lease.address == ip("fd00::9"));
  EXPECT_EQ(kj::strArray(lease.resolvers, " "), "fd00::53");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.renew) - lease.obtained == 1500 * kj::SECONDS);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.rebind) - lease.obtained == 2400 * kj::SECONDS);
  bench.run(1600 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "RENEW, bound");
  EXPECT_TRUE(bench.sent[1].server == kServer);
}

// Catches: a DUID of the config that the server does not see, or in whose place an answer to
// another one is taken.
TEST(Client6, IdentifiesItselfByTheGivenDuid) {
  const kj::byte given[] = {0, 2, 0, 0, 0xab, 0x11, 7};
  Client6Bench bench(true, nullptr, given);
  bench.silent = true;
  bench.up();
  auto& solicit = bench.sent[0];
  EXPECT_TRUE(solicit.client.asPtr() == Bytes(given));
  EXPECT_EQ(solicit.associations[0].id, kNumber);
  auto reply = bench.replyTo(solicit);
  reply.client = linkLayerIdentifier(1, kMac6);
  bench.say(reply);
  EXPECT_EQ(bench.client().state(), State::kSelecting);
  bench.say(bench.replyTo(solicit));
  EXPECT_EQ(bench.client().state(), State::kBound);
}

// Catches: the first offer taken although a better offer follows (RFC 8415 §18.2.1).
TEST(Client6, TakesTheBestOfferOfTheFirstSecond) {
  Client6Bench bench;
  bench.silent = true;
  bench.rapid = false;
  bench.up();
  auto solicit = kj::mv(bench.sent[0]);
  bench.preference = 3;
  bench.say(bench.replyTo(solicit, kOther));
  bench.preference = 7;
  bench.say(bench.replyTo(solicit));
  bench.preference = 1;
  bench.say(bench.replyTo(solicit, kOther));
  EXPECT_EQ(bench.client().state(), State::kSelecting);
  bench.run(2 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kRequesting);
  EXPECT_TRUE(bench.sent[1].server == kServer);
  EXPECT_TRUE(bench.sent[1].associations[0].addresses[0].address == ip("fd00::9"));
  // Preference 255: the client requests at once.
  Client6Bench hurried;
  hurried.silent = true;
  hurried.rapid = false;
  hurried.up();
  hurried.preference = 255;
  hurried.say(hurried.replyTo(hurried.sent[0]));
  EXPECT_EQ(hurried.client().state(), State::kRequesting);
}

TEST(Client6, AnswersThatAreNotItsOwnDoNotCount) {
  Client6Bench bench;
  bench.silent = true;
  bench.up();
  auto spoiled = [&](auto&& change) {
    auto reply = bench.replyTo(bench.sent[0]);
    change(reply);
    bench.say(reply);
    return bench.client().state() == State::kSelecting;
  };
  EXPECT_TRUE(spoiled([](Message6& m) { m.exchange ^= 1; }));
  EXPECT_TRUE(spoiled([](Message6& m) { m.client[9] ^= 1; }));
  EXPECT_TRUE(spoiled([](Message6& m) { m.client = nullptr; }));
  EXPECT_TRUE(spoiled([](Message6& m) { m.server = nullptr; }));
  EXPECT_TRUE(spoiled([](Message6& m) { m.rapidCommit = false; }))
      << "a commit that was not asked for";
  EXPECT_TRUE(spoiled([](Message6& m) { m.associations.clear(); }));
  EXPECT_TRUE(spoiled([](Message6& m) { m.associations[0].id = 5; }));
  EXPECT_TRUE(spoiled([](Message6& m) { m.associations[0].addresses[0].valid = 0; }));
  EXPECT_TRUE(spoiled([](Message6& m) { m.associations[0].addresses[0].address = ip("fe80::1"); }));
  EXPECT_TRUE(spoiled([](Message6& m) {
    m.associations[0].addresses[0].status = Status6{Status6::kNotOnLink, {}};
  }));
  EXPECT_TRUE(spoiled([](Message6& m) { m.status = Status6{Status6::kUnspecified, {}}; }));
  EXPECT_TRUE(spoiled([](Message6& m) { m.type = Type6::kRenew; }));
  EXPECT_FALSE(spoiled([](Message6&) {}));
}

// Catches: a request or a renewal that a server answers to which it was not addressed.
TEST(Client6, OnlyTheServerThatWasAskedAnswers) {
  Client6Bench bench;
  bench.rapid = false;
  bench.silent = true;
  bench.up();
  bench.preference = 255;
  bench.say(bench.replyTo(bench.sent[0]));
  ASSERT_EQ(bench.client().state(), State::kRequesting);
  bench.say(bench.replyTo(bench.sent.back(), kOther));
  EXPECT_EQ(bench.client().state(), State::kRequesting);
  bench.say(bench.replyTo(bench.sent.back()));
  ASSERT_EQ(bench.client().state(), State::kBound);
  bench.run(1510 * kj::SECONDS);
  ASSERT_EQ(bench.client().state(), State::kRenewing);
  bench.say(bench.replyTo(bench.sent.back(), kOther));
  EXPECT_EQ(bench.client().state(), State::kRenewing);
  bench.run(892 * kj::SECONDS);
  ASSERT_EQ(bench.client().state(), State::kRebinding) << "at T2, not behind the pause";
  bench.say(bench.replyTo(bench.sent.back(), kOther));
  EXPECT_EQ(bench.client().state(), State::kBound);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(bench.client().lease()).server == kOther);
}

TEST(Client6, RenewsThenAsksAllThenLetsGo) {
  Client6Bench bench;
  bench.up();
  bench.silent = true;
  bench.takeLog();
  bench.run(2390 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kRenewing);
  EXPECT_TRUE(bench.takeLog().startsWith("RENEW, RENEW"));
  bench.run(1600 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kRebinding);
  EXPECT_TRUE(bench.sent.back().server.size() == 0);
  EXPECT_LT(bench.sent.size(), 20u);
  bench.takeLog();
  bench.run(20 * kj::SECONDS);
  auto log = bench.takeLog();
  EXPECT_TRUE(log.startsWith("lost: it has expired, SOLICIT")) << log.cStr();
  bench.silent = false;
  bench.run(200 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kBound);
}

// Catches: an address that is taken from a node in use because its server has lost its records (RFC
// 8415 §18.2.10.1), and an address that stays in use although no server grants it any more.
TEST(Client6, AServerThatHasForgottenALeaseIsRequestedForIt) {
  Client6Bench bench;
  bench.up();
  bench.takeLog();
  bench.knows = false;
  bench.run(1501 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "RENEW, REQUEST, bound");
  auto& m = bench.sent.back();
  EXPECT_TRUE(m.server == kServer);
  ASSERT_EQ(m.associations[0].addresses.size(), 1u);
  EXPECT_TRUE(m.associations[0].addresses[0].address == ip("fd00::9"));

  Client6Bench left;
  left.knows = false;
  left.up();
  left.takeLog();
  left.silent = true;
  left.run(1501 * kj::SECONDS);
  left.say(left.replyTo(left.sent.back()));
  EXPECT_EQ(left.client().state(), State::kRequesting);
  left.run(30 * kj::SECONDS);
  EXPECT_TRUE(left.client().lease() != nullptr) << "in use while it is requested";
  left.run(3000 * kj::SECONDS);
  EXPECT_TRUE(left.client().lease() == nullptr) << "it has expired";
  EXPECT_TRUE(left.takeLog().endsWith("SOLICIT")) << "nobody answers";

  Client6Bench refused;
  refused.knows = false;
  refused.up();
  refused.takeLog();
  refused.refuses = true;
  refused.run(1501 * kj::SECONDS);
  auto log = refused.takeLog();
  EXPECT_TRUE(log.startsWith("RENEW, REQUEST, lost: the server gives it no longer, SOLICIT"))
      << log.cStr();
}

TEST(Client6, AServerThatHasNothing) {
  Client6Bench poor;
  poor.none = true;
  poor.rapid = false;
  poor.up();
  poor.run(3600 * kj::SECONDS);
  EXPECT_EQ(poor.client().state(), State::kSelecting);
  EXPECT_LT(poor.sent.size(), 16u);
  poor.none = false;
  poor.run(4000 * kj::SECONDS);
  EXPECT_EQ(poor.client().state(), State::kBound);
}

// Catches: lifetimes counted from the first of many requests: a machine that starts hours before
// the network's server would never get an address.
TEST(Client6, AServerThatComesHoursLater) {
  for (bool rapid : {true, false}) {
    Client6Bench bench;
    bench.rapid = rapid;
    bench.silent = true;
    bench.up();
    bench.run(86400 * kj::SECONDS);
    bench.silent = false;
    bench.run(4000 * kj::SECONDS);
    EXPECT_EQ(bench.client().state(), State::kBound) << rapid;
    auto& lease = KJ_ASSERT_NONNULL(bench.client().lease());
    EXPECT_TRUE(lease.obtained == bench.now || bench.now - lease.obtained < 4000 * kj::SECONDS);
  }
}

// Catches: the same error in a renewal; and the new lease is shorter than the time without an
// answer.
TEST(Client6, ALeaseThatBecomesShorterWhileNobodyAnswers) {
  Client6Bench bench;
  bench.preferred = bench.valid = 7 * 86400;
  bench.up();
  bench.silent = true;
  bench.run(5 * 86400 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kRenewing);
  bench.silent = false;
  bench.preferred = bench.valid = 600;
  bench.run(3600 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kBound);
  EXPECT_EQ(KJ_ASSERT_NONNULL(bench.client().lease()).seconds, 600u);
}

TEST(Client6, ALeaseOfASecondIsNoFlood) {
  Client6Bench bench;
  bench.preferred = bench.valid = 1;
  bench.up();
  bench.run(60 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kBound);
  EXPECT_LT(bench.sent.size(), 200u);
}

// Catches: a flood between a server that does not grant its own offers and a client that retries at
// once.
TEST(Client6, OffersThatAreRefusedSlowItDown) {
  Client6Bench bench;
  bench.rapid = false;
  bench.preference = 255;
  bench.refuses = true;
  bench.up();
  bench.run(600 * kj::SECONDS);
  EXPECT_LT(bench.sent.size(), 60u);
  EXPECT_GT(bench.sent.size(), 10u);
  bench.refuses = false;
  bench.run(3700 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kBound);
  // A refusal before an address was given is not counted.
  bench.knows = false;
  bench.refuses = true;
  auto renew = KJ_ASSERT_NONNULL(KJ_ASSERT_NONNULL(bench.client().lease()).renew);
  bench.takeLog();
  bench.run(renew - bench.now + 2 * kj::SECONDS);
  auto log = bench.takeLog();
  EXPECT_TRUE(log.startsWith("RENEW, REQUEST, lost: the server gives it no longer, SOLICIT"))
      << log.cStr();
}

TEST(Client6, AKilledOneGoesOnWithItsLease) {
  Client6Bench bench;
  bench.up();
  bench.run(100 * kj::SECONDS);
  auto file = encode(KJ_ASSERT_NONNULL(bench.client().lease()));
  auto duid = linkLayerIdentifier(1, kMac6);
  for (auto place : {"same", "silent", "other"}) {
    Client6Bench next(true, decodeLease6(file, kNumber, duid, bench.now));
    next.now = bench.now;
    EXPECT_TRUE(KJ_ASSERT_NONNULL(next.client().lease()).address == ip("fd00::9"));
    next.silent = place == kj::StringPtr("silent");
    next.knows = place != kj::StringPtr("other");
    next.up();
    next.run(30 * kj::SECONDS);
    auto log = next.takeLog();
    if (place == kj::StringPtr("same")) {
      EXPECT_EQ(log, "CONFIRM, bound");
    } else if (place == kj::StringPtr("silent")) {
      EXPECT_EQ(log, "CONFIRM, CONFIRM, CONFIRM, CONFIRM");
      EXPECT_EQ(next.client().state(), State::kBound);
    } else {
      EXPECT_TRUE(log.startsWith("CONFIRM, lost: it does not belong to this link, SOLICIT"))
          << log.cStr();
    }
  }
  EXPECT_TRUE(decodeLease6(file, 5, duid, bench.now) == nullptr) << "of another card";
  duid.back() ^= 1;
  EXPECT_TRUE(decodeLease6(file, kNumber, duid, bench.now) == nullptr) << "of another client";
  duid.back() ^= 1;
  file[30] ^= 1;
  EXPECT_TRUE(decodeLease6(file, kNumber, duid, bench.now) == nullptr);
}

TEST(Client6, AsksForInformationOnly) {
  Client6Bench bench(false);
  bench.up();
  EXPECT_EQ(bench.takeLog(), "INFORMATION, bound");
  EXPECT_EQ(bench.sent[0].associations.size(), 0u);
  auto& lease = KJ_ASSERT_NONNULL(bench.client().lease());
  EXPECT_TRUE(lease.address == nullptr && lease.expires == nullptr);
  EXPECT_EQ(kj::strArray(lease.resolvers, " "), "fd00::53");
  bench.run(86000 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "");
  bench.run(500 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "INFORMATION, bound");
}

// RFC 8415 §21.24, 21.25: a server that has no address says how rarely clients may solicit.
TEST(Client6, PausesGrowAsFarAsTheServerSays) {
  struct Row {
    bool address;
    uint32_t solicit, information;
    int64_t longest;  // s, +-10 %
  } rows[] = {{true, 120, 3000, 120},  {false, 3000, 120, 120}, {true, 59, 3000, 3600},
              {false, 3000, 59, 3600}, {true, 86401, 0, 3600},  {true, 86400, 0, 86400}};
  for (auto& row : rows) {
    Client6Bench bench(row.address);
    bench.silent = true;
    bench.up();
    auto nothing = bench.replyTo(bench.sent[0]);
    nothing.type = row.address ? Type6::kAdvertise : Type6::kReply;
    nothing.status = Status6{Status6::kNoAddresses, {}};
    nothing.longestSolicit = row.solicit;
    nothing.longestInformation = row.information;
    bench.say(nothing);
    bench.run(12 * row.longest * kj::SECONDS);
    auto pause = (KJ_ASSERT_NONNULL(bench.client().deadline()) - bench.now) / kj::SECONDS;
    bench.run(pause * kj::SECONDS + 1 * kj::SECONDS);
    pause = (KJ_ASSERT_NONNULL(bench.client().deadline()) - bench.now) / kj::SECONDS;
    EXPECT_GE(pause, row.longest * 9 / 10 - 2) << row.address << ' ' << row.solicit;
    EXPECT_LE(pause, row.longest * 11 / 10 + 2) << row.address << ' ' << row.solicit;
  }
}

TEST(Client6, ALeaseForEverIsNeverRenewed) {
  Client6Bench bench;
  bench.preferred = bench.valid = kInfinite;
  bench.up();
  EXPECT_TRUE(bench.client().deadline() == nullptr);
}

}  // namespace
}  // namespace talos::networkd::dhcp
