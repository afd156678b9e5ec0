#include "tests/day/plan/run-day.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>

#include "tests/day/plan/day-text.h"
#include "tests/day/plan/shrink.h"

namespace talos::day {
namespace {

using testing::ElementsAre;

const std::string kBegin = "day seed=1 minutes=5\nround\n";

// A cluster of virtual time, which records what is done with it.
class ModelSite : public Site {
 public:
  std::vector<std::string> events;
  std::string endProblem, convergeProblem, checkProblem;
  double clock = 100, converging = 5;

  double now() override { return clock; }
  void sleepUntil(double at) override { clock = std::max(clock, at); }
  void begin(const Operation& it) override { record("begin " + std::to_string(it.number)); }
  std::string end(const Operation& it) override {
    record("end " + std::to_string(it.number));
    return endProblem;
  }
  std::string converge(const std::vector<unsigned>& nodes) override {
    clock += converging;
    record("converge " + (nodes.empty() ? "all" : std::to_string(nodes.size())));
    return convergeProblem;
  }
  std::string check(bool isEndOfRound) override {
    record(isEndOfRound ? "check round" : "check");
    return checkProblem;
  }
  void note(const std::string&) override {}

 private:
  void record(const std::string& event) {
    char at[32];
    snprintf(at, sizeof at, "%.1f ", clock - 100);
    events.push_back(at + event);
  }
};

Outcome run(const std::string& text, ModelSite& site, double seconds = 1000) {
  return runDay(parseDay(text, "test", {}), site, site.now() + seconds);
}

// Catches: operations that do not overlap as planned, and a fault that ends too early or never.
TEST(RunDay, OverlapsTheOperationsOfABout) {
  ModelSite site;
  auto outcome = run(kBegin +
                         "bout\n"
                         "op 1 pause at=master-1 after=0 lasts=4000\n"
                         "op 2 kill at=master-2 program=etcd after=1500\n"
                         "op 3 cut-off at=worker-1 after=2000 lasts=1000\n"
                         "bout\nop 4 reboot at=master-1\n",
                     site);
  EXPECT_THAT(site.events,
              ElementsAre("0.0 begin 1", "1.5 begin 2", "1.5 end 2", "2.0 begin 3", "3.0 end 3",
                          "4.0 end 1", "9.0 converge all", "9.0 check", "9.0 begin 4", "9.0 end 4",
                          "14.0 converge all", "14.0 check round"));
  EXPECT_EQ(outcome.problem, "");
  EXPECT_EQ(outcome.bouts, 2u);
  EXPECT_EQ(outcome.operations, 4u);
}

// Catches: a test of liveness that heals the faults outside of the quorum first.
TEST(RunDay, OtherFaultsStayWhileAQuorumConverges) {
  ModelSite site;
  run(kBegin +
          "bout quorum=master-1,master-3\n"
          "op 1 power-cut at=master-2 after=0 lasts=1000\n"
          "op 2 stop at=master-3 program=vipd after=500 lasts=2000\n"
          "op 3 deaf at=worker-1 after=500 lasts=4000\n",
      site);
  EXPECT_THAT(site.events, ElementsAre("0.0 begin 1", "0.5 begin 2", "0.5 begin 3", "2.5 end 2",
                                       "9.5 converge 2", "9.5 end 1", "9.5 end 3",
                                       "14.5 converge all", "14.5 check round"));
}

// Catches: a problem that is not the day's outcome, a fault that stays after it, and a day that
// does not end in time.
TEST(RunDay, EndsWithTheFirstProblemOrInTime) {
  auto text = kBegin + "bout\nop 1 pause at=master-1 lasts=4000\nbout\nop 2 reboot at=master-1\n";
  struct Row {
    std::string ModelSite::* field;
    const char* problem;
  } rows[] = {{&ModelSite::endProblem, "op 1 pause at=master-1 after=0 lasts=4000 salt=0: bad"},
              {&ModelSite::convergeProblem, "the cluster does not converge: bad"},
              {&ModelSite::checkProblem, "bad"}};
  for (auto& row : rows) {
    ModelSite site;
    site.*row.field = "bad";
    auto outcome = run(text, site);
    EXPECT_EQ(outcome.problem, row.problem);
    EXPECT_EQ(outcome.failed, 0u);
    EXPECT_EQ(outcome.operations, 1u);
    EXPECT_THAT(site.events, testing::Contains("4.0 end 1"));
  }
  ModelSite site;
  auto outcome = run(text, site, 3);
  EXPECT_EQ(outcome.bouts, 1u);
  EXPECT_EQ(outcome.problem, "");
}

// Catches: an operation that is done twice or not at all, and a day that takes twice its time when
// each recovery takes 5 s.
TEST(RunDay, ADrawnDayRunsThrough) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    ModelSite site;
    auto day = drawDay(seed, 60, {}, {});
    auto outcome = runDay(day, site, 1e9);
    EXPECT_EQ(outcome.operations, day.operations().size());
    EXPECT_LE(site.clock, 100 + 60 * 60 * 2) << "seed " << seed;
    for (auto& it : day.operations()) {
      auto has = [&](const std::string& what) {
        return std::ranges::count_if(site.events, [&](auto& event) {
          return event.ends_with(" " + what + " " + std::to_string(it.number));
        });
      };
      EXPECT_EQ(has("begin"), 1);
      EXPECT_EQ(has("end"), 1);
    }
  }
}

struct ShrinkRow {
  const char* name;
  std::set<unsigned> causes;  // all of them are needed
  unsigned replays;
  size_t left;  // operations at most
  bool finished;
};

// Catches: an operation that could be left out and stays, a cause that is left out, and replays
// without end.
TEST(Shrink, FindsTheOperationsThatFail) {
  auto day = drawDay(3, 60, {}, {});
  auto all = day.operations().size();
  ASSERT_GE(all, 40u);
  const ShrinkRow rows[] = {
      {"one cause", {17}, 100, 1, true},           {"two causes", {4, 33}, 200, 2, true},
      {"three causes", {1, 20, 40}, 300, 3, true}, {"few replays", {17}, 4, all / 4 + 1, false},
      {"no replay", {17}, 0, all, false},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.name);
    unsigned calls = 0;
    auto shrunk = shrink(day, row.replays, [&](const Day& tried) {
      ++calls;
      std::set<unsigned> numbers;
      for (auto& it : tried.operations()) numbers.insert(it.number);
      return std::ranges::includes(numbers, row.causes);
    });
    EXPECT_LE(calls, row.replays);
    EXPECT_EQ(shrunk.replays, calls);
    EXPECT_EQ(shrunk.finished, row.finished);
    EXPECT_LE(shrunk.day.operations().size(), row.left);
    std::set<unsigned> numbers;
    for (auto& it : shrunk.day.operations()) numbers.insert(it.number);
    EXPECT_TRUE(std::ranges::includes(numbers, row.causes));
  }
}

// Catches: a failure that does not repeat, of which operations are left out by chance.
TEST(Shrink, KeepsADayThatPassesWhenItIsReplayed) {
  auto day = drawDay(3, 60, {}, {});
  auto shrunk = shrink(day, 10, [](const Day&) { return false; });
  EXPECT_FALSE(shrunk.repeats);
  EXPECT_EQ(shrunk.replays, 1u);
  EXPECT_EQ(shrunk.day, day);
}

}  // namespace
}  // namespace talos::day
