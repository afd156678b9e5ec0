// The DHCPv6 client against servers that exist only here; see client4-test.cc.
#include "networkd/dhcp/client6.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include <random>

#include "common/test-ip.h"

namespace talos::networkd::dhcp {
namespace {

using State = Client6::State;
using Type = Message6::Type;

const kj::byte kMac[] = {2, 0, 0xa, 0xb, 0xc, 0xd};
constexpr uint32_t kNumber = 0x0a0b0c0d;
const kj::byte kServer[] = {0, 3, 0, 1, 2, 0, 0, 0, 0, 9},
               kOther[] = {0, 3, 0, 1, 2, 0, 0, 0, 0, 8};

struct World {
  kj::TimePoint now = kj::origin<kj::TimePoint>() + 1000 * kj::SECONDS;
  std::mt19937_64 random{1};
  kj::Maybe<kj::Own<Client6>> held;
  bool silent = false, rapid = true, knows = true, none = false;
  bool refuses = false;  // what it offers
  uint32_t preferred = 3000, valid = 4000;
  uint8_t preference = 0;
  kj::Vector<kj::String> log;
  kj::Vector<Message6> sent;

  explicit World(bool address = true, kj::Maybe<Lease6> kept = nullptr) {
    held = kj::heap<Client6>(Settings6{copyOf(kMac), address}, kj::mv(kept));
  }
  Client6& client() { return *KJ_ASSERT_NONNULL(held); }
  Client6::Moment moment() { return {now, random()}; }
  void up() { perform(client().linkUp(moment())); }

  Message6 replyTo(const Message6& m, Bytes server = kServer) {
    Message6 reply;
    reply.exchange = m.exchange;
    reply.client = copyOf(m.client);
    reply.server = copyOf(server);
    reply.preference = preference;
    reply.resolvers.add(ip("fd00::53"));
    reply.rapidCommit = rapid && m.rapidCommit;
    bool offers = m.type == Type::kSolicit && !reply.rapidCommit;
    reply.type = offers ? Type::kAdvertise : Type::kReply;
    if (m.associations.size() > 0 && m.type != Type::kConfirm) {
      Association6 association;
      association.id = m.associations[0].id;
      if (none || (refuses && !offers)) {
        association.status = Status6{Status6::kNoAddresses, kj::str("none left")};
      } else if (!knows) {
        association.status = Status6{Status6::kNoBinding, kj::String()};
      } else {
        association.addresses.add(Address6{ip("fd00::9"), preferred, valid, nullptr});
      }
      reply.associations.add(kj::mv(association));
    }
    if (m.type == Type::kConfirm) {
      reply.status = Status6{uint16_t(knows ? Status6::kSuccess : Status6::kNotOnLink), {}};
    }
    return reply;
  }
  void say(const Message6& m) { perform(client().hear(m, moment())); }

  void run(kj::Duration time) {
    auto end = now + time;
    for (unsigned steps = 0;; ++steps) {
      KJ_ASSERT(steps < 100000, "it does not stop");
      auto deadline = client().deadline();
      KJ_IF_MAYBE (at, deadline) {
        if (*at > end) break;
        now = kj::max(now, *at);
        perform(client().timeout(moment()));
        KJ_IF_MAYBE (lease, client().lease()) EXPECT_FALSE(lease->expired(now));
      } else {
        break;
      }
    }
    now = end;
  }
  kj::String takeLog() {
    auto text = kj::strArray(log, ", ");
    log.clear();
    return text;
  }

