#include "machined/oom/oom-handler.h"

#include <gmock/gmock.h>

#include <string>

namespace talos::machined {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

KillCandidate candidate(kj::StringPtr path, CgroupClass cgroupClass, uint64_t current,
                        kj::Maybe<uint64_t> max = nullptr) {
  return {kj::str(path), cgroupClass, {current, current, max}};
}

class OomHandlerTest : public testing::Test {
 protected:
  kj::TimePoint now = kj::origin<kj::TimePoint>();
  MemorySample sample;
  kj::Maybe<OomHandler> handler;

  void begin(kj::StringPtr trigger = "", kj::StringPtr ranking = "", bool strict = true) {
    handler.emplace(OomSettings{kj::str(trigger), kj::str(ranking), strict}, now);
  }
  MemoryPressure& pressureOf(CgroupClass cgroupClass) {
    return sample.classes[static_cast<size_t>(cgroupClass)].pressure;
  }
  // Samples half a second later; `stall` is how long all tasks of the class waited meanwhile.
  bool after(kj::Duration stall, CgroupClass cgroupClass = CgroupClass::kSystem) {
    now += 500 * kj::MILLISECONDS;
    pressureOf(cgroupClass).values[kFullTotal] += double(stall / kj::MICROSECONDS);
    return KJ_ASSERT_NONNULL(handler).triggers(sample, now);
  }
  std::string choice(kj::Vector<KillCandidate> list) {
    auto victim = KJ_ASSERT_NONNULL(handler).choose(kj::mv(list));
    KJ_IF_MAYBE (v, victim) return v->cgroup.path.cStr();
    return "none";
  }
  template <typename... Candidates>
  std::string chosen(Candidates&&... candidates) {
    kj::Vector<KillCandidate> list;
    (list.add(kj::mv(candidates)), ...);
    return choice(kj::mv(list));
  }
};

// Catches: a kill by one of the three conditions alone; a change that is not that of a second; a
// second kill before the first one can have helped.
TEST_F(OomHandlerTest, DefaultTriggerNeedsGrowthAndPressureAndFiveSeconds) {
  begin();
  pressureOf(CgroupClass::kSystem).values[kFullAvg10] = 6;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(after(1 * kj::MILLISECONDS)) << i;  // 5 s, not more
  // 8 times the change of a second: 180 us in 500 ms are 2880, and 200 us are 3200.
  EXPECT_FALSE(after(180 * kj::MICROSECONDS));
  EXPECT_TRUE(after(200 * kj::MICROSECONDS));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(after(1 * kj::MILLISECONDS)) << i;
  pressureOf(CgroupClass::kSystem).values[kFullAvg10] = 5;
  EXPECT_FALSE(after(1 * kj::MILLISECONDS));
  pressureOf(CgroupClass::kPodruntime).values[kFullAvg10] = 1;
  EXPECT_TRUE(after(1 * kj::MILLISECONDS)) << "the averages of both classes are summed";
}

// Catches: pods that wait for memory within their own limits and make the node kill others.
TEST_F(OomHandlerTest, PressureOfPodsAloneDoesNotTrigger) {
  begin();
  pressureOf(CgroupClass::kBesteffort).values[kFullAvg10] = 90;
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(after(400 * kj::MILLISECONDS, CgroupClass::kBesteffort)) << i;
  }
}

// Catches: a first sample whose change is that since the boot.
TEST_F(OomHandlerTest, FirstSampleHasNoChange) {
  pressureOf(CgroupClass::kSystem).values[kFullTotal] = 1e9;
  begin("d_qos_memory_full_total[System] > 0.0");
  EXPECT_FALSE(after(0 * kj::SECONDS));
  EXPECT_TRUE(after(1 * kj::MILLISECONDS));
  EXPECT_FALSE(after(0 * kj::SECONDS));
}

// Catches: a cgroup that could not be read once, and whose time since the boot counts as that of
// one sample.
TEST_F(OomHandlerTest, ClassThatWasNotMeasuredBeforeHasNoChange) {
  begin("d_qos_memory_full_total[System] > 0.0");
  EXPECT_FALSE(after(0 * kj::SECONDS));
  sample.classes[static_cast<size_t>(CgroupClass::kSystem)].measured = 1;
  pressureOf(CgroupClass::kSystem).values[kFullTotal] = 1e9;
  EXPECT_FALSE(after(0 * kj::SECONDS));
  EXPECT_TRUE(after(1 * kj::MILLISECONDS));
}

