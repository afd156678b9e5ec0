#include "machined/services/start-conditions.h"

#include <gtest/gtest.h>

#include "machined/services/test-service-set.h"

namespace talos::machined {
namespace {

using Texts = std::vector<const char*>;

kj::Vector<kj::String> textsOf(const Texts& texts) {
  kj::Vector<kj::String> result;
  for (auto text : texts) result.add(kj::str(text));
  return result;
}

// The things that are missing at one moment, and the expected decision.
struct WaitStep {
  int atMs;
  Texts conditions, dispensable, ahead;
  Texts events;
  int nextMs;  // -1: the service may be started
  int limitSeconds = 30;
};

// A wait that does without others after the limit, and gives way for 3 s.
void expectWait(std::initializer_list<WaitStep> steps) {
  StartWait wait(3 * kj::SECONDS);
  for (auto& s : steps) {
    SCOPED_TRACE(testing::Message() << "at " << s.atMs << " ms");
    auto now = kj::origin<kj::TimePoint>() + s.atMs * kj::MILLISECONDS;
    auto decision = wait.decide({.conditions = textsOf(s.conditions),
                                 .dispensable = textsOf(s.dispensable),
                                 .waitsAtMost = s.limitSeconds * kj::SECONDS,
                                 .ahead = textsOf(s.ahead)},
                                now);
    EXPECT_EQ(kj::strArray(textsOf(s.events), "; "), kj::strArray(decision.events, "; "));
    KJ_IF_MAYBE (delay, decision.checkNext) {
      EXPECT_EQ(s.nextMs, *delay / kj::MILLISECONDS);
    } else {
      EXPECT_EQ(s.nextMs, -1);
    }
  }
}

// Catches: a service that starts without its conditions, and an event for each check of them.
TEST(StartWait, ConditionsAreAwaitedWithoutLimitAndShownOnce) {
  expectWait({{0, {"a", "b"}, {}, {}, {"Waiting for a, b"}, 1000},
              {1000, {"a", "b"}, {}, {}, {}, 1000},
              {3600'000, {"b"}, {}, {}, {"Waiting for b"}, 1000},
              {3601'000, {}, {}, {}, {}, -1}});
}

// Catches: a limit that runs while the conditions are not met, so that the service does not wait
// for the others at all; a limit that begins again with each check.
TEST(StartWait, OthersAreAwaitedForThirtySecondsAfterTheConditions) {
  expectWait({{0, {"a"}, {"o"}, {}, {"Waiting for a, o, for at most 30 s"}, 1000},
              {60'000, {}, {"o"}, {}, {"Waiting for o, for at most 30 s"}, 1000},
              {89'500, {}, {"o"}, {}, {}, 500},
              {90'000, {}, {"o"}, {}, {"Starting without waiting any longer for o"}, -1}});
}

// Catches: a limit that is taken once, before the config that sets it is known; a changed limit
// that is not shown, or that begins again.
TEST(StartWait, AChangedLimitCountsFromTheBeginningOfTheWait) {
  expectWait({{0, {}, {"o"}, {}, {"Waiting for o, for at most 30 s"}, 1000},
              {20'000, {}, {"o"}, {}, {"Waiting for o, for at most 120 s"}, 1000, 120},
              {119'000, {}, {"o"}, {}, {}, 1000, 120},
              {119'500, {}, {"o"}, {}, {"Starting without waiting any longer for o"}, -1, 60}});
}

// Catches: a service that waits for others again after it has given them up.
TEST(StartWait, OthersThatWereGivenUpAreNotAwaitedAgain) {
  expectWait({{0, {}, {"o"}, {}, {"Waiting for o, for at most 30 s"}, 1000},
              {30'000,
               {},
               {"o"},
               {"first"},
               {"Starting without waiting any longer for o", "Waiting for first"},
               1000},
              {31'000, {"a"}, {"o"}, {}, {"Waiting for a"}, 1000},
              {32'000, {}, {"o"}, {}, {}, -1}});
}

// Catches: a service that gives way for ever, or for 3 s again after each change.
TEST(StartWait, ServicesThatGoFirstAreAwaitedForThreeSeconds) {
  expectWait({{0, {"a"}, {}, {"first"}, {"Waiting for a"}, 1000},
              {10'000, {}, {}, {"first", "second"}, {"Waiting for first, second"}, 1000},
              {12'200, {}, {}, {"second"}, {"Waiting for second"}, 800},
              {13'000, {}, {}, {"second"}, {}, -1}});
}

struct NamedCondition final : public Condition {
  explicit NamedCondition(bool isMet) : isMet(isMet) {}
  kj::String description() const override { return kj::str("file to exist"); }
  bool met() const override { return isMet; }
  bool isMet;
};

class MissingForStartTest : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  FakeMachine machine;
  TestServiceSet all{machine};
  ServiceDefinition definition;
  ~MissingForStartTest() noexcept override {}
};

// Catches: a dependency that is not named, a wait for a service that is not being started, or that
// is up already.
TEST_F(MissingForStartTest, ServicesAreMissingAsTheirKindSays) {
  for (auto id : {"down", "starting", "up"}) {
    definition.dependsOn.add(kj::str(id));
    definition.waitsFor.add(kj::str(id));
    definition.givesWayTo.add(kj::str(id));
  }
  definition.conditions.add(kj::heap<NamedCondition>(true));
  definition.conditions.add(kj::heap<NamedCondition>(false));
  all.starting = {"starting"};
  all.up = {"up"};
  auto missing = missingForStart(definition, all, false);
  EXPECT_EQ("file to exist; service \"down\" to be \"up\"; service \"starting\" to be \"up\"",
            kj::strArray(missing.conditions, "; "));
  EXPECT_EQ("service \"starting\" to be \"up\"", kj::strArray(missing.dispensable, "; "));
  EXPECT_EQ(30, missing.waitsAtMost / kj::SECONDS);
  EXPECT_EQ("service \"starting\" to be \"up\", for at most 3 s",
            kj::strArray(missing.ahead, "; "));
}

// Catches: a restart that waits for services that are only awaited at the first start.
TEST_F(MissingForStartTest, AServiceThatHasRunDoesNotWaitForDispensableOnes) {
  definition.waitsFor.add(kj::str("starting"));
  all.starting = {"starting"};
  EXPECT_EQ(1u, missingForStart(definition, all, false).dispensable.size());
  EXPECT_EQ(0u, missingForStart(definition, all, true).dispensable.size());
}

}  // namespace
}  // namespace talos::machined