  void perform(Client6::Actions actions) {
    for (auto& action : actions) {
      KJ_SWITCH_ONEOF(action) {
        KJ_CASE_ONEOF(send, Client6::Send) {
          const kj::StringPtr kNames[] = {"",        "SOLICIT", "",       "REQUEST",
                                          "CONFIRM", "RENEW",   "REBIND", "",
                                          "RELEASE", "DECLINE", "",       "INFORMATION"};
          log.add(kj::str(kNames[static_cast<unsigned>(send.message.type)]));
          auto parsed = parse6(encode(send.message));
          auto& read = KJ_ASSERT_NONNULL(parsed.message);
          EXPECT_TRUE(encode(read) == encode(send.message));
          sent.add(kj::mv(send.message));
          KJ_REQUIRE(sent.size() < 2000, "a flood");
          if (!silent) say(replyTo(read));
        }
        KJ_CASE_ONEOF(bound, Client6::Bound) {
          log.add(kj::str("bound"));
        }
        KJ_CASE_ONEOF(lost, Client6::Lost) {
          EXPECT_TRUE(client().lease() == nullptr);
          log.add(kj::str("lost: ", lost.why));
        }
      }
    }
  }
};

TEST(Client6, getsAnAddressInOneExchange) {
  World world;
  world.up();
  EXPECT_EQ(world.takeLog(), "SOLICIT, bound");
  auto& solicit = world.sent[0];
  EXPECT_TRUE(solicit.client == linkLayerIdentifier(1, kMac));
  EXPECT_EQ(solicit.associations[0].id, kNumber);
  auto& lease = KJ_ASSERT_NONNULL(world.client().lease());
  EXPECT_TRUE(lease.address == ip("fd00::9"));
  EXPECT_EQ(kj::strArray(lease.resolvers, " "), "fd00::53");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.renew) - lease.obtained == 1500 * kj::SECONDS);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.rebind) - lease.obtained == 2400 * kj::SECONDS);
  world.run(1600 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "RENEW, bound");
  EXPECT_TRUE(world.sent[1].server == kServer);
}

// Catches: the first offer taken although a better one comes (RFC 8415 §18.2.1).
TEST(Client6, takesTheBestOfferOfTheFirstSecond) {
  World world;
  world.silent = true;
  world.rapid = false;
  world.up();
  auto solicit = kj::mv(world.sent[0]);
  world.preference = 3;
  world.say(world.replyTo(solicit, kOther));
  world.preference = 7;
  world.say(world.replyTo(solicit));
  world.preference = 1;
  world.say(world.replyTo(solicit, kOther));
  EXPECT_EQ(world.client().state(), State::kSoliciting);
  world.run(2 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kRequesting);
  EXPECT_TRUE(world.sent[1].server == kServer);
  EXPECT_TRUE(world.sent[1].associations[0].addresses[0].address == ip("fd00::9"));
  // 255: at once.
  World hurried;
  hurried.silent = true;
  hurried.rapid = false;
  hurried.up();
  hurried.preference = 255;
  hurried.say(hurried.replyTo(hurried.sent[0]));
  EXPECT_EQ(hurried.client().state(), State::kRequesting);
}

TEST(Client6, answersThatAreNotItsOwnDoNotCount) {
  World world;
  world.silent = true;
  world.up();
  auto spoiled = [&](auto&& change) {
    auto reply = world.replyTo(world.sent[0]);
    change(reply);
    world.say(reply);
    return world.client().state() == State::kSoliciting;
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
  EXPECT_TRUE(spoiled([](Message6& m) { m.type = Type::kRenew; }));
  EXPECT_FALSE(spoiled([](Message6&) {}));
}

// Catches: a request or a renewal that another server than the one that was asked answers.
TEST(Client6, onlyTheServerThatWasAskedAnswers) {
  World world;
  world.rapid = false;
  world.silent = true;
  world.up();
  world.preference = 255;
  world.say(world.replyTo(world.sent[0]));
  ASSERT_EQ(world.client().state(), State::kRequesting);
  world.say(world.replyTo(world.sent.back(), kOther));
  EXPECT_EQ(world.client().state(), State::kRequesting);
  world.say(world.replyTo(world.sent.back()));
  ASSERT_EQ(world.client().state(), State::kBound);
  world.run(1510 * kj::SECONDS);
  ASSERT_EQ(world.client().state(), State::kRenewing);
  world.say(world.replyTo(world.sent.back(), kOther));
  EXPECT_EQ(world.client().state(), State::kRenewing);
  world.run(892 * kj::SECONDS);
  ASSERT_EQ(world.client().state(), State::kRebinding) << "at T2, not behind the pause";
  world.say(world.replyTo(world.sent.back(), kOther));
  EXPECT_EQ(world.client().state(), State::kBound);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(world.client().lease()).server == kOther);
}

