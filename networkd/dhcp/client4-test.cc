// The client against a server and a network that exist only here: packets are lost, late, doubled
// or forged as a test says, and time is a number.
#include "networkd/dhcp/client4.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <string.h>

#include <map>
#include <random>

namespace talos::networkd::dhcp {
namespace {

using State = Client4::State;
using Type = Message4::Type;

Ip ip(kj::StringPtr text) {
  return KJ_ASSERT_NONNULL(Ip::parse(text), text);
}
const kj::byte kMac[] = {2, 0, 0, 0, 0, 1}, kOtherMac[] = {2, 0, 0, 0, 0, 2};

// Answers as RFC 2131 §4.3 says, for one subnet.
struct Server {
  Ip identifier = ip("10.0.0.1");
  Ip address = ip("10.0.0.9");  // what it gives
  uint32_t seconds = 3600;
  bool knows = true;  // what it gave; else it refuses
  bool silent = false;
  std::map<uint32_t, kj::TimePoint> until;  // last octet -> end of the lease as the server sees it

  kj::Maybe<Message4> answer(const Message4& m, kj::TimePoint now) {
    if (silent) return nullptr;
    Message4 reply;
    reply.reply = true;
    reply.hardwareAddress = copyOf(m.hardwareAddress);
    reply.exchange = m.exchange;
    reply.server = identifier;
    reply.next = ip("10.0.0.77");  // of a boot file server: nobody to talk to
    auto give = [&](Type type, Ip to) {
      reply.type = type;
      reply.yours = to;
      reply.lease = seconds;
      reply.prefixLength = 24u;
      reply.routers.add(ip("10.0.0.1"));
      if (type == Type::kAck) until.insert_or_assign(to.bytes()[3], now + seconds * kj::SECONDS);
    };
    if (m.type == Type::kDiscover) {
      give(Type::kOffer, address);
      return kj::mv(reply);
    }
    if (m.type == Type::kDecline) address = ip("10.0.0.10");
    if (m.type != Type::kRequest) return nullptr;
    KJ_IF_MAYBE (chosen, m.server) {
      if (*chosen != identifier) return nullptr;
    }
    Ip wanted = m.requested.orDefault(m.client);
    if (knows && wanted == address) {
      give(Type::kAck, wanted);
    } else {
      reply.type = Type::kNak;
      reply.text = kj::str("wrong network");
    }
    return kj::mv(reply);
  }
};

class World {
 public:
  Server server;
  kj::TimePoint now = kj::origin<kj::TimePoint>() + 1000 * kj::SECONDS;
  kj::Maybe<kj::Own<Client4>> held;
  std::mt19937_64 random{1};
  unsigned lossOutOf100 = 0, doubledOutOf100 = 0;
  kj::Duration delay = 1 * kj::MILLISECONDS, jitter = 0 * kj::SECONDS;
  kj::Maybe<Ip> taken;         // another machine has this address
  kj::Vector<kj::String> log;  // "DISCOVER", "bound 10.0.0.9", ...
  kj::Vector<Message4> sent;

  explicit World(kj::Maybe<Lease4> kept = nullptr) {
    Settings4 settings{copyOf(kMac), kj::str("node")};
    held = kj::heap<Client4>(kj::mv(settings), kj::mv(kept));
  }
  Client4& client() { return *KJ_ASSERT_NONNULL(held); }
  Moment moment() { return {now, random()}; }
  void up() { perform(client().linkUp(moment())); }
  void down() { perform(client().linkDown(moment())); }
  void say(const Message4& m) { perform(client().hear(m, moment())); }

  void run(kj::Duration time) {
    auto end = now + time;
    unsigned steps = 0;
    for (;;) {
      KJ_ASSERT(++steps < 100000, "it does not stop");
      kj::Maybe<kj::TimePoint> at = client().deadline();
      bool deliver = false;
      if (!network.empty()) {
        auto first = network.begin()->first;
        deliver = at == nullptr || first <= KJ_ASSERT_NONNULL(at);
        if (deliver) at = first;
      }
      KJ_IF_MAYBE (moment, at) {
        if (*moment > end) break;
        now = kj::max(now, *moment);
        if (deliver) {
          auto packet = kj::mv(network.begin()->second);
          network.erase(network.begin());
          packet();
        } else {
          perform(client().timeout(this->moment()));
        }
      } else {
        break;
      }
      check();
    }
    now = end;
  }
  kj::String takeLog() {
    auto text = kj::strArray(log, ", ");
    log.clear();
    return text;
  }
  kj::String address() {
    KJ_IF_MAYBE (lease, client().lease()) return kj::str(lease->address);
    return kj::str("none");
  }
  kj::Own<Lease4> lease() { return kj::heap(KJ_ASSERT_NONNULL(client().lease()).clone()); }

