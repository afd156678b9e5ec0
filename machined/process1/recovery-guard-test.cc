#include "machined/process1/recovery-guard.h"

#include <gtest/gtest.h>

#include "machined/process1/test-damaged-descriptors.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kNames[] = {"store"_kj, "config/trial"_kj};

struct RecoveryGuardTest : testing::Test {
  ~RecoveryGuardTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  FakeMachine machine;

  // Runs a brain that ends in its recovery, or after it; returns true if it found the records.
  bool brain(bool survives) {
    FakeProcess1 process1(machine);
    RecoveryGuard guard(process1);
    bool good = guard.begin(kNames).wait(scope);
    EXPECT_EQ(good, process1.takeHeld("store") != nullptr);
    if (survives) guard.done().wait(scope);
    return good;
  }
};

// Catches: brains that die of the same record for ever; records that are given up although they can
// be read.
TEST_F(RecoveryGuardTest, GivesUpWhatFiveInARowDiedOf) {
  machine.keep("store", noise(8));
  for (int rounds = 0; rounds < 3; ++rounds) {
    for (unsigned i = 1; i < kMostRecoveries; ++i) EXPECT_TRUE(brain(false));
    EXPECT_TRUE(brain(true));
  }
  for (unsigned i = 0; i < kMostRecoveries; ++i) EXPECT_TRUE(brain(false)) << i;
  machine.keep("other", noise(8));
  EXPECT_FALSE(brain(false));
  EXPECT_TRUE(machine.holds("other"));
  machine.keep("store", noise(8));  // the brain's own
  EXPECT_TRUE(brain(false));
}

// Catches: a count that is damaged itself.
TEST_F(RecoveryGuardTest, BeginsAnewWhenTheCountIsDamaged) {
  machine.keep("store", noise(8));
  for (auto& bad : garbage("held")) {
    machine.keep("recovering", kj::mv(bad.fd));
    EXPECT_TRUE(brain(false)) << bad.what.cStr();
  }
}

}  // namespace
}  // namespace talos::machined