TEST(Client6, renewsThenAsksAllThenLetsGo) {
  World world;
  world.up();
  world.silent = true;
  world.takeLog();
  world.run(2390 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kRenewing);
  EXPECT_TRUE(world.takeLog().startsWith("RENEW, RENEW"));
  world.run(1600 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kRebinding);
  EXPECT_TRUE(world.sent.back().server.size() == 0);
  EXPECT_LT(world.sent.size(), 20u);
  world.takeLog();
  world.run(20 * kj::SECONDS);
  auto log = world.takeLog();
  EXPECT_TRUE(log.startsWith("lost: it has expired, SOLICIT")) << log.cStr();
  world.silent = false;
  world.run(200 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kBound);
}

TEST(Client6, aServerThatKnowsNothingOrHasNothing) {
  World world;
  world.up();
  world.takeLog();
  world.knows = false;
  world.silent = false;
  world.run(1501 * kj::SECONDS);
  auto log = world.takeLog();
  EXPECT_TRUE(log.startsWith("RENEW, lost: the server does not know it, SOLICIT")) << log.cStr();
  World poor;
  poor.none = true;
  poor.rapid = false;
  poor.up();
  poor.run(3600 * kj::SECONDS);
  EXPECT_EQ(poor.client().state(), State::kSoliciting);
  EXPECT_LT(poor.sent.size(), 16u);
  poor.none = false;
  poor.run(4000 * kj::SECONDS);
  EXPECT_EQ(poor.client().state(), State::kBound);
}

// Catches: lifetimes counted from the first of many requests: a network whose server comes hours
// later than the machine would never give it an address.
TEST(Client6, aServerThatComesHoursLater) {
  for (bool rapid : {true, false}) {
    World world;
    world.rapid = rapid;
    world.silent = true;
    world.up();
    world.run(86400 * kj::SECONDS);
    world.silent = false;
    world.run(4000 * kj::SECONDS);
    EXPECT_EQ(world.client().state(), State::kBound) << rapid;
    auto& lease = KJ_ASSERT_NONNULL(world.client().lease());
    EXPECT_TRUE(lease.obtained == world.now || world.now - lease.obtained < 4000 * kj::SECONDS);
  }
}

// The same of a renewal; and the new lease is shorter than the time that nobody answered.
TEST(Client6, aLeaseThatBecomesShorterWhileNobodyAnswers) {
  World world;
  world.preferred = world.valid = 7 * 86400;
  world.up();
  world.silent = true;
  world.run(5 * 86400 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kRenewing);
  world.silent = false;
  world.preferred = world.valid = 600;
  world.run(3600 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kBound);
  EXPECT_EQ(KJ_ASSERT_NONNULL(world.client().lease()).seconds, 600u);
}

TEST(Client6, aLeaseOfASecondIsNoFlood) {
  World world;
  world.preferred = world.valid = 1;
  world.up();
  world.run(60 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kBound);
  EXPECT_LT(world.sent.size(), 200u);
}

// Catches: a flood between a server that offers what it then does not have and a client that
// hurries.
TEST(Client6, offersThatAreRefusedSlowItDown) {
  World world;
  world.rapid = false;
  world.preference = 255;
  world.refuses = true;
  world.up();
  world.run(600 * kj::SECONDS);
  EXPECT_LT(world.sent.size(), 60u);
  EXPECT_GT(world.sent.size(), 10u);
  world.refuses = false;
  world.run(3700 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kBound);
  // What was refused before an address was given does not count any more.
  world.knows = false;
  auto renew = KJ_ASSERT_NONNULL(KJ_ASSERT_NONNULL(world.client().lease()).renew);
  world.takeLog();
  world.run(renew - world.now + 1 * kj::SECONDS);
  world.refuses = true;
  world.knows = true;
  world.takeLog();
  world.run(2 * kj::SECONDS);
  auto log = world.takeLog();
  EXPECT_TRUE(log.startsWith("SOLICIT, REQUEST, SOLICIT, REQUEST")) << log.cStr();
}

