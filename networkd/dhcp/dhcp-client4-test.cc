// The client and its server: offers, renewals, refusals.
#include "networkd/dhcp/test-dhcp-client4.h"

namespace talos::networkd::dhcp {
namespace {

using namespace model4;

TEST(Client4, GetsAnAddressAndRenewsItInTime) {
  Client4Bench bench;
  bench.up();
  bench.run(10 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), kBoot);
  EXPECT_EQ(bench.client().state(), State::kBound);
  ASSERT_EQ(bench.sent.size(), 2u);
  auto &discover = bench.sent[0], &request = bench.sent[1];
  EXPECT_EQ(discover.exchange, request.exchange);
  EXPECT_TRUE(request.server == ip("10.0.0.1") && request.requested == ip("10.0.0.9"));
  EXPECT_TRUE(request.client.isAny());
  EXPECT_EQ(request.hostname, "node");
  EXPECT_TRUE(request.clientIdentifier == Writer().u8(1).bytes(kMac).finish());
  auto& lease = KJ_ASSERT_NONNULL(bench.client().lease());
  EXPECT_EQ(kj::strArray(
                KJ_MAP(r, lease.routes) { return kj::str(r.destination, ">", r.gateway); }, " "),
            "0.0.0.0/0>10.0.0.1");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.renew) - lease.obtained == 1800 * kj::SECONDS);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.rebind) - lease.obtained == 3150 * kj::SECONDS);
  bench.run(1795 * kj::SECONDS);
  // The request goes to the server by its identifier, from our address, with a new exchange.
  EXPECT_EQ(bench.takeLog(), "REQUEST unicast, bound 10.0.0.9/24");
  auto& renewal = bench.sent[2];
  EXPECT_NE(renewal.exchange, request.exchange);
  EXPECT_TRUE(renewal.client == ip("10.0.0.9") && renewal.server == nullptr &&
              renewal.requested == nullptr);
}

// Catches: a client that gives up, floods, or waits too long before the first retry.
TEST(Client4, AsksForEverWithGrowingPauses) {
  Client4Bench bench;
  bench.server.silent = true;
  bench.up();
  kj::Vector<kj::Duration> pauses;
  for (unsigned i = 0; i < 10; ++i) {
    pauses.add(KJ_ASSERT_NONNULL(bench.client().deadline()) - bench.now);
    bench.run(pauses.back());
  }
  unsigned expected[] = {4, 8, 16, 32, 64, 64, 64, 64, 64, 64};
  for (unsigned i = 0; i < 10; ++i) {
    auto off = (pauses[i] - expected[i] * kj::SECONDS) / kj::MILLISECONDS;
    EXPECT_TRUE(off >= -1000 && off <= 1000) << i << ": " << off;
  }
  EXPECT_EQ(bench.sent.size(), 11u);
  for (auto& m : bench.sent) EXPECT_EQ(m.exchange, bench.sent[0].exchange);
  EXPECT_GT(bench.sent[10].seconds, 300);
  bench.server.silent = false;
  bench.run(70 * kj::SECONDS);
  EXPECT_EQ(bench.address(), "10.0.0.9/24");
}

TEST(Client4, AServerThatOffersAndThenSaysNothingIsLeft) {
  Client4Bench bench;
  bench.up();
  bench.run(1 * kj::MILLISECONDS);
  bench.run(1 * kj::MILLISECONDS);
  EXPECT_EQ(bench.client().state(), State::kRequesting);
  bench.server.silent = true;
  bench.run(40 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "DISCOVER, REQUEST, REQUEST, REQUEST, DISCOVER, DISCOVER");
  EXPECT_NE(bench.sent[4].exchange, bench.sent[0].exchange);
}

// Catches: the MTU requested in a discovery, request or renewal from a server that does not answer
// to it; another option lost with the MTU.
TEST(Client4, AServerThatHasNoMtuIsNotAskedForIt) {
  auto asked = [](bool mtu) {
    Client4Bench bench;
    bench.held = kj::heap<Client4>(Settings4{copyOf(kMac), kj::str("node"), mtu}, nullptr);
    bench.up();
    bench.run(2 * kj::HOURS);
    EXPECT_GT(bench.sent.size(), 2u);
    auto first = kj::strArray(bench.sent[0].parameters, " ");
    for (auto& message : bench.sent) EXPECT_EQ(kj::strArray(message.parameters, " "), first);
    return first;
  };
  EXPECT_EQ(asked(true), "1 121 3 6 12 15 26 42 51 58 59 119"_kj);
  EXPECT_EQ(asked(false), "1 121 3 6 12 15 42 51 58 59 119"_kj);
}

