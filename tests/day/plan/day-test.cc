#include "tests/day/plan/day.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/day/plan/day-text.h"

namespace talos::day {
namespace {

using testing::HasSubstr;

const KnownWorkloads kWorkloads = {{"registers", {"keys", "clients"}}, {"address", {}}};
const std::vector<Workload> kSome = {{"registers", {{"keys", 6}}}, {"address", {}}};

// Catches: a day that depends on more than its seed, and an unintended change of the draws:
// the seeds of a page of evidence would then be other days.
TEST(Day, IsAFunctionOfItsSeed) {
  struct Row {
    uint64_t seed;
    unsigned minutes;
    size_t operations;
    const char *first, *last;
  } rows[] = {{1, 10, 72, "op 1 reset at=master-2 after=0 lasts=0 salt=267949",
               "op 72 deaf at=master-2 after=4077 lasts=16061 salt=786652"},
              {2, 10, 48, "op 1 bad-config at=master-2 after=0 lasts=0 salt=26882",
               "op 48 power-cut at=master-2 after=0 lasts=12345 salt=229365"},
              {17, 60, 253, "op 1 token-join at=worker-1 after=0 lasts=0 salt=159465",
               "op 253 token-join at=worker-1 after=2536 lasts=0 salt=450724"},
              {18'446'744'073'709'551'615u, 600, 2546,
               "op 1 bad-config at=master-2 after=0 lasts=0 salt=130841",
               "op 2546 power-cut at=master-2 after=4260 lasts=11887 salt=588697"}};
  for (auto& row : rows) {
    auto day = drawDay(row.seed, row.minutes, kSome, {});
    EXPECT_EQ(day, drawDay(row.seed, row.minutes, kSome, {}));
    auto operations = day.operations();
    EXPECT_EQ(operations.size(), row.operations);
    EXPECT_EQ(textOf(operations.front()), row.first);
    EXPECT_EQ(textOf(operations.back()), row.last);
    EXPECT_NE(day.rounds, drawDay(row.seed - 1, row.minutes, kSome, {}).rounds);
  }
}

// Catches: bouts that cannot be done, kinds that the host lacks, a day that is much too short or
// too long by its own clock.
TEST(Day, HasOnlyWhatCanBeDone) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    auto day = drawDay(seed, 60, {}, {Kind::kSlowLink, Kind::kUpgrade});
    unsigned clock = 0, number = 0;
    for (auto& round : day.rounds) {
      ASSERT_FALSE(round.empty());
      for (auto& bout : round) {
        clock += costOf(bout);
        ASSERT_GE(bout.operations.size(), 1u);
        ASSERT_LE(bout.operations.size(), 3u);
        for (auto& a : bout.operations) {
          EXPECT_EQ(a.number, ++number);
          EXPECT_NE(a.kind, Kind::kSlowLink);
          EXPECT_NE(a.kind, Kind::kUpgrade);
          EXPECT_EQ(a.kind == Kind::kKill || a.kind == Kind::kStop, !a.program.empty());
          for (auto& b : bout.operations) EXPECT_TRUE(&a == &b || agree(a, b)) << textOf(a);
        }
      }
    }
    EXPECT_GE(clock, 60u * 60);
    EXPECT_LE(clock, 60u * 60 + 300);
  }
}

// Catches: a test of liveness without a fault that stays, or with a quorum that has one.
TEST(Day, ARoundEndsInLiveness) {
  unsigned tests = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    for (auto& round : drawDay(seed, 30, {}, {}).rounds) {
      for (auto& bout : round) {
        if (bout.quorum.empty()) continue;
        EXPECT_EQ(&bout, &round.back());
        ++tests;
        ASSERT_EQ(bout.quorum.size(), 2u);
        auto isOutside = [&](unsigned node) {
          return std::ranges::find(bout.quorum, node) == bout.quorum.end();
        };
        EXPECT_TRUE(std::ranges::any_of(
            bout.operations, [&](auto& it) { return it.node != kWorker && isOutside(it.node); }));
        for (auto& it : bout.operations) {
          EXPECT_TRUE(rowOf(it.kind).stays) << textOf(it);
          EXPECT_TRUE(!it.peer || isOutside(it.node) || isOutside(*it.peer)) << textOf(it);
        }
      }
    }
  }
  EXPECT_GT(tests, 100u);
}

