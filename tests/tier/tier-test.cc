#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <sstream>

#include "tests/tier/explorer.h"

namespace talos::tier {
namespace {

uint64_t numberFrom(const char* variable, uint64_t otherwise) {
  auto text = getenv(variable);
  return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

// Prints the figures of a long run.
void print(const Found& found, double seconds) {
  printf(
      "%llu schedules in %.0f s, %.0f a second; %.1f virtual days, %llu events, %llu durable "
      "writes, %zu states\n",
      (unsigned long long)found.schedules, seconds, double(found.schedules) / seconds,
      double(found.virtualSeconds) / 86400, (unsigned long long)found.events,
      (unsigned long long)found.writes, found.states.size());
  for (size_t i = 0; i < kProbes; ++i) {
    printf("  %-20s %llu\n", nameOf(Probe(i)), (unsigned long long)found.probes[i]);
  }
  fflush(stdout);
}

// Catches: an order of faults, operators and power cuts after which etcd has lost its quorum by our
// hand, a node has no system, or the cluster cannot be upgraded any more; and a run of schedules
// that does not visit the rare states.
TEST(Tier, KeepsItsPromisesInEverySchedule) {
  Explorer explorer;
  auto count = numberFrom("TIER_SCHEDULES", 250), from = numberFrom("TIER_FROM", 3'001);
  auto begin = std::chrono::steady_clock::now();
  auto seconds = [&]() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  auto found = explorer.explore(from, count, {}, [&](const Found& so) {
    if (so.schedules % 10'000 == 0) print(so, seconds());
  });
  if (count > 1'000) print(found, seconds());
  ASSERT_TRUE(found.violation.empty()) << explorer.report(found.seed);
  for (size_t i = 0; i < kProbes; ++i) {
    EXPECT_GT(found.probes[i], 0u) << "no schedule visits: " << nameOf(Probe(i));
  }
}

// Catches: a model in which nothing can fail.
TEST(Tier, FindsWhatMistakenProgramsDo) {
  // The schedules from `from` on find it soon.
  struct Row {
    const char* mistake;
    bool Mistakes::* of;
    uint64_t from;
  } rows[] = {
      {"a system is confirmed without being healthy", &Mistakes::confirmsAnything, 30},
      {"the slot is not flushed before the boot loader's choice", &Mistakes::slotIsNotFlushed, 10},
      {"a node reboots without its turn", &Mistakes::takesNoTurn, 19},
      {"a node removes its member instead of waiting", &Mistakes::removesInsteadOfWaiting, 1},
      {"a node leaves etcd whatever the others are like", &Mistakes::leavesAtOnce, 515},
      {"a node does not ask etcd again after its drain", &Mistakes::asksOnce, 1},
      {"a system that gives up takes no turn", &Mistakes::givesUpAtOnce, 3680},
      {"the boot loader forgets its tries", &Mistakes::loaderForgetsTries, 10},
      {"process 1 has no deadline", &Mistakes::process1HasNoDeadline, 20},
      {"upgrade-cluster takes a reboot for the end", &Mistakes::runBelievesReboots, 1},
  };
  auto most = numberFrom("TIER_MISTAKEN", 1'000);
  Explorer explorer;
  for (auto& row : rows) {
    Mistakes mistakes;
    mistakes.*row.of = true;
    auto found = explorer.explore(row.from, most, mistakes);
    EXPECT_FALSE(found.violation.empty()) << "not found: " << row.mistake;
    if (getenv("TIER_TELL") != nullptr) {
      printf("%s: schedule %llu (%llu played): %s\n", row.mistake, (unsigned long long)found.seed,
             (unsigned long long)found.schedules, found.violation.c_str());
    }
  }
}

// Catches: a schedule that cannot be played again.
TEST(Tier, PlaysAScheduleAgainExactly) {
  Explorer explorer;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    auto first = explorer.play(Schedule::of(seed)), second = explorer.play(Schedule::of(seed));
    EXPECT_EQ(first.fingerprint, second.fingerprint) << seed;
    EXPECT_GT(first.events, 5u);
  }
}

// Plays one schedule and prints its story: TIER_SEED, and of its events those of TIER_ONLY.
TEST(Tier, PlaysOneSchedule) {
  auto seed = numberFrom("TIER_SEED", 1);
  auto schedule = Schedule::of(seed);
  std::set<unsigned> only;
  auto list = getenv("TIER_ONLY");
  std::istringstream numbers(list == nullptr ? "" : list);
  for (std::string number; std::getline(numbers, number, ',');) only.insert(std::stoul(number));
  Explorer explorer;
  auto outcome =
      explorer.play(schedule, {.tells = true, .only = list == nullptr ? nullptr : &only});
  if (getenv("TIER_SEED") != nullptr) {
    printf("%s", schedule.text().c_str());
    for (auto& line : outcome.story) printf("  %s\n", line.c_str());
  }
  EXPECT_EQ(outcome.violation, "");
  EXPECT_FALSE(outcome.story.empty());
}

}  // namespace
}  // namespace talos::tier