  void perform(Client4::Actions actions) {
    for (auto& action : actions) {
      KJ_SWITCH_ONEOF(action) {
        KJ_CASE_ONEOF(broadcast, Broadcast) {
          transmit(kj::mv(broadcast.message), nullptr);
        }
        KJ_CASE_ONEOF(unicast, Unicast) {
          EXPECT_TRUE(unicast.from == unicast.message.client);
          transmit(kj::mv(unicast.message), unicast.to);
        }
        KJ_CASE_ONEOF(arp, SendArp) {
          log.add(kj::str(arp.arp.senderAddress.isAny() ? "probe" : "announce"));
          KJ_IF_MAYBE (other, taken) {
            if (arp.arp.targetAddress == *other) {
              later([this, address = *other] {
                Arp reply{Arp::Operation::kReply, copyOf(kOtherMac), address, copyOf(kMac),
                          Ip::any(AF_INET)};
                perform(client().hear(reply, moment()));
              });
            }
          }
        }
        KJ_CASE_ONEOF(bound, Bound) {
          log.add(kj::str("bound ", address()));
        }
        KJ_CASE_ONEOF(lost, Lost) {
          EXPECT_TRUE(client().lease() == nullptr);
          log.add(kj::str("lost: ", lost.why));
        }
      }
    }
  }

 private:
  std::multimap<kj::TimePoint, kj::Function<void()>> network;

  void later(kj::Function<void()> what) {
    auto extra =
        jitter == 0 * kj::SECONDS
            ? jitter
            : static_cast<int64_t>(random() % uint64_t(jitter / kj::NANOSECONDS)) * kj::NANOSECONDS;
    network.emplace(now + delay + extra, kj::mv(what));
  }
  void transmit(Message4 message, kj::Maybe<Ip> to) {
    const kj::StringPtr kNames[] = {"",        "DISCOVER", "OFFER", "REQUEST",
                                    "DECLINE", "ACK",      "NAK",   "RELEASE"};
    log.add(kj::str(kNames[static_cast<unsigned>(message.type)], to == nullptr ? "" : " unicast"));
    // What goes out is what the codec can carry.
    auto parsed = parse4(encode(message));
    auto& read = KJ_ASSERT_NONNULL(parsed.message);
    EXPECT_TRUE(read == message);
    sent.add(kj::mv(message));
    KJ_IF_MAYBE (only, to) {
      if (*only != server.identifier) return;
    }
    unsigned copies = 1 + (random() % 100 < doubledOutOf100);
    for (unsigned i = 0; i < copies; ++i) {
      if (random() % 100 < lossOutOf100) continue;
      later([this, m = kj::heap(KJ_ASSERT_NONNULL(parse4(encode(read)).message))]() mutable {
        KJ_IF_MAYBE (reply, server.answer(*m, now)) {
          if (random() % 100 < lossOutOf100) return;
          later([this, r = kj::heap(kj::mv(*reply))]() { say(*r); });
        }
      });
    }
  }
  // Whatever happens: an address is used only while the server holds it for us.
  void check() {
    KJ_IF_MAYBE (lease, client().lease()) {
      auto there = server.until.find(lease->address.address.bytes()[3]);
      if (there != server.until.end() && lease->seconds != kInfinite) {
        EXPECT_LT(now, there->second) << "an address beyond its lease";
      }
    }
  }
};

constexpr auto kBoot =
    "DISCOVER, REQUEST, probe, probe, probe, bound 10.0.0.9/24, announce, announce";

TEST(Client4, getsAnAddressAndRenewsItInTime) {
  World world;
  world.up();
  world.run(10 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), kBoot);
  EXPECT_EQ(world.client().state(), State::kBound);
  ASSERT_EQ(world.sent.size(), 2u);
  auto &discover = world.sent[0], &request = world.sent[1];
  EXPECT_EQ(discover.exchange, request.exchange);
  EXPECT_TRUE(request.server == ip("10.0.0.1") && request.requested == ip("10.0.0.9"));
  EXPECT_TRUE(request.client.isAny());
  EXPECT_EQ(request.hostname, "node");
  EXPECT_TRUE(request.clientIdentifier == Writer().u8(1).bytes(kMac).finish());
  auto& lease = KJ_ASSERT_NONNULL(world.client().lease());
  EXPECT_EQ(kj::strArray(
                KJ_MAP(r, lease.routes) { return kj::str(r.destination, ">", r.gateway); }, " "),
            "0.0.0.0/0>10.0.0.1");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.renew) - lease.obtained == 1800 * kj::SECONDS);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(lease.rebind) - lease.obtained == 3150 * kj::SECONDS);
  world.run(1795 * kj::SECONDS);
  // To the server by its identifier, from our address, with an exchange of its own.
  EXPECT_EQ(world.takeLog(), "REQUEST unicast, bound 10.0.0.9/24");
  auto& renewal = world.sent[2];
  EXPECT_NE(renewal.exchange, request.exchange);
  EXPECT_TRUE(renewal.client == ip("10.0.0.9") && renewal.server == nullptr &&
              renewal.requested == nullptr);
}