// Catches: weights that are the same for every seed, and an hour without a state that it must
// visit.
TEST(Day, DrawsItsWeights) {
  std::set<unsigned> weights;
  unsigned leftOut = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    auto day = drawDay(seed, 60, {}, {});
    weights.insert(day.weights["kill"]);
    for (auto& [name, weight] : day.weights) leftOut += weight == 0;
    std::set<std::string> visited;
    for (auto& it : day.operations()) {
      if (auto state = rowOf(it.kind).state) visited.insert(state);
    }
    EXPECT_THAT(visited,
                testing::UnorderedElementsAre("config went back", "cut off", "member promoted",
                                              "system given up", "token spent"))
        << "seed " << seed;
  }
  EXPECT_EQ(weights.size(), 7u);
  EXPECT_GT(leftOut, 100u);
}

// Catches: a printed day that is another one when it is replayed.
TEST(DayText, IsReadAsItWasPrinted) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    auto day = drawDay(seed, 30, kSome, {});
    EXPECT_EQ(parseDay(textOf(day), "day.txt", kWorkloads), day) << "seed " << seed;
  }
}

// Catches: a mistake in a text that is not named, or that changes the day silently.
TEST(DayText, MistakesAreNamed) {
  const std::string begin = "day seed=1 minutes=5\nround\nbout\n";
  struct Row {
    std::string text;
    const char* problem;
  } rows[] = {
      {"", "t:0: the text has no line \"day\""},
      {"round\n", "t:1: the first line must be"},
      {"day seed=1 minutes=5\nday seed=2\n", "t:2: a second line"},
      {"day seed=-1\n", "t:1: seed is \"-1\"; it must be a number"},
      {"day seed=1 hours=5\n", "\"hours=5\" is not valid here; use KEY=VALUE with minutes,seed"},
      {"day seed=1 seed=2\n", "seed is duplicate"},
      {"day seed=1\nworkload typist\n", "unknown workload; use one of address,registers"},
      {"day seed=1\nworkload address keys=5\n", "is not valid here; use no field"},
      {"day seed=1\nweight kil 5\n", "unknown operation \"kil\"; use one of reboot,power-cut"},
      {"day seed=1\nbout\n", "a bout before the first round"},
      {"day seed=1\nround\nbout quorum=master-1\n", "the nodes are no quorum"},
      {"day seed=1\nround\nbout quorum=master-1,worker-1\n", "a worker is no part of a quorum"},
      {"day seed=1\nround\nop 1 reboot at=master-1\n", "an operation before its bout"},
      {begin + "op 1\n", "write: op NUMBER OPERATION at=NODE"},
      {begin + "op 1 reboot at=master-9\n", "t:4: unknown node \"master-9\""},
      {begin + "op 1 reset at=worker-1\n", "reset cannot be done at worker-1"},
      {begin + "op 1 kill at=master-1 program=sh\n", "program must be one of machined,apid"},
      {begin + "op 1 kill at=worker-1 program=etcd\n", "program must be one of machined,apid"},
      {begin + "op 1 cut-link at=master-1 peer=master-1\n", "peer must be another node"},
      {begin + "op 1 pause at=master-1 lasts=1h\n", "lasts is \"1h\"; it must be a number"},
      {begin + "op 1 pause at=master-1\nop 2 reboot at=master-1\n",
       "t:5: it cannot be done beside operation 1"},
      {begin + "op 1 pause at=master-1\nop 1 reboot at=master-2\n", "operation 1 is duplicate"},
      {begin + "ops\n", "\"ops\" is not a line of a day"},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.text);
    try {
      parseDay(row.text, "t", kWorkloads);
      ADD_FAILURE() << "the text was read";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr(row.problem));
    }
  }
}

// Catches: a part of a day with other operations than those that are kept.
TEST(Day, IsCutToSomeOperations) {
  auto day = drawDay(5, 30, kSome, {});
  auto some = withOnly(day, {2, 5});
  ASSERT_EQ(some.operations().size(), 2u);
  EXPECT_EQ(some.operations()[0], day.operations()[1]);
  EXPECT_EQ(some.operations()[1], day.operations()[4]);
  EXPECT_EQ(some.workloads, day.workloads);
  auto first = upTo(day, 0);
  EXPECT_EQ(first.rounds.size(), 1u);
  EXPECT_EQ(first.operations(), day.rounds[0][0].operations);
}

}  // namespace
}  // namespace talos::day