// Catches: accepting an answer for another machine, to another exchange, or of another server.
TEST(Client4, AnswersThatAreNotItsOwnDoNotCount) {
  Client4Bench bench;
  bench.server.silent = true;
  bench.up();
  auto forged = [&](Type type) {
    Server helper;
    auto& question = bench.sent.back();
    auto answer = helper.answer(question, bench.now);
    auto reply = kj::mv(KJ_ASSERT_NONNULL(answer));
    reply.type = type;
    return reply;
  };
  auto ignored = [&](Message4 m, State state) {
    bench.say(m);
    EXPECT_EQ(bench.client().state(), state) << static_cast<int>(m.type);
  };
  auto spoil = [&](auto&& change, Type type, State state) {
    auto m = forged(type);
    change(m);
    ignored(kj::mv(m), state);
  };
  for (auto state : {State::kSelecting, State::kRequesting}) {
    auto type = state == State::kSelecting ? Type::kOffer : Type::kAck;
    spoil([](Message4& m) { m.exchange ^= 1; }, type, state);
    spoil([](Message4& m) { m.hardwareAddress[5] = 9; }, type, state);
    spoil([](Message4& m) { m.hardwareAddress = nullptr; }, type, state);
    spoil([](Message4& m) { m.reply = false; }, type, state);
    spoil([](Message4& m) { m.server = nullptr; }, type, state);
    spoil([](Message4& m) { m.lease = 0u; }, type, state);
    for (auto bad : {"0.0.0.0"_kj, "127.0.0.1"_kj, "224.0.0.5"_kj, "255.255.255.255"_kj}) {
      spoil([&](Message4& m) { m.yours = ip(bad); }, type, state);
    }
    if (state == State::kSelecting) {
      spoil([](Message4&) {}, Type::kAck, state);
      spoil([](Message4&) {}, Type::kNak, state);
      bench.say(forged(Type::kOffer));
    } else {
      spoil([](Message4& m) { m.server = ip("10.0.0.2"); }, type, state);
      spoil([](Message4& m) { m.server = ip("10.0.0.2"); }, Type::kNak, state);
      spoil([](Message4& m) { m.yours = ip("10.0.0.66"); }, type, state);
    }
  }
  bench.say(forged(Type::kAck));
  EXPECT_EQ(bench.client().state(), State::kProbing);
}

// Catches: an address that two machines use; a server that is flooded with requests for this
// address.
TEST(Client4, AnAddressThatAnswersIsDeclinedAndAnotherTaken) {
  Client4Bench bench;
  bench.taken = ip("10.0.0.9");
  bench.up();
  bench.run(5 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "DISCOVER, REQUEST, probe, DECLINE");
  auto& decline = bench.sent[2];
  EXPECT_TRUE(decline.server == ip("10.0.0.1") && decline.requested == ip("10.0.0.9"));
  EXPECT_TRUE(decline.client.isAny() && decline.hostname.size() == 0);
  EXPECT_EQ(bench.address(), "none");
  bench.run(20 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(),
            "DISCOVER, REQUEST, probe, probe, probe, bound 10.0.0.10/24, announce, announce");
  EXPECT_TRUE(bench.sent[3].requested == nullptr) << "the taken one is not asked for";
}

// Catches: a request for the previous address although another machine took it after the lease had
// ended.
TEST(Client4, AnAddressThatWasLostAndTakenIsNotAskedForAgain) {
  Client4Bench bench;
  bench.up();
  bench.run(10 * kj::SECONDS);
  bench.server.silent = true;
  bench.run(3700 * kj::SECONDS);
  ASSERT_EQ(bench.address(), "none");
  EXPECT_TRUE(bench.sent.back().requested == ip("10.0.0.9"));
  bench.taken = ip("10.0.0.9");
  bench.server.silent = false;
  bench.run(200 * kj::SECONDS);
  EXPECT_EQ(bench.address(), "10.0.0.10/24");
  bool declined = false;
  for (auto& m : bench.sent) {
    if (declined && m.type == Type::kDiscover) {
      EXPECT_TRUE(m.requested == nullptr);
    }
    declined = declined || m.type == Type::kDecline;
  }
  EXPECT_TRUE(declined);
}

TEST(Client4, RenewsThenAsksAllThenLetsGo) {
  Client4Bench bench;
  bench.up();
  bench.run(10 * kj::SECONDS);
  bench.takeLog();
  bench.server.silent = true;
  bench.run(3130 * kj::SECONDS);  // T2 is at 3150
  EXPECT_EQ(bench.client().state(), State::kRenewing);
  auto renewals = bench.takeLog();
  EXPECT_TRUE(renewals.startsWith("REQUEST unicast, REQUEST unicast")) << renewals.cStr();
  EXPECT_LT(renewals.size(), 300u) << "one a minute at most";
  EXPECT_EQ(bench.address(), "10.0.0.9/24");
  bench.run(430 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kRebinding);
  auto rebinding = bench.takeLog();
  EXPECT_TRUE(rebinding.findFirst('R') != nullptr && rebinding.startsWith("REQUEST"))
      << rebinding.cStr();
  EXPECT_TRUE(bench.sent.back().server == nullptr && bench.sent.back().client == ip("10.0.0.9"));
  EXPECT_EQ(bench.address(), "10.0.0.9/24");
  bench.run(40 * kj::SECONDS);
  auto end = bench.takeLog();
  EXPECT_TRUE(end.startsWith("lost: it has expired, DISCOVER") ||
              end.startsWith("REQUEST, lost: it has expired, DISCOVER"))
      << end.cStr();
  EXPECT_EQ(bench.address(), "none");
  EXPECT_TRUE(bench.sent.back().requested == ip("10.0.0.9")) << "it would like the same again";
  bench.server.silent = false;
  bench.run(70 * kj::SECONDS);
  EXPECT_EQ(bench.address(), "10.0.0.9/24");
}