// Catches: a client that gives up, floods, or waits too long before the first retry.
TEST(Client4, asksForEverWithGrowingPauses) {
  World world;
  world.server.silent = true;
  world.up();
  kj::Vector<kj::Duration> pauses;
  for (unsigned i = 0; i < 10; ++i) {
    pauses.add(KJ_ASSERT_NONNULL(world.client().deadline()) - world.now);
    world.run(pauses.back());
  }
  unsigned expected[] = {4, 8, 16, 32, 64, 64, 64, 64, 64, 64};
  for (unsigned i = 0; i < 10; ++i) {
    auto off = (pauses[i] - expected[i] * kj::SECONDS) / kj::MILLISECONDS;
    EXPECT_TRUE(off >= -1000 && off <= 1000) << i << ": " << off;
  }
  EXPECT_EQ(world.sent.size(), 11u);
  for (auto& m : world.sent) EXPECT_EQ(m.exchange, world.sent[0].exchange);
  EXPECT_GT(world.sent[10].seconds, 300);
  world.server.silent = false;
  world.run(70 * kj::SECONDS);
  EXPECT_EQ(world.address(), "10.0.0.9/24");
}

TEST(Client4, aServerThatOffersAndThenSaysNothingIsLeft) {
  World world;
  world.up();
  world.run(1 * kj::MILLISECONDS);
  world.run(1 * kj::MILLISECONDS);
  EXPECT_EQ(world.client().state(), State::kRequesting);
  world.server.silent = true;
  world.run(40 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "DISCOVER, REQUEST, REQUEST, REQUEST, DISCOVER, DISCOVER");
  EXPECT_NE(world.sent[4].exchange, world.sent[0].exchange);
}

// Catches: taking the answer to another machine, to another question, or of another server.
TEST(Client4, answersThatAreNotItsOwnDoNotCount) {
  World world;
  world.server.silent = true;
  world.up();
  auto forged = [&](Type type) {
    Server helper;
    auto& question = world.sent.back();
    auto answer = helper.answer(question, world.now);
    auto reply = kj::mv(KJ_ASSERT_NONNULL(answer));
    reply.type = type;
    return reply;
  };
  auto ignored = [&](Message4 m, State state) {
    world.say(m);
    EXPECT_EQ(world.client().state(), state) << static_cast<int>(m.type);
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
      world.say(forged(Type::kOffer));
    } else {
      spoil([](Message4& m) { m.server = ip("10.0.0.2"); }, type, state);
      spoil([](Message4& m) { m.server = ip("10.0.0.2"); }, Type::kNak, state);
      spoil([](Message4& m) { m.yours = ip("10.0.0.66"); }, type, state);
    }
  }
  world.say(forged(Type::kAck));
  EXPECT_EQ(world.client().state(), State::kProbing);
}

// Catches: an address that two machines use; a server that is asked for it again and again.
TEST(Client4, anAddressThatAnswersIsDeclinedAndAnotherTaken) {
  World world;
  world.taken = ip("10.0.0.9");
  world.up();
  world.run(5 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "DISCOVER, REQUEST, probe, DECLINE");
  auto& decline = world.sent[2];
  EXPECT_TRUE(decline.server == ip("10.0.0.1") && decline.requested == ip("10.0.0.9"));
  EXPECT_TRUE(decline.client.isAny() && decline.hostname.size() == 0);
  EXPECT_EQ(world.address(), "none");
  world.run(20 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(),
            "DISCOVER, REQUEST, probe, probe, probe, bound 10.0.0.10/24, announce, announce");
  EXPECT_TRUE(world.sent[3].requested == nullptr) << "the taken one is not asked for";
}

