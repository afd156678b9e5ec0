#include <gtest/gtest.h>
#include <stdlib.h>

#include "vipd/test-vip-model.h"

namespace talos::vipd {
namespace {

// Latest time of a new holder once the faults have ended: the rest of an election of etcd's leader,
// a lease and an election timeout, etcd's delay, the guard, and two rounds that failed just before.
constexpr Model::Time kBound = 9 * Model::kSecond;

struct Found {
  unsigned overlaps = 0, stuck = 0, changes = 0, exits = 0;
  Model::Time longest = 0;
  std::string first;
};

Found explore(unsigned schedules, Model::Options options, bool stopAtFirst = false) {
  Found found;
  for (unsigned seed = 1; seed <= schedules; ++seed) {
    Model model(seed, options);
    auto outcome = model.run(kBound);
    found.changes += outcome.changes;
    found.exits += outcome.exits;
    found.longest = kj::max(found.longest, outcome.away);
    bool overlap = !outcome.overlap.empty();
    found.overlaps += overlap;
    found.stuck += !overlap && !outcome.recovered;
    if (found.first.empty() && (overlap || !outcome.recovered)) {
      found.first = kj::str("schedule ", seed, ": ",
                            overlap ? outcome.overlap.c_str() : "nobody has it in the end")
                        .cStr();
    }
    if (stopAtFirst && overlap) break;
  }
  return found;
}

// Catches: an address at two hosts, or at none for good, after any of these faults in any order: a
// lease calculated from its answer, a late kernel, an address added by a process that had been
// stopped, an address released in the wrong order.
TEST(Model, NeverTwoHoldersAndAlwaysOneAgain) {
  const char* more = getenv("VIP_SCHEDULES");
  unsigned schedules = more == nullptr ? 10000 : atoi(more);
  auto found = explore(schedules, {});
  EXPECT_EQ(0u, found.overlaps) << found.first;
  EXPECT_EQ(0u, found.stuck) << found.first;
  // The holder changed, and processes were stopped at the critical points.
  EXPECT_GT(found.changes, schedules);
  EXPECT_GT(found.exits, schedules / 20);
  RecordProperty("longest_ms", std::to_string(found.longest / Model::kMs));
  RecordProperty("changes", std::to_string(found.changes));
  RecordProperty("exits", std::to_string(found.exits));
}

// Catches: a model in which nothing can fail.
TEST(Model, FindsWhatMistakenProgramsDo) {
  struct Row {
    const char* mistake;
    bool Model::Options::* of;
  } rows[] = {
      {"a lease that is reckoned from the answer to its renewal", &Model::Options::fromReceipt},
      {"a look at the clock instead of a guarded section", &Model::Options::noGuardedSection},
      {"an address that came late and stays", &Model::Options::leavesWhatCameLate},
      {"the address goes after the key has", &Model::Options::keepsWhenLeaving},
      {"the age of keys does not count", &Model::Options::ignoresAge},
  };
  for (auto& row : rows) {
    Model::Options options;
    options.*row.of = true;
    auto found = explore(2000, options, true);
    EXPECT_GT(found.overlaps, 0u) << row.mistake;
  }
}

// --- promises for single cases

struct Story {
  Model model{7, {.trouble = 0}};
  Story() { model.runUntil(5 * Model::kSecond); }
  // Returns the milliseconds until another host than `old` has the address.
  int64_t until(int old) {
    auto begin = model.time();
    while (model.holder() == old || model.holder() < 0) {
      model.runUntil(model.time() + Model::kMs);
      if (model.time() - begin > 60 * Model::kSecond) return -1;
    }
    return (model.time() - begin) / Model::kMs;
  }
};

// Catches: a hand-over that waits for a lease to end, or for the guard.
TEST(Model, AHolderThatLeavesInOrderIsFollowedAtOnce) {
  Story story;
  int holder = story.model.holder();
  ASSERT_GE(holder, 0);
  story.model.stepDown(unsigned(holder));
  auto took = story.until(holder);
  EXPECT_GE(took, 0);
  EXPECT_LE(took, 100);
}

// Catches: an address that returns only after more than a lease, etcd's half second, the guard and
// a renewal.
TEST(Model, AfterADeadHolderTheAddressIsBackWithinItsBound) {
  for (unsigned i = 0; i < 20; ++i) {
    Story story;
    story.model.runUntil(story.model.time() + i * 37 * Model::kMs);
    int holder = story.model.holder();
    ASSERT_GE(holder, 0);
    story.model.kill(unsigned(holder));
    auto took = story.until(holder);
    EXPECT_GE(took, 1000);  // the old holder's lease
    EXPECT_LE(took, 2900);
  }
}

// Catches: waiting hosts that lose their place while etcd has no leader, so that the address stays
// away for longer than the election, the whole lease with an election timeout, etcd's half second
// and the guard.
TEST(Model, AfterADeadHolderThatEtcdsLeaderWasOnTheAddressIsBackWithinSixSeconds) {
  for (unsigned i = 0; i < 20; ++i) {
    Story story;
    story.model.runUntil(story.model.time() + i * 37 * Model::kMs);
    int holder = story.model.holder();
    ASSERT_GE(holder, 0);
    story.model.kill(unsigned(holder));
    story.model.loseLeader((1000 + i * 50) * Model::kMs);
    auto took = story.until(holder);
    EXPECT_GE(took, 4000);  // the shortest election, and the old holder's lease
    EXPECT_LE(took, 6000);
    EXPECT_TRUE(story.model.outcome.overlap.empty()) << story.model.outcome.overlap;
  }
}

// Catches: a holder that gives up its key because etcd's leader, on another node, was lost, so that
// the address waits for the end of a lease.
TEST(Model, HolderHasTheAddressAgainOnceEtcdHasALeader) {
  constexpr auto kElection = 3 * Model::kSecond;
  Story story;
  int holder = story.model.holder();
  ASSERT_GE(holder, 0);
  auto changes = story.model.outcome.changes;
  auto lost = story.model.time();
  story.model.loseLeader(kElection);
  story.model.runUntil(lost + kElection - Model::kMs);
  EXPECT_EQ(-1, story.model.holder());
  story.model.runUntil(lost + kElection + 1500 * Model::kMs);
  EXPECT_EQ(holder, story.model.holder());
  EXPECT_EQ(changes, story.model.outcome.changes);
}

// Catches: a holder whose key was deleted by hand and that continues as long as its lease lives.
TEST(Model, AHolderWithoutItsKeyLetsGo) {
  Story story;
  int holder = story.model.holder();
  ASSERT_GE(holder, 0);
  story.model.deleteKeyOf(unsigned(holder));
  auto took = story.until(holder);
  EXPECT_GE(took, 250);
  EXPECT_LE(took, 1000);
  EXPECT_TRUE(story.model.outcome.overlap.empty()) << story.model.outcome.overlap;
}

// Catches: more renewals than a lease needs.
TEST(Model, RenewalsPerMinuteAreFew) {
  Story story;
  auto before = story.model.outcome.renewals;
  story.model.runUntil(story.model.time() + 60 * Model::kSecond);
  auto count = story.model.outcome.renewals - before;
  EXPECT_GE(count, 300u);
  EXPECT_LE(count, 380u);  // six of the holder in a lease, and three of each of the two waiting
                           // hosts
}

}  // namespace
}  // namespace talos::vipd
