// The client with unplugged cables, kills and clock jumps, and all of these at random.
#include "networkd/dhcp/test-dhcp-client4.h"

namespace talos::networkd::dhcp {
namespace {

using namespace model4;

// Catches: an address that flaps when a cable is unplugged for a moment or the process is killed.
TEST(Client4, ACableThatIsOutForAMomentChangesNothing) {
  Client4Bench bench;
  bench.up();
  bench.run(10 * kj::SECONDS);
  bench.takeLog();
  bench.down();
  bench.run(60 * kj::SECONDS);
  EXPECT_EQ(bench.address(), "10.0.0.9/24");
  bench.up();
  bench.run(10 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "REQUEST, bound 10.0.0.9/24");
  auto& m = bench.sent.back();
  EXPECT_TRUE(m.server == nullptr && m.requested == ip("10.0.0.9") && m.client.isAny());
  bench.down();
  bench.run(3600 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "lost: it has expired") << "also without a cable";
}

TEST(Client4, AKilledOneGoesOnWithItsLease) {
  Client4Bench bench;
  bench.up();
  bench.run(100 * kj::SECONDS);
  auto file = encode(*bench.lease());
  auto start = [&](kj::Duration later) {
    auto now = bench.now + later;
    auto again = kj::heap<Client4Bench>(decodeLease4(file, now));
    again->now = now;
    again->server.until = bench.server.until;
    return again;
  };
  {
    auto next = start(5 * kj::SECONDS);
    EXPECT_EQ(next->address(), "10.0.0.9/24") << "before anybody was asked";
    next->up();
    next->run(1 * kj::SECONDS);
    EXPECT_EQ(next->takeLog(), "REQUEST, bound 10.0.0.9/24");
  }
  {  // Without an answer the lease is kept, and renewed at its T1.
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
  {  // The answer is too late.
    auto next = start(3600 * kj::SECONDS);
    next->up();
    next->run(3 * kj::SECONDS);
    auto log = next->takeLog();
    EXPECT_TRUE(log.startsWith("lost: it has expired, DISCOVER")) << log.cStr();
  }
}

// Catches: a server that keeps holding an unused address; a release that the server cannot match
// (RFC 2131 §4.4.6, table 5); a release of another client's address.
TEST(Client4, WhatIsNoLongerWantedIsGivenBack) {
  constexpr auto kReleased = "RELEASE unicast, lost: it is no longer wanted"_kj;
  struct Row {
    const char* when;
    kj::Function<void(Client4Bench&)> prepare;
    kj::StringPtr log;
  };
  Row rows[] = {
      {"bound", [](Client4Bench& w) { w.run(10 * kj::SECONDS); }, kReleased},
      {"renewing",
       [](Client4Bench& w) {
         w.run(10 * kj::SECONDS);
         w.server.silent = true;
         w.run(1900 * kj::SECONDS);
         w.server.silent = false;
         EXPECT_EQ(w.client().state(), State::kRenewing);
       },
       kReleased},
      {"rebinding",
       [](Client4Bench& w) {
         w.run(10 * kj::SECONDS);
         w.server.silent = true;
         w.run(3200 * kj::SECONDS);
         w.server.silent = false;
         EXPECT_EQ(w.client().state(), State::kRebinding);
       },
       kReleased},
      {"confirming",
       [](Client4Bench& w) {
         w.run(10 * kj::SECONDS);
         w.down();
         w.up();
         EXPECT_EQ(w.client().state(), State::kConfirming);
       },
       kReleased},
      {"probing",
       [](Client4Bench& w) {
         while (w.client().state() != State::kProbing) w.run(1 * kj::MILLISECONDS);
       },
       "RELEASE unicast"_kj},
      {"requesting",
       [](Client4Bench& w) {
         while (w.client().state() != State::kRequesting) w.run(1 * kj::MILLISECONDS);
       },
       ""},
      {"nothing yet", [](Client4Bench&) {}, ""},
      {"no cable",
       [](Client4Bench& w) {
         w.run(10 * kj::SECONDS);
         w.down();
       },
       "lost: it is no longer wanted"},
      {"expired, and nobody has looked",
       [](Client4Bench& w) {
         w.run(10 * kj::SECONDS);
         w.now += 3600 * kj::SECONDS;
       },
       "lost: it is no longer wanted"},
  };
  for (auto& row : rows) {
    Client4Bench bench;
    bench.up();
    row.prepare(bench);
    bench.takeLog();
    auto before = bench.sent.size() > 0 ? bench.sent.back().exchange : 0;
    auto held = bench.server.until.size();
    bench.perform(bench.client().stop(bench.moment()));
    EXPECT_EQ(bench.takeLog(), row.log) << row.when;
    EXPECT_TRUE(bench.client().deadline() == nullptr) << row.when;
    EXPECT_EQ(bench.client().state(), State::kDown) << row.when;
    if (!row.log.startsWith("RELEASE")) continue;
    auto& m = bench.sent.back();
    EXPECT_EQ(m.client, ip("10.0.0.9")) << row.when;
    EXPECT_TRUE(m.server == ip("10.0.0.1")) << row.when;
    EXPECT_EQ(m.clientIdentifier.size(), 7u) << row.when;
    EXPECT_TRUE(m.requested == nullptr && m.parameters.size() == 0 && m.maximumSize == nullptr &&
                m.lease == nullptr && m.hostname.size() == 0)
        << row.when << ": these must not be in it";
    EXPECT_EQ(m.seconds, 0u) << row.when;
    EXPECT_FALSE(m.broadcast) << row.when;
    EXPECT_NE(m.exchange, before) << row.when;
    bench.run(1 * kj::SECONDS);
    EXPECT_EQ(bench.server.until.size(), held - 1) << row.when << ": the server has it back";
    EXPECT_EQ(bench.takeLog(), "") << row.when << ": once";
  }
}

TEST(Client4, ALeaseForEverIsNeverRenewed) {
  Client4Bench bench;
  bench.server.seconds = kInfinite;
  bench.up();
  bench.run(10 * kj::SECONDS);
  bench.takeLog();
  EXPECT_TRUE(bench.client().deadline() == nullptr);
  bench.run(86400 * kj::SECONDS);
  EXPECT_EQ(bench.takeLog(), "");
  EXPECT_EQ(bench.address(), "10.0.0.9/24");
}

// Catches: timers that assume punctual calls (the machine was suspended, the loop was stuck).
TEST(Client4, AClockThatJumpsOverEverything) {
  for (auto jump : {2000, 3200, 3585, 3600, 1000000}) {
    Client4Bench bench;
    bench.up();
    bench.run(10 * kj::SECONDS);
    bench.takeLog();
    bench.now += jump * kj::SECONDS;
    bool over = jump >= 3600;
    bench.perform(bench.client().timeout(bench.moment()));
    EXPECT_EQ(bench.address(), over ? "none" : "10.0.0.9/24") << jump;
    bench.run(30 * kj::SECONDS);
    EXPECT_EQ(bench.address(), "10.0.0.9/24") << jump;
  }
}

// Catches: errors that no scenario foresaw, by any mix of loss, delay, doubled packets, cables,
// servers that vanish and refuse, kills. Always: no address beyond its lease (checked at each
// step), no flood, and with a sound network at the end an address.
TEST(Client4, RandomFaultsLeaveNoInvalidLease) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    auto bench = kj::heap<Client4Bench>();
    bench->random.seed(seed);
    bench->server.seconds = 20 + bench->random() % 4000;
    auto start = bench->now;
    size_t messages = 0;
    bench->up();
    for (unsigned step = 0; step < 40; ++step) {
      auto dice = bench->random() % 10;
      bench->lossOutOf100 = bench->random() % 90;
      bench->doubledOutOf100 = bench->random() % 50;
      bench->jitter = (1 + bench->random() % 20000) * kj::MILLISECONDS;
      if (dice == 0) bench->down();
      if (dice == 1) bench->up();
      bench->server.silent = dice == 2;
      bench->server.knows = dice != 3;
      if (dice == 4) bench->taken = bench->server.address;
      if (dice == 5) bench->taken = nullptr;
      if (dice == 6) bench->now += bench->random() % 3000 * kj::SECONDS;
      if (dice == 7) {  // killed, and started with the content of the file
        kj::Maybe<Lease4> kept;
        KJ_IF_MAYBE (lease, bench->client().lease())
          kept = decodeLease4(encode(*lease), bench->now);
        bench->held = kj::heap<Client4>(Settings4{copyOf(kMac), kj::str("node")}, kj::mv(kept));
        bench->up();
      }
      bench->perform(bench->client().timeout(bench->moment()));
      bench->run(bench->random() % 1000 * kj::SECONDS);
      messages += bench->sent.size();
      bench->sent.clear();
    }
    auto hours = double((bench->now - start) / kj::SECONDS) / 3600;
    EXPECT_LT(double(messages) / (hours + 0.1), 3600 / 4) << "seed " << seed;
    bench->lossOutOf100 = bench->doubledOutOf100 = 0;
    bench->jitter = 1 * kj::MILLISECONDS;
    bench->server.silent = false;
    bench->server.knows = true;
    bench->taken = nullptr;
    bench->down();
    bench->up();
    bench->run(200 * kj::SECONDS);
    EXPECT_NE(bench->address(), "none") << "seed " << seed;
  }
}

}  // namespace
}  // namespace talos::networkd::dhcp