// Catches: asking again for the address that somebody took while its lease was over.
TEST(Client4, anAddressThatWasLostAndTakenIsNotAskedForAgain) {
  World world;
  world.up();
  world.run(10 * kj::SECONDS);
  world.server.silent = true;
  world.run(3700 * kj::SECONDS);
  ASSERT_EQ(world.address(), "none");
  EXPECT_TRUE(world.sent.back().requested == ip("10.0.0.9"));
  world.taken = ip("10.0.0.9");
  world.server.silent = false;
  world.run(200 * kj::SECONDS);
  EXPECT_EQ(world.address(), "10.0.0.10/24");
  bool declined = false;
  for (auto& m : world.sent) {
    if (declined && m.type == Type::kDiscover) {
      EXPECT_TRUE(m.requested == nullptr);
    }
    declined = declined || m.type == Type::kDecline;
  }
  EXPECT_TRUE(declined);
}

TEST(Client4, renewsThenAsksAllThenLetsGo) {
  World world;
  world.up();
  world.run(10 * kj::SECONDS);
  world.takeLog();
  world.server.silent = true;
  world.run(3130 * kj::SECONDS);  // T2 is at 3150
  EXPECT_EQ(world.client().state(), State::kRenewing);
  auto renewals = world.takeLog();
  EXPECT_TRUE(renewals.startsWith("REQUEST unicast, REQUEST unicast")) << renewals.cStr();
  EXPECT_LT(renewals.size(), 300u) << "one a minute at most";
  EXPECT_EQ(world.address(), "10.0.0.9/24");
  world.run(430 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kRebinding);
  auto rebinding = world.takeLog();
  EXPECT_TRUE(rebinding.findFirst('R') != nullptr && rebinding.startsWith("REQUEST"))
      << rebinding.cStr();
  EXPECT_TRUE(world.sent.back().server == nullptr && world.sent.back().client == ip("10.0.0.9"));
  EXPECT_EQ(world.address(), "10.0.0.9/24");
  world.run(40 * kj::SECONDS);
  auto end = world.takeLog();
  EXPECT_TRUE(end.startsWith("lost: it has expired, DISCOVER") ||
              end.startsWith("REQUEST, lost: it has expired, DISCOVER"))
      << end.cStr();
  EXPECT_EQ(world.address(), "none");
  EXPECT_TRUE(world.sent.back().requested == ip("10.0.0.9")) << "it would like the same again";
  world.server.silent = false;
  world.run(70 * kj::SECONDS);
  EXPECT_EQ(world.address(), "10.0.0.9/24");
}

// Catches: an answer to the last of many requests, counted from the first, that is "over" already,
// so that nothing is ever taken.
TEST(Client4, aLeaseThatBecomesShorterWhileNobodyAnswers) {
  World world;
  world.server.seconds = 7 * 86400;
  world.up();
  world.run(10 * kj::SECONDS);
  world.server.silent = true;
  world.run(5 * 86400 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kRenewing);
  world.server.silent = false;
  world.server.seconds = 600;
  world.run(86400 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kBound);
  EXPECT_EQ(KJ_ASSERT_NONNULL(world.client().lease()).seconds, 600u);
  EXPECT_TRUE(world.takeLog().findFirst('l') == nullptr) << "the address was lost";
}

// Another server that shares the first one's leases may answer once everybody is asked.
TEST(Client4, anotherServerMayExtendItAfterT2) {
  World world;
  world.up();
  world.run(10 * kj::SECONDS);
  world.server.identifier = ip("10.0.0.2");
  world.run(3130 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kRenewing);
  world.run(20 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kBound);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(world.client().lease()).server == ip("10.0.0.2"));
}