TEST(Client6, aKilledOneGoesOnWithItsLease) {
  World world;
  world.up();
  world.run(100 * kj::SECONDS);
  auto file = encode(KJ_ASSERT_NONNULL(world.client().lease()));
  for (auto place : {"same", "silent", "other"}) {
    World next(true, decodeLease6(file, kNumber, world.now));
    next.now = world.now;
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
      EXPECT_TRUE(log.startsWith("CONFIRM, lost: it is not of this link, SOLICIT")) << log.cStr();
    }
  }
  EXPECT_TRUE(decodeLease6(file, 5, world.now) == nullptr) << "of another card";
  file[30] ^= 1;
  EXPECT_TRUE(decodeLease6(file, kNumber, world.now) == nullptr);
}

TEST(Client6, asksForInformationOnly) {
  World world(false);
  world.up();
  EXPECT_EQ(world.takeLog(), "INFORMATION, bound");
  EXPECT_EQ(world.sent[0].associations.size(), 0u);
  auto& lease = KJ_ASSERT_NONNULL(world.client().lease());
  EXPECT_TRUE(lease.address == nullptr && lease.expires == nullptr);
  EXPECT_EQ(kj::strArray(lease.resolvers, " "), "fd00::53");
  world.run(86000 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "");
  world.run(500 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "INFORMATION, bound");
}

// RFC 8415 §21.24, 21.25: a server that has nothing says how rarely it wants to be asked.
TEST(Client6, pausesGrowAsFarAsTheServerSays) {
  struct Row {
    bool address;
    uint32_t solicit, information;
    int64_t longest;  // s, +-10 %
  } rows[] = {{true, 120, 3000, 120},  {false, 3000, 120, 120}, {true, 59, 3000, 3600},
              {false, 3000, 59, 3600}, {true, 86401, 0, 3600},  {true, 86400, 0, 86400}};
  for (auto& row : rows) {
    World world(row.address);
    world.silent = true;
    world.up();
    auto nothing = world.replyTo(world.sent[0]);
    nothing.type = row.address ? Type::kAdvertise : Type::kReply;
    nothing.status = Status6{Status6::kNoAddresses, {}};
    nothing.longestSolicit = row.solicit;
    nothing.longestInformation = row.information;
    world.say(nothing);
    world.run(12 * row.longest * kj::SECONDS);
    auto pause = (KJ_ASSERT_NONNULL(world.client().deadline()) - world.now) / kj::SECONDS;
    world.run(pause * kj::SECONDS + 1 * kj::SECONDS);
    pause = (KJ_ASSERT_NONNULL(world.client().deadline()) - world.now) / kj::SECONDS;
    EXPECT_GE(pause, row.longest * 9 / 10 - 2) << row.address << ' ' << row.solicit;
    EXPECT_LE(pause, row.longest * 11 / 10 + 2) << row.address << ' ' << row.solicit;
  }
}

TEST(Client6, aLeaseForEverIsNeverRenewed) {
  World world;
  world.preferred = world.valid = kInfinite;
  world.up();
  EXPECT_TRUE(world.client().deadline() == nullptr);
}

// --- addresses that go

// Catches: a RELEASE without what the server finds the address by (RFC 8415 §16.9, 18.2.7), one
// that is sent while the address is in use, and one that is sent for ever.
TEST(Client6, whatIsNoLongerWantedIsGivenBack) {
  World world;
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
  world.perform(world.client().unused(world.moment()));
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
  world.perform(world.client().unused(world.moment()));
  world.run(10000 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "") << "nothing is asked for any more";
}