// Catches: an answer to the last of many requests whose lease counts from the first request and so
// has already expired; no lease would ever be accepted.
TEST(Client4, ALeaseThatBecomesShorterWhileNobodyAnswers) {
  Client4Bench bench;
  bench.server.seconds = 7 * 86400;
  bench.up();
  bench.run(10 * kj::SECONDS);
  bench.server.silent = true;
  bench.run(5 * 86400 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kRenewing);
  bench.server.silent = false;
  bench.server.seconds = 600;
  bench.run(86400 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kBound);
  EXPECT_EQ(KJ_ASSERT_NONNULL(bench.client().lease()).seconds, 600u);
  EXPECT_TRUE(bench.takeLog().findFirst('l') == nullptr) << "the address was lost";
}

// A server that shares the first one's leases may answer once the client broadcasts.
TEST(Client4, AnotherServerMayExtendItAfterT2) {
  Client4Bench bench;
  bench.up();
  bench.run(10 * kj::SECONDS);
  bench.server.identifier = ip("10.0.0.2");
  bench.run(3130 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kRenewing);
  bench.run(20 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kBound);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(bench.client().lease()).server == ip("10.0.0.2"));
}

TEST(Client4, ARefusalEndsTheLeaseInEveryState) {
  struct Row {
    State state;
    kj::Duration wait;
  } rows[] = {{State::kRenewing, 1805 * kj::SECONDS},
              {State::kRebinding, 3155 * kj::SECONDS},
              {State::kConfirming, 20 * kj::SECONDS}};
  for (auto& row : rows) {
    Client4Bench bench;
    bench.up();
    bench.run(10 * kj::SECONDS);
    bench.server.silent = true;
    if (row.state == State::kConfirming) {
      bench.down();
      bench.up();
    }
    bench.run(row.wait - 10 * kj::SECONDS);
    bench.takeLog();
    ASSERT_EQ(bench.client().state(), row.state);
    bench.server.silent = false;
    bench.server.address = ip("10.0.0.10");
    bench.run(800 * kj::SECONDS);
    auto log = bench.takeLog();
    auto expected = kj::str(
        "lost: the server refused it: wrong network, DISCOVER, REQUEST, probe, "
        "probe, probe, bound 10.0.0.10/24, announce, announce");
    EXPECT_TRUE(log.endsWith(expected)) << nameOf(row.state).cStr() << ": " << log.cStr();
  }
}

// Catches: a flood between a server that refuses its own offers and a client that retries at once.
TEST(Client4, OffersThatAreRefusedSlowItDown) {
  Client4Bench bench;
  bench.server.knows = false;
  bench.up();
  bench.run(600 * kj::SECONDS);
  EXPECT_LT(bench.sent.size(), 40u);
  EXPECT_GT(bench.sent.size(), 10u);
  bench.server.knows = true;
  bench.run(70 * kj::SECONDS);
  EXPECT_EQ(bench.address(), "10.0.0.9/24");
}

// Catches: an address that is used although its answer took longer than the lease.
TEST(Client4, AnAnswerThatIsOverBeforeItComes) {
  Client4Bench bench;
  bench.server.seconds = 1;
  bench.delay = 700 * kj::MILLISECONDS;
  bench.up();
  bench.run(60 * kj::SECONDS);
  auto log = bench.takeLog();
  EXPECT_TRUE(strstr(log.cStr(), "REQUEST") != nullptr) << log.cStr();
  EXPECT_TRUE(strstr(log.cStr(), "bound") == nullptr) << log.cStr();
}

// Catches: an address that is announced while the cable is unplugged.
TEST(Client4, NothingButTheEndOfTheLeaseMattersWithoutCarrier) {
  Client4Bench bench;
  bench.up();
  while (bench.client().state() != State::kBound) bench.run(10 * kj::MILLISECONDS);
  bench.down();
  EXPECT_TRUE(bench.client().deadline() == KJ_ASSERT_NONNULL(bench.client().lease()).expires);
  bench.takeLog();
  bench.run(4000 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "lost: it has expired");
}

// A cable that is plugged in again may lead to another network, where the count of refusals starts
// from 0.
TEST(Client4, RefusalsBeforeTheCableWasOutDoNotCount) {
  Client4Bench bench;
  bench.server.knows = false;
  bench.up();
  bench.run(600 * kj::SECONDS);
  bench.down();
  bench.takeLog();
  bench.up();
  bench.run(1 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "DISCOVER, REQUEST, DISCOVER, REQUEST");
}

TEST(Client4, ALeaseOfASecondIsNoFlood) {
  Client4Bench bench;
  bench.server.seconds = 1;
  bench.up();
  bench.run(60 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kBound);
  EXPECT_LT(bench.sent.size(), 200u);
}

}  // namespace
}  // namespace talos::networkd::dhcp