// Catches: a pod with a limit, which cannot use up the memory of others, that dies for them; a
// Guaranteed pod or a service that is killed by default.
TEST_F(OomHandlerTest, DefaultRankingChoosesTheLargestPodOfTheLowestClass) {
  begin();
  EXPECT_EQ("b", chosen(candidate("a", CgroupClass::kBesteffort, 10 * kMiB),
                        candidate("b", CgroupClass::kBesteffort, 20 * kMiB),
                        candidate("c", CgroupClass::kBesteffort, 99 * kMiB, 100 * kMiB),
                        candidate("d", CgroupClass::kBurstable, 900 * kMiB)));
  EXPECT_EQ("d", chosen(candidate("d", CgroupClass::kBurstable, 900 * kMiB),
                        candidate("e", CgroupClass::kGuaranteed, 999 * kMiB)));
  EXPECT_EQ("none", chosen(candidate("e", CgroupClass::kGuaranteed, 999 * kMiB),
                           candidate("system/cri", CgroupClass::kPodruntime, 999 * kMiB),
                           candidate("system/etcd", CgroupClass::kSystem, 999 * kMiB)));
}

// Catches: classes that are ordered although the user switched that off.
TEST_F(OomHandlerTest, WithoutStrictClassesTheHighestScoreIsChosen) {
  begin("", "", false);
  EXPECT_EQ("d", chosen(candidate("b", CgroupClass::kBesteffort, 20 * kMiB),
                        candidate("d", CgroupClass::kBurstable, 900 * kMiB)));
  EXPECT_EQ("b", chosen(candidate("b", CgroupClass::kBesteffort, 20 * kMiB),
                        candidate("d", CgroupClass::kBurstable, 30 * kMiB)));
}

// Catches: an expression that ranks all cgroups, and by which the node kills its own services.
TEST_F(OomHandlerTest, ServiceOfTheNodeIsNeverChosenWithStrictClasses) {
  auto all = "double(memory_current.orValue(0u))"_kj;
  begin("", all);
  EXPECT_EQ("none", chosen(candidate("system/etcd", CgroupClass::kSystem, 999 * kMiB)));
  begin("", all, false);
  EXPECT_EQ("system/etcd", chosen(candidate("system/etcd", CgroupClass::kSystem, 999 * kMiB)));
}

// Catches: a mistake in the values that kills, or that stops the handler; one that fills the
// console twice a second.
TEST_F(OomHandlerTest, ExpressionWithoutAResultIsReportedOnceAndKillsNothing) {
  begin("1 / int(memory_full_avg10) > 0", "double(memory_max.value())");
  EXPECT_FALSE(after(1 * kj::SECONDS));
  auto& h = KJ_ASSERT_NONNULL(handler);
  EXPECT_THAT(KJ_ASSERT_NONNULL(h.newMistake()).cStr(), HasSubstr("division by zero"));
  EXPECT_FALSE(after(1 * kj::SECONDS));
  EXPECT_TRUE(h.newMistake() == nullptr);
  sample.node.values[kFullAvg10] = 1;
  EXPECT_TRUE(after(1 * kj::SECONDS));
  EXPECT_EQ("b", chosen(candidate("a", CgroupClass::kBesteffort, 10 * kMiB),
                        candidate("b", CgroupClass::kBesteffort, 20 * kMiB, 30 * kMiB)));
  EXPECT_THAT(KJ_ASSERT_NONNULL(h.newMistake()).cStr(), HasSubstr("there is no value"));
}

// Catches: a score that is not a number and beats every other.
TEST_F(OomHandlerTest, ScoreThatIsNoNumberIsNotChosen) {
  begin("", "path == 'a' ? 0.0 / 0.0 : 1.0");
  EXPECT_EQ("b", chosen(candidate("a", CgroupClass::kBesteffort, 1),
                        candidate("b", CgroupClass::kBesteffort, 1)));
}

// Catches: a change of the memory without a limit that is not a number.
TEST_F(OomHandlerTest, NoLimitHasNoChange) {
  begin("d_qos_memory_max[System] == 0.0 && qos_memory_max[System] > double(EiB)");
  for (auto& each : sample.classes) each.uses[kMax] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(after(0 * kj::SECONDS));
  EXPECT_TRUE(after(0 * kj::SECONDS));
}

}  // namespace
}  // namespace talos::machined