TEST(Client4, aRefusalEndsTheLeaseInEveryState) {
  struct Row {
    State state;
    kj::Duration wait;
  } rows[] = {{State::kRenewing, 1805 * kj::SECONDS},
              {State::kRebinding, 3155 * kj::SECONDS},
              {State::kRebooting, 20 * kj::SECONDS}};
  for (auto& row : rows) {
    World world;
    world.up();
    world.run(10 * kj::SECONDS);
    world.server.silent = true;
    if (row.state == State::kRebooting) {
      world.down();
      world.up();
    }
    world.run(row.wait - 10 * kj::SECONDS);
    world.takeLog();
    ASSERT_EQ(world.client().state(), row.state);
    world.server.silent = false;
    world.server.address = ip("10.0.0.10");
    world.run(800 * kj::SECONDS);
    auto log = world.takeLog();
    auto expected = kj::str(
        "lost: the server refuses it: wrong network, DISCOVER, REQUEST, probe, "
        "probe, probe, bound 10.0.0.10/24, announce, announce");
    EXPECT_TRUE(log.endsWith(expected)) << nameOf(row.state).cStr() << ": " << log.cStr();
  }
}

// Catches: a flood between a server that offers what it then refuses and a client that hurries.
TEST(Client4, offersThatAreRefusedSlowItDown) {
  World world;
  world.server.knows = false;
  world.up();
  world.run(600 * kj::SECONDS);
  EXPECT_LT(world.sent.size(), 40u);
  EXPECT_GT(world.sent.size(), 10u);
  world.server.knows = true;
  world.run(70 * kj::SECONDS);
  EXPECT_EQ(world.address(), "10.0.0.9/24");
}

// Catches: an address that is taken although the way here took longer than the lease.
TEST(Client4, anAnswerThatIsOverBeforeItComes) {
  World world;
  world.server.seconds = 1;
  world.delay = 700 * kj::MILLISECONDS;
  world.up();
  world.run(60 * kj::SECONDS);
  auto log = world.takeLog();
  EXPECT_TRUE(strstr(log.cStr(), "REQUEST") != nullptr) << log.cStr();
  EXPECT_TRUE(strstr(log.cStr(), "bound") == nullptr) << log.cStr();
}

// Catches: an address that is announced on a cable that is out.
TEST(Client4, nothingButTheEndOfTheLeaseMattersWithoutCarrier) {
  World world;
  world.up();
  while (world.client().state() != State::kBound) world.run(10 * kj::MILLISECONDS);
  world.down();
  EXPECT_TRUE(world.client().deadline() == KJ_ASSERT_NONNULL(world.client().lease()).expires);
  world.takeLog();
  world.run(4000 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "lost: it has expired");
}

// A cable that is plugged in again may lead to another network, where nobody has refused anything.
TEST(Client4, refusalsBeforeTheCableWasOutDoNotCount) {
  World world;
  world.server.knows = false;
  world.up();
  world.run(600 * kj::SECONDS);
  world.down();
  world.takeLog();
  world.up();
  world.run(1 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "DISCOVER, REQUEST, DISCOVER, REQUEST");
}

TEST(Client4, aLeaseOfASecondIsNoFlood) {
  World world;
  world.server.seconds = 1;
  world.up();
  world.run(60 * kj::SECONDS);
  EXPECT_EQ(world.client().state(), State::kBound);
  EXPECT_LT(world.sent.size(), 200u);
}

// Catches: an address that flaps when a cable is out for a moment or the process is killed.
TEST(Client4, aCableThatIsOutForAMomentChangesNothing) {
  World world;
  world.up();
  world.run(10 * kj::SECONDS);
  world.takeLog();
  world.down();
  world.run(60 * kj::SECONDS);
  EXPECT_EQ(world.address(), "10.0.0.9/24");
  world.up();
  world.run(10 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "REQUEST, bound 10.0.0.9/24");
  auto& m = world.sent.back();
  EXPECT_TRUE(m.server == nullptr && m.requested == ip("10.0.0.9") && m.client.isAny());
  world.down();
  world.run(3600 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "lost: it has expired") << "also without a cable";
}

TEST(Client4, aKilledOneGoesOnWithItsLease) {
  World world;
  world.up();
  world.run(100 * kj::SECONDS);
  auto file = encode(*world.lease());
  auto start = [&](kj::Duration later) {
    auto now = world.now + later;
    auto again = kj::heap<World>(decodeLease4(file, now));
    again->now = now;
    again->server.until = world.server.until;
    return again;
  };
  {
    auto next = start(5 * kj::SECONDS);
    EXPECT_EQ(next->address(), "10.0.0.9/24") << "before anybody was asked";
    next->up();
    next->run(1 * kj::SECONDS);
    EXPECT_EQ(next->takeLog(), "REQUEST, bound 10.0.0.9/24");
  }
  {  // Nobody answers: it is kept, and renewed at its own T1.
    auto next = start(5 * kj::SECONDS);
    next->server.silent = true;
    next->up();
    next->run(1500 * kj::SECONDS);
    EXPECT_EQ(next->takeLog(), "REQUEST, REQUEST, REQUEST");
    EXPECT_EQ(next->address(), "10.0.0.9/24");
    next->server.silent = false;
    next->run(300 * kj::SECONDS);
    EXPECT_EQ(next->takeLog(), "REQUEST unicast, bound 10.0.0.9/24");
  }
  {  // Too late.
    auto next = start(3600 * kj::SECONDS);
    next->up();
    next->run(3 * kj::SECONDS);
    auto log = next->takeLog();
    EXPECT_TRUE(log.startsWith("lost: it has expired, DISCOVER")) << log.cStr();
  }
}