TEST(Client6, aReleaseThatNobodyAnswersIsSaidFourTimes) {
  World world;
  world.up();
  world.takeLog();
  world.silent = true;
  world.perform(world.client().release(world.moment()));
  world.perform(world.client().unused(world.moment()));
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
TEST(Client6, anAddressThatStaysInUseIsNotGivenBack) {
  World world;
  world.up();
  world.takeLog();
  world.perform(world.client().release(world.moment()));
  world.run(4 * kj::SECONDS);
  EXPECT_FALSE(world.client().ended());
  world.run(2 * kj::SECONDS);
  EXPECT_TRUE(world.client().ended());
  world.perform(world.client().unused(world.moment()));
  EXPECT_EQ(world.takeLog(), "lost: it is no longer wanted");
}

TEST(Client6, whatThereIsNothingToGiveBackOf) {
  {  // nothing was given yet
    World world;
    world.silent = true;
    world.up();
    world.takeLog();
    world.perform(world.client().release(world.moment()));
    EXPECT_TRUE(world.client().ended());
    world.run(1000 * kj::SECONDS);
    EXPECT_EQ(world.takeLog(), "");
  }
  {  // no cable
    World world;
    world.up();
    world.perform(world.client().linkDown());
    world.takeLog();
    world.perform(world.client().release(world.moment()));
    EXPECT_TRUE(world.client().ended());
    EXPECT_EQ(world.takeLog(), "lost: it is no longer wanted");
  }
  {  // its time is over, and nobody has looked
    World world;
    world.up();
    world.now += 4000 * kj::SECONDS;
    world.takeLog();
    world.perform(world.client().release(world.moment()));
    EXPECT_TRUE(world.client().ended());
    EXPECT_EQ(world.takeLog(), "lost: it is no longer wanted");
  }
  {  // the link goes in the middle
    World world;
    world.up();
    world.silent = true;
    world.perform(world.client().release(world.moment()));
    world.perform(world.client().unused(world.moment()));
    world.perform(world.client().linkDown());
    EXPECT_TRUE(world.client().ended());
  }
  {  // information only
    World world(false);
    world.up();
    world.takeLog();
    world.perform(world.client().release(world.moment()));
    EXPECT_TRUE(world.client().ended());
    EXPECT_EQ(world.sent.size(), 1u);
  }
}

// RFC 8415 §18.2.8. Catches: an address that another machine has and that is kept, and a server
// that is not told of it and gives it to the next.
TEST(Client6, anAddressThatAnotherMachineHasIsDeclined) {
  World world;
  world.up();
  world.takeLog();
  world.perform(world.client().duplicated(world.moment()));
  EXPECT_EQ(world.takeLog(),
            "lost: another machine on this network has its address, DECLINE, SOLICIT, bound");
  auto& m = world.sent[1];
  EXPECT_TRUE(m.type == Type::kDecline && m.server == kServer);
  EXPECT_TRUE(m.associations[0].id == kNumber &&
              m.associations[0].addresses[0].address == ip("fd00::9"));
  EXPECT_EQ(world.sent[2].associations[0].addresses.size(), 0u) << "not the same again";
  // The next one as well, and so on: ever more slowly.
  for (unsigned i = 0; i < 8; ++i) {
    world.perform(world.client().duplicated(world.moment()));
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
  world.perform(world.client().duplicated(world.moment()));
  EXPECT_EQ(world.client().state(), State::kBound) << "at once";
}

TEST(Client6, aDeclineThatNobodyAnswersIsSaidFourTimes) {
  World world;
  world.up();
  world.takeLog();
  world.silent = true;
  world.perform(world.client().duplicated(world.moment()));
  EXPECT_EQ(world.client().state(), State::kDeclining);
  world.perform(world.client().duplicated(world.moment()));  // the kernel says it at each look
  world.run(30 * kj::SECONDS);
  auto log = world.takeLog();
  EXPECT_TRUE(
      log.startsWith("lost: another machine on this network has its address, DECLINE, "
                     "DECLINE, DECLINE, DECLINE, SOLICIT"))
      << log.cStr();
  world.silent = false;
  world.run(3600 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kBound);
}

// Catches: a client that asks anew when it was to end.
TEST(Client6, aDeclineEndsWhatIsNoLongerWanted) {
  World world;
  world.up();
  world.silent = true;
  world.perform(world.client().duplicated(world.moment()));
  world.takeLog();
  world.perform(world.client().release(world.moment()));
  EXPECT_FALSE(world.client().ended());
  world.say(world.replyTo(world.sent.back()));
  EXPECT_TRUE(world.client().ended());
  world.run(1000 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "");
}

}  // namespace
}  // namespace talos::networkd::dhcp
