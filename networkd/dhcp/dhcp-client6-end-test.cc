// Addresses that leave the link: those released (RELEASE) and those declined (DECLINE).
#include "networkd/dhcp/test-dhcp-client6.h"

namespace talos::networkd::dhcp {
namespace {

using namespace model6;

// Catches: a RELEASE without the data that the server finds the address by (RFC 8415 §16.9,
// 18.2.7); a RELEASE that is sent while the address is in use; an endless RELEASE.
TEST(Client6, WhatIsNoLongerWantedIsGivenBack) {
  Client6Bench bench;
  bench.up();
  bench.takeLog();
  auto renewing = bench.sent.back().exchange;
  bench.perform(bench.client().release(bench.moment()));
  EXPECT_EQ(bench.takeLog(), "lost: it is no longer wanted");
  EXPECT_EQ(bench.client().state(), State::kReleasing);
  EXPECT_FALSE(bench.client().ended()) << "it is still in use";
  EXPECT_FALSE(bench.client().listens());
  EXPECT_TRUE(KJ_ASSERT_NONNULL(bench.client().leaving()) == ip("fd00::9"));
  bench.silent = true;
  bench.perform(bench.client().removed(bench.moment()));
  EXPECT_EQ(bench.takeLog(), "RELEASE");
  auto& m = bench.sent.back();
  EXPECT_TRUE(m.server == kServer);
  EXPECT_TRUE(m.client == linkLayerIdentifier(1, kMac6));
  EXPECT_NE(m.exchange, renewing);
  EXPECT_TRUE(m.elapsed != nullptr);
  EXPECT_EQ(m.wanted.size(), 0u);
  ASSERT_EQ(m.associations.size(), 1u);
  EXPECT_EQ(m.associations[0].id, kNumber);
  ASSERT_EQ(m.associations[0].addresses.size(), 1u);
  EXPECT_TRUE(m.associations[0].addresses[0].address == ip("fd00::9"));
  bench.say(bench.replyTo(m, kOther));
  EXPECT_FALSE(bench.client().ended()) << "another server's word";
  auto answer = bench.replyTo(m);
  answer.associations[0].status = Status6{Status6::kNoBinding, {}};
  bench.say(answer);
  EXPECT_TRUE(bench.client().ended()) << "whatever it says";
  bench.up();
  bench.perform(bench.client().removed(bench.moment()));
  bench.run(10000 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "") << "nothing is asked for any more";
}

TEST(Client6, AReleaseThatNobodyAnswersIsSaidFourTimes) {
  Client6Bench bench;
  bench.up();
  bench.takeLog();
  bench.silent = true;
  bench.perform(bench.client().release(bench.moment()));
  bench.perform(bench.client().removed(bench.moment()));
  auto exchange = bench.sent.back().exchange;
  auto began = bench.now;
  bench.run(12 * kj::SECONDS);
  EXPECT_FALSE(bench.client().ended());
  bench.run(20 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "lost: it is no longer wanted, RELEASE, RELEASE, RELEASE, RELEASE");
  EXPECT_TRUE(bench.client().ended());
  EXPECT_EQ(bench.sent.back().exchange, exchange);
  EXPECT_GT(KJ_ASSERT_NONNULL(bench.sent.back().elapsed), 600u) << "6.3 s at least";
  EXPECT_LT(bench.now - began, 40 * kj::SECONDS);
}

// Catches: an address that the config sets too, or that never leaves the link, and that the server
// gives to another machine.
TEST(Client6, AnAddressThatStaysInUseIsNotGivenBack) {
  Client6Bench bench;
  bench.up();
  bench.takeLog();
  bench.perform(bench.client().release(bench.moment()));
  bench.run(4 * kj::SECONDS);
  EXPECT_FALSE(bench.client().ended());
  bench.run(2 * kj::SECONDS);
  EXPECT_TRUE(bench.client().ended());
  bench.perform(bench.client().removed(bench.moment()));
  EXPECT_EQ(bench.takeLog(), "lost: it is no longer wanted");
}

TEST(Client6, WhatThereIsNothingToGiveBackOf) {
  {  // No address was given yet.
    Client6Bench bench;
    bench.silent = true;
    bench.up();
    bench.takeLog();
    bench.perform(bench.client().release(bench.moment()));
    EXPECT_TRUE(bench.client().ended());
    bench.run(1000 * kj::SECONDS);
    EXPECT_EQ(bench.takeLog(), "");
  }
  {  // no carrier
    Client6Bench bench;
    bench.up();
    bench.perform(bench.client().linkDown());
    bench.takeLog();
    bench.perform(bench.client().release(bench.moment()));
    EXPECT_TRUE(bench.client().ended());
    EXPECT_EQ(bench.takeLog(), "lost: it is no longer wanted");
  }
  {  // Its time has ended, and the timer has not run.
    Client6Bench bench;
    bench.up();
    bench.now += 4000 * kj::SECONDS;
    bench.takeLog();
    bench.perform(bench.client().release(bench.moment()));
    EXPECT_TRUE(bench.client().ended());
    EXPECT_EQ(bench.takeLog(), "lost: it is no longer wanted");
  }
  {  // The link goes down during the exchange.
    Client6Bench bench;
    bench.up();
    bench.silent = true;
    bench.perform(bench.client().release(bench.moment()));
    bench.perform(bench.client().removed(bench.moment()));
    bench.perform(bench.client().linkDown());
    EXPECT_TRUE(bench.client().ended());
  }
  {  // Information only: another client on the same link may have a lease.
    Client6Bench bench(false);
    bench.up();
    bench.takeLog();
    bench.perform(bench.client().release(bench.moment()));
    EXPECT_TRUE(bench.client().ended());
    EXPECT_EQ(bench.takeLog(), "");
    EXPECT_EQ(bench.sent.size(), 1u);
  }
}

// RFC 8415 §18.2.8. Catches: an address that is kept although another machine has it; a server that
// is not informed and gives it to the next client; a server that gives it again while the refused
// address is still on the link, where the kernel would never try it again.
TEST(Client6, AnAddressThatAnotherMachineHasIsDeclined) {
  Client6Bench bench;
  bench.up();
  bench.takeLog();
  bench.perform(bench.client().duplicated(bench.moment()));
  EXPECT_EQ(bench.takeLog(), "lost: another host on this network has its address");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(bench.client().leaving()) == ip("fd00::9"));
  bench.perform(bench.client().removed(bench.moment()));
  EXPECT_EQ(bench.takeLog(), "DECLINE, SOLICIT, bound");
  EXPECT_TRUE(bench.client().leaving() == nullptr);
  auto& m = bench.sent[1];
  EXPECT_TRUE(m.type == Type6::kDecline && m.server == kServer);
  EXPECT_TRUE(m.associations[0].id == kNumber &&
              m.associations[0].addresses[0].address == ip("fd00::9"));
  EXPECT_EQ(bench.sent[2].associations[0].addresses.size(), 0u) << "not the same again";
  // The next addresses are in use too: the client becomes ever slower.
  for (unsigned i = 0; i < 8; ++i) {
    bench.refuse();
    EXPECT_EQ(bench.client().state(), State::kInit) << i;
    auto pause = KJ_ASSERT_NONNULL(bench.client().deadline()) - bench.now;
    EXPECT_GE(pause, (2u << i) * kj::SECONDS * 9 / 10) << i;
    bench.takeLog();
    bench.run(pause + 1 * kj::SECONDS);
    EXPECT_EQ(bench.takeLog(), "SOLICIT, bound") << i;
  }
  // This address could be used and renewed, so the count starts from 0.
  auto renew = KJ_ASSERT_NONNULL(KJ_ASSERT_NONNULL(bench.client().lease()).renew);
  bench.run(renew - bench.now + 1 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "RENEW, bound");
  bench.refuse();
  EXPECT_EQ(bench.client().state(), State::kBound) << "at once";
}

// Catches: a client that waits for ever because the config wants the same address.
TEST(Client6, AnAddressThatStaysOnTheLinkIsDeclinedAllTheSame) {
  Client6Bench bench;
  bench.up();
  bench.takeLog();
  bench.perform(bench.client().duplicated(bench.moment()));
  bench.run(4 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "lost: another host on this network has its address");
  bench.run(2 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "DECLINE, SOLICIT, bound");
  bench.perform(bench.client().removed(bench.moment()));
  EXPECT_EQ(bench.takeLog(), "") << "that is over";
}

TEST(Client6, ADeclineThatNobodyAnswersIsSaidFourTimes) {
  Client6Bench bench;
  bench.up();
  bench.takeLog();
  bench.silent = true;
  bench.refuse();
  EXPECT_EQ(bench.client().state(), State::kDeclining);
  bench.perform(bench.client().duplicated(bench.moment()));  // The kernel reports it at each look.
  bench.run(30 * kj::SECONDS);
  auto log = bench.takeLog();
  EXPECT_TRUE(
      log.startsWith("lost: another host on this network has its address, DECLINE, "
                     "DECLINE, DECLINE, DECLINE, SOLICIT"))
      << log.cStr();
  bench.silent = false;
  bench.run(3600 * kj::SECONDS);
  EXPECT_EQ(bench.client().state(), State::kBound);
}

// Catches: a client that requests an address after its end was requested, or that ends before the
// server was informed.
TEST(Client6, ADeclineEndsWhatIsNoLongerWanted) {
  for (bool removedFirst : {true, false}) {
    Client6Bench bench;
    bench.up();
    bench.silent = true;
    bench.perform(bench.client().duplicated(bench.moment()));
    auto remove = [&] { bench.perform(bench.client().removed(bench.moment())); };
    if (removedFirst) remove();
    bench.perform(bench.client().release(bench.moment()));
    if (!removedFirst) remove();
    EXPECT_FALSE(bench.client().ended());
    EXPECT_TRUE(bench.sent.back().type == Type6::kDecline);
    bench.takeLog();
    bench.say(bench.replyTo(bench.sent.back()));
    EXPECT_TRUE(bench.client().ended());
    bench.run(1000 * kj::SECONDS);
    EXPECT_EQ(bench.takeLog(), "");
  }
}

// Catches: a client that requests another address although none is wanted any more.
TEST(Client6, ADeclineThatNobodyAnswersEndsToo) {
  Client6Bench bench;
  bench.up();
  bench.silent = true;
  bench.refuse();
  bench.takeLog();
  bench.perform(bench.client().release(bench.moment()));
  bench.run(60 * kj::SECONDS);
  EXPECT_TRUE(bench.client().ended());
  EXPECT_EQ(bench.takeLog(), "DECLINE, DECLINE, DECLINE");
}

// Catches: a client that waits for the removal of an earlier address, and a client that sends
// without a carrier.
TEST(Client6, ACableThatIsPulledWhileAnAddressIsRefused) {
  for (bool refusedBefore : {true, false}) {
    Client6Bench bench;
    bench.up();
    auto duplicated = [&] { bench.perform(bench.client().duplicated(bench.moment())); };
    if (refusedBefore) duplicated();
    bench.perform(bench.client().linkDown());
    if (!refusedBefore) duplicated();
    bench.takeLog();
    bench.perform(bench.client().removed(bench.moment()));
    bench.run(60 * kj::SECONDS);
    EXPECT_EQ(bench.takeLog(), "");
    EXPECT_TRUE(bench.client().leaving() == nullptr);
    bench.up();
    EXPECT_EQ(bench.takeLog(), "SOLICIT, bound");
  }
}

}  // namespace
}  // namespace talos::networkd::dhcp