TEST(Client4, whatIsNoLongerWantedEndsWithoutAWord) {
  World world;
  world.up();
  world.run(10 * kj::SECONDS);
  world.takeLog();
  world.perform(world.client().stop(world.moment()));
  EXPECT_EQ(world.takeLog(), "lost: it is no longer wanted");
  EXPECT_TRUE(world.client().deadline() == nullptr);
}

TEST(Client4, aLeaseForEverIsNeverRenewed) {
  World world;
  world.server.seconds = kInfinite;
  world.up();
  world.run(10 * kj::SECONDS);
  world.takeLog();
  EXPECT_TRUE(world.client().deadline() == nullptr);
  world.run(86400 * kj::SECONDS);
  EXPECT_EQ(world.takeLog(), "");
  EXPECT_EQ(world.address(), "10.0.0.9/24");
}

// Catches: timers that assume that they run on time (a machine that was suspended, a loop that was
// stuck).
TEST(Client4, aClockThatJumpsOverEverything) {
  for (auto jump : {2000, 3200, 3585, 3600, 1000000}) {
    World world;
    world.up();
    world.run(10 * kj::SECONDS);
    world.takeLog();
    world.now += jump * kj::SECONDS;
    bool over = jump >= 3600;
    world.perform(world.client().timeout(world.moment()));
    EXPECT_EQ(world.address(), over ? "none" : "10.0.0.9/24") << jump;
    world.run(30 * kj::SECONDS);
    EXPECT_EQ(world.address(), "10.0.0.9/24") << jump;
  }
}

// Catches what no scenario thought of: any mix of loss, delay, doubled packets, cables, servers
// that go and refuse, kills. Always: no address beyond its lease (checked at each step), no flood,
// and with a sound network at the end an address.
TEST(Client4, survivesAnything) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    auto world = kj::heap<World>();
    world->random.seed(seed);
    world->server.seconds = 20 + world->random() % 4000;
    auto start = world->now;
    size_t messages = 0;
    world->up();
    for (unsigned step = 0; step < 40; ++step) {
      auto dice = world->random() % 10;
      world->lossOutOf100 = world->random() % 90;
      world->doubledOutOf100 = world->random() % 50;
      world->jitter = (1 + world->random() % 20000) * kj::MILLISECONDS;
      if (dice == 0) world->down();
      if (dice == 1) world->up();
      world->server.silent = dice == 2;
      world->server.knows = dice != 3;
      if (dice == 4) world->taken = world->server.address;
      if (dice == 5) world->taken = nullptr;
      if (dice == 6) world->now += world->random() % 3000 * kj::SECONDS;
      if (dice == 7) {  // killed, and started with what the file has
        kj::Maybe<Lease4> kept;
        KJ_IF_MAYBE (lease, world->client().lease())
          kept = decodeLease4(encode(*lease), world->now);
        world->held = kj::heap<Client4>(Settings4{copyOf(kMac), kj::str("node")}, kj::mv(kept));
        world->up();
      }
      world->perform(world->client().timeout(world->moment()));
      world->run(world->random() % 1000 * kj::SECONDS);
      messages += world->sent.size();
      world->sent.clear();
    }
    auto hours = double((world->now - start) / kj::SECONDS) / 3600;
    EXPECT_LT(double(messages) / (hours + 0.1), 3600 / 4) << "seed " << seed;
    world->lossOutOf100 = world->doubledOutOf100 = 0;
    world->jitter = 1 * kj::MILLISECONDS;
    world->server.silent = false;
    world->server.knows = true;
    world->taken = nullptr;
    world->down();
    world->up();
    world->run(200 * kj::SECONDS);
    EXPECT_NE(world->address(), "none") << "seed " << seed;
  }
}

}  // namespace
}  // namespace talos::networkd::dhcp
