// Addresses that go: what is given back (RELEASE) and what is refused (DECLINE).
#include "networkd/dhcp/test-dhcp-client6.h"

namespace talos::networkd::dhcp {
namespace {

using namespace model6;

// Catches: a RELEASE without what the server finds the address by (RFC 8415 §16.9, 18.2.7), one
// that is sent while the address is in use, and one that is sent for ever.
TEST(Client6, WhatIsNoLongerWantedIsGivenBack) {
  Client6Bench world;
  world.up();
  world.takeLog();
  auto renewing = world.sent.back().exchange;
  world.perform(world.client().release(world.moment()));
  EXPECT_EQ(world.takeLog(), "lost: it is no longer wanted");
  EXPECT_EQ(world.client().state(), State::kReleasing);
  EXPECT_FALSE(world.client().ended()) << "it is still in use";
  EXPECT_FALSE(world.client().listens());
  EXPECT_TRUE(KJ_ASSERT_NONNULL(world.client().leaving()) == ip("fd00::9"));
  world.silent = true;
  world.perform(world.client().removed(world.moment()));
  EXPECT_EQ(world.takeLog(), "RELEASE");
  auto& m = world.sent.back();
  EXPECT_TRUE(m.server == kServer);
  EXPECT_TRUE(m.client == linkLayerIdentifier(1, kMac));
  EXPECT_NE(m.exchange, renewing);
  EXPECT_TRUE(m.elapsed != nullptr);
  EXPECT_EQ(m.wanted.size(), 0u);
  ASSERT_EQ(m.associations.size(), 1u);
  EXPECT_EQ(m.associations[0].id, kNumber);
  ASSERT_EQ(m.associations[0].addresses.size(), 1u);
  EXPECT_TRUE(m.associations[0].addresses[0].address == ip("fd00::9"));
  world.say(world.replyTo(m, kOther));
  EXPECT_FALSE(world.client().ended()) << "another server's word";
  auto answer = world.replyTo(m);
  answer.associations[0].status = Status6{Status6::kNoBinding, {}};
  world.say(answer);
  EXPECT_TRUE(world.client().ended()) << "whatever it says";
  world.up();
  world.perform(world.client().removed(world.moment()));
  world.run(10000 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "") << "nothing is asked for any more";
}

TEST(Client6, AReleaseThatNobodyAnswersIsSaidFourTimes) {
  Client6Bench world;
  world.up();
  world.takeLog();
  world.silent = true;
  world.perform(world.client().release(world.moment()));
  world.perform(world.client().removed(world.moment()));
  auto exchange = world.sent.back().exchange;
  auto began = world.now;
  world.run(12 * kj::SECONDS);
  EXPECT_FALSE(world.client().ended());
  world.run(20 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "lost: it is no longer wanted, RELEASE, RELEASE, RELEASE, RELEASE");
  EXPECT_TRUE(world.client().ended());
  EXPECT_EQ(world.sent.back().exchange, exchange);
  EXPECT_GT(KJ_ASSERT_NONNULL(world.sent.back().elapsed), 600u) << "6.3 s at least";
  EXPECT_LT(world.now - began, 40 * kj::SECONDS);
}

// Catches: an address that the config wants as well, or that never goes, given to another machine.
TEST(Client6, AnAddressThatStaysInUseIsNotGivenBack) {
  Client6Bench world;
  world.up();
  world.takeLog();
  world.perform(world.client().release(world.moment()));
  world.run(4 * kj::SECONDS);
  EXPECT_FALSE(world.client().ended());
  world.run(2 * kj::SECONDS);
  EXPECT_TRUE(world.client().ended());
  world.perform(world.client().removed(world.moment()));
  EXPECT_EQ(world.takeLog(), "lost: it is no longer wanted");
}

TEST(Client6, WhatThereIsNothingToGiveBackOf) {
  {  // nothing was given yet
    Client6Bench world;
    world.silent = true;
    world.up();
    world.takeLog();
    world.perform(world.client().release(world.moment()));
    EXPECT_TRUE(world.client().ended());
    world.run(1000 * kj::SECONDS);
    EXPECT_EQ(world.takeLog(), "");
  }
  {  // no cable
    Client6Bench world;
    world.up();
    world.perform(world.client().linkDown());
    world.takeLog();
    world.perform(world.client().release(world.moment()));
    EXPECT_TRUE(world.client().ended());
    EXPECT_EQ(world.takeLog(), "lost: it is no longer wanted");
  }
  {  // its time is over, and nobody has looked
    Client6Bench world;
    world.up();
    world.now += 4000 * kj::SECONDS;
    world.takeLog();
    world.perform(world.client().release(world.moment()));
    EXPECT_TRUE(world.client().ended());
    EXPECT_EQ(world.takeLog(), "lost: it is no longer wanted");
  }
  {  // the link goes in the middle
    Client6Bench world;
    world.up();
    world.silent = true;
    world.perform(world.client().release(world.moment()));
    world.perform(world.client().removed(world.moment()));
    world.perform(world.client().linkDown());
    EXPECT_TRUE(world.client().ended());
  }
  {  // information only: there may be a lease of another client on the same link
    Client6Bench world(false);
    world.up();
    world.takeLog();
    world.perform(world.client().release(world.moment()));
    EXPECT_TRUE(world.client().ended());
    EXPECT_EQ(world.takeLog(), "");
    EXPECT_EQ(world.sent.size(), 1u);
  }
}

// RFC 8415 §18.2.8. Catches: an address that another machine has and that is kept, a server that is
// not told of it and gives it to the next, and one that gives it again while the refused one is
// still on the link, where the kernel would never try it again.
TEST(Client6, AnAddressThatAnotherMachineHasIsDeclined) {
  Client6Bench world;
  world.up();
  world.takeLog();
  world.perform(world.client().duplicated(world.moment()));
  EXPECT_EQ(world.takeLog(), "lost: another host on this network has its address");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(world.client().leaving()) == ip("fd00::9"));
  world.perform(world.client().removed(world.moment()));
  EXPECT_EQ(world.takeLog(), "DECLINE, SOLICIT, bound");
  EXPECT_TRUE(world.client().leaving() == nullptr);
  auto& m = world.sent[1];
  EXPECT_TRUE(m.type == Type::kDecline && m.server == kServer);
  EXPECT_TRUE(m.associations[0].id == kNumber &&
              m.associations[0].addresses[0].address == ip("fd00::9"));
  EXPECT_EQ(world.sent[2].associations[0].addresses.size(), 0u) << "not the same again";
  // The next one as well, and so on: ever more slowly.
  for (unsigned i = 0; i < 8; ++i) {
    world.refuse();
    EXPECT_EQ(world.client().state(), State::kInit) << i;
    auto pause = KJ_ASSERT_NONNULL(world.client().deadline()) - world.now;
    EXPECT_GE(pause, (2u << i) * kj::SECONDS * 9 / 10) << i;
    world.takeLog();
    world.run(pause + 1 * kj::SECONDS);
    EXPECT_EQ(world.takeLog(), "SOLICIT, bound") << i;
  }
  // One that could be used and renewed: the count begins anew.
  auto renew = KJ_ASSERT_NONNULL(KJ_ASSERT_NONNULL(world.client().lease()).renew);
  world.run(renew - world.now + 1 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "RENEW, bound");
  world.refuse();
  EXPECT_EQ(world.client().state(), State::kBound) << "at once";
}

// Catches: a client that waits for ever, where the config wants the same address.
TEST(Client6, AnAddressThatStaysOnTheLinkIsDeclinedAllTheSame) {
  Client6Bench world;
  world.up();
  world.takeLog();
  world.perform(world.client().duplicated(world.moment()));
  world.run(4 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "lost: another host on this network has its address");
  world.run(2 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "DECLINE, SOLICIT, bound");
  world.perform(world.client().removed(world.moment()));
  EXPECT_EQ(world.takeLog(), "") << "that is over";
}

TEST(Client6, ADeclineThatNobodyAnswersIsSaidFourTimes) {
  Client6Bench world;
  world.up();
  world.takeLog();
  world.silent = true;
  world.refuse();
  EXPECT_EQ(world.client().state(), State::kDeclining);
  world.perform(world.client().duplicated(world.moment()));  // the kernel says it at each look
  world.run(30 * kj::SECONDS);
  auto log = world.takeLog();
  EXPECT_TRUE(
      log.startsWith("lost: another host on this network has its address, DECLINE, "
                     "DECLINE, DECLINE, DECLINE, SOLICIT"))
      << log.cStr();
  world.silent = false;
  world.run(3600 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kBound);
}

// Catches: a client that asks anew when it was to end, or that ends before the server was told.
TEST(Client6, ADeclineEndsWhatIsNoLongerWanted) {
  for (bool removedFirst : {true, false}) {
    Client6Bench world;
    world.up();
    world.silent = true;
    world.perform(world.client().duplicated(world.moment()));
    auto remove = [&] { world.perform(world.client().removed(world.moment())); };
    if (removedFirst) remove();
    world.perform(world.client().release(world.moment()));
    if (!removedFirst) remove();
    EXPECT_FALSE(world.client().ended());
    EXPECT_TRUE(world.sent.back().type == Type::kDecline);
    world.takeLog();
    world.say(world.replyTo(world.sent.back()));
    EXPECT_TRUE(world.client().ended());
    world.run(1000 * kj::SECONDS);
    EXPECT_EQ(world.takeLog(), "");
  }
}

// Catches: a server that is asked for another one for somebody who wants none any more.
TEST(Client6, ADeclineThatNobodyAnswersEndsToo) {
  Client6Bench world;
  world.up();
  world.silent = true;
  world.refuse();
  world.takeLog();
  world.perform(world.client().release(world.moment()));
  world.run(60 * kj::SECONDS);
  EXPECT_TRUE(world.client().ended());
  EXPECT_EQ(world.takeLog(), "DECLINE, DECLINE, DECLINE");
}

// Catches: a client that waits for the removal of an address of before, and one that sends while
// nothing is connected.
TEST(Client6, ACableThatIsPulledWhileAnAddressIsRefused) {
  for (bool refusedBefore : {true, false}) {
    Client6Bench world;
    world.up();
    auto duplicated = [&] { world.perform(world.client().duplicated(world.moment())); };
    if (refusedBefore) duplicated();
    world.perform(world.client().linkDown());
    if (!refusedBefore) duplicated();
    world.takeLog();
    world.perform(world.client().removed(world.moment()));
    world.run(60 * kj::SECONDS);
    EXPECT_EQ(world.takeLog(), "");
    EXPECT_TRUE(world.client().leaving() == nullptr);
    world.up();
    EXPECT_EQ(world.takeLog(), "SOLICIT, bound");
  }
}

}  // namespace
}  // namespace talos::networkd::dhcp
