// Changes of the config on trial beside other events: crashes of the brain, resets, mode try,
// staged configs, changes that cannot be undone, configs that may not be on a disk.
#include "machined/config/change-trial.h"

#include "machined/config/test-change-trial.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kComment = "# another comment\n"_kj;

// A change of the keys of a volume cannot be undone.
kj::String withKeys(kj::StringPtr name) {
  return document(name,
                  "  systemDiskEncryption: {ephemeral: {provider: luks2, keys: [{slot: 0, "
                  "nodeID: {}}]}}\n");
}

}  // namespace

// Catches: a config with which machined crashes again and again, and that is on trial for ever,
// because each brain has its least time.
TEST_F(ChangeTrialTest, AConfigWithWhichMachinedCrashesGoesBack) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  unsigned crashes = 0;
  for (; running() == "bad" && crashes < 40; ++crashes) {
    pass(30 * kj::SECONDS);
    start();
  }
  EXPECT_EQ("a/a", state());
  EXPECT_GE(crashes, 12u);
  EXPECT_LE(crashes, 14u);
  EXPECT_TRUE(contains(trial().getReason().cStr(), "machined exits again and again"));
}

// Catches: a good config that goes back because the brain crashed once, or late.
TEST_F(ChangeTrialTest, AFewCrashesOfMachinedRevertNothing) {
  works(booted(document("a")));
  change(document("b", "    nameservers: [10.0.0.9]\n"), ApplyMode::NO_REBOOT, true)
      .wait(io.waitScope);
  for (int i = 0; i < 8; ++i) {
    live(20 * kj::SECONDS);
    works(start());
    settle();
  }
  live(20 * kj::SECONDS);
  brain().manager.changeTrial().called();
  live(10 * kj::SECONDS);
  EXPECT_EQ("b/b", state());
  EXPECT_EQ("confirmed", stateOfTrial());
}

// Catches: a harmful config that is confirmed because the duties of the node could not be found out
// in time, and a caller without a warning.
TEST_F(ChangeTrialTest, WithoutKnownDutiesTheBootIsOne) {
  auto& b = works(booted(document("a")));
  b.silentFacts = true;
  auto applying = change(document("b", kEnv), ApplyMode::REBOOT);
  EXPECT_FALSE(applying.poll(io.waitScope));
  pass(7 * kj::SECONDS);
  EXPECT_FALSE(applying.poll(io.waitScope));
  pass(2 * kj::SECONDS);
  auto outcome = applying.wait(io.waitScope);
  ASSERT_EQ(1u, outcome.warnings.size());
  EXPECT_TRUE(contains(outcome.warnings[0].cStr(), "could not be found out within 8 s"));
  ASSERT_EQ(1u, outcome.trialDuties.size());
  EXPECT_EQ(kBootDuty, outcome.trialDuties[0]);
}

// Catches: a node that stops answering, and never reboots, because the way back asks again and
// again whether an apply with a reboot has ended.
TEST_F(ChangeTrialTest, AWayBackDoesNotBlockAnApplyThatReboots) {
  auto& b = works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  records.broken = disk.broken = true;
  live(70 * kj::SECONDS);
  ASSERT_EQ("reverting", stateOfTrial());
  records.broken = disk.broken = false;
  auto paf = kj::newPromiseAndFulfiller<void>();
  disk.gate = kj::mv(paf.promise);
  auto applying = change(document("c", kEnv), ApplyMode::REBOOT, false, true);
  pass(10 * kj::SECONDS);  // the next attempt waits for the end of the apply
  paf.fulfiller->fulfill();
  EXPECT_LT(io.waitScope.poll(10'000), 10'000u);
  applying.wait(io.waitScope);
  EXPECT_EQ(1u, b.reboots);
  EXPECT_EQ("bad/c", state());
}

// Catches: an internal error on the console when the way back ends while its record is written.
TEST_F(ChangeTrialTest, AWayBackThatEndsMeanwhileIsNoError) {
  auto& b = works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  records.broken = disk.broken = true;
  live(65 * kj::SECONDS);
  records.broken = disk.broken = false;
  auto paf = kj::newPromiseAndFulfiller<void>();
  records.gate = kj::mv(paf.promise);
  pass(10 * kj::SECONDS);
  auto alarms = b.alarms;
  auto applying = change(document("bad"), ApplyMode::NO_REBOOT, false, true);
  settle();
  paf.fulfiller->fulfill();
  applying.wait(io.waitScope);
  live(30 * kj::SECONDS);
  EXPECT_EQ("bad/bad", state());
  EXPECT_EQ(alarms, b.alarms);
}

// Catches: a trial that ends because the config is applied again with another comment.
TEST_F(ChangeTrialTest, TheSameValuesStayOnTrial) {
  for (bool staged : {false, true}) {
    SCOPED_TRACE(staged);
    anotherMachine();
    works(booted(document("a")));
    change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
    live(10 * kj::SECONDS);
    auto same = kj::str(kComment, document("bad"));
    auto outcome =
        change(same, staged ? ApplyMode::STAGED : ApplyMode::NO_REBOOT).wait(io.waitScope);
    EXPECT_TRUE(outcome.changeTrial != nullptr);
    live(70 * kj::SECONDS);
    EXPECT_EQ("a/a", state());
    EXPECT_EQ("reverted", stateOfTrial());
  }
  // Without a trial there is nothing to try.
  auto outcome = change(kj::str(kComment, document("a")), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_TRUE(outcome.changeTrial == nullptr);
  EXPECT_FALSE(hasRecord());
}

// Catches: a good change that goes back for what failed after another config was staged; a duty of
// that day that is blamed on the staged config itself.
TEST_F(ChangeTrialTest, WhatFailedBeforeTheChangeIsNoReason) {
  for (bool stagedBoots : {false, true}) {
    SCOPED_TRACE(stagedBoots);
    anotherMachine();
    auto& b = works(booted(document("a")));
    change(document("c", kEnv), ApplyMode::STAGED).wait(io.waitScope);
    auto ill = [](config::Config::Reader) {
      TrialFacts facts;
      facts.duties.add(Duty{kj::str(kNodeDuty), kj::str("it is not Ready")});
      facts.duties.add(Duty{kj::str(kBootDuty)});
      return facts;
    };
    b.facts = ill;
    live(11 * kj::MINUTES);
    EXPECT_EQ("none", stateOfTrial());
    if (stagedBoots) {
      machine.drop();
      start().facts = ill;
      load();
    } else {
      change(document("c"), ApplyMode::NO_REBOOT).wait(io.waitScope);
    }
    live(2 * kj::MINUTES);
    EXPECT_EQ("c/c", state());
    EXPECT_EQ("confirmed", stateOfTrial());
  }
}

// Catches: a way back that ends because another config is staged without a trial.
TEST_F(ChangeTrialTest, AStagedConfigDoesNotEndTheWayBack) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  records.broken = disk.broken = true;
  live(65 * kj::SECONDS);
  ASSERT_EQ("reverting", stateOfTrial());
  records.broken = disk.broken = false;
  change(document("c"), ApplyMode::STAGED, false, true).wait(io.waitScope);
  live(20 * kj::SECONDS);
  EXPECT_EQ("a", running());
  EXPECT_EQ("reverted", stateOfTrial());
}

// Catches: a change that cannot be undone and is put on the trial of another one; one that is
// refused although the trial is good, or although the other config is only staged.
TEST_F(ChangeTrialTest, AChangeThatCannotBeUndoneWaitsForTheEndOfATrial) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  auto refused = change(withKeys("bad"), ApplyMode::REBOOT);
  EXPECT_FALSE(refused.poll(io.waitScope));
  for (int i = 0; i < 21; ++i) pass(1 * kj::SECONDS);
  EXPECT_TRUE(contains(refusal(kj::mv(refused)), "wait until the config is"));
  live(2 * kj::MINUTES);
  EXPECT_EQ("a/a", state());

  change(document("b"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  auto waiting = change(withKeys("bad"), ApplyMode::REBOOT);
  for (int i = 0; i < 8; ++i) pass(1 * kj::SECONDS);
  waiting.wait(io.waitScope);
  EXPECT_FALSE(hasRecord());
  live(2 * kj::MINUTES);
  EXPECT_EQ("bad/bad", state());

  anotherMachine();
  works(booted(document("a")));
  change(document("b", kEnv), ApplyMode::STAGED).wait(io.waitScope);
  change(withKeys("bad"), ApplyMode::STAGED).wait(io.waitScope);
  EXPECT_FALSE(hasRecord());
  EXPECT_EQ("a/bad", state());
}

// Catches: a reason of an earlier way back that is shown for a change that was not on trial.
TEST_F(ChangeTrialTest, AChangeWithoutATrialForgetsTheReason) {
  for (auto mode : {ApplyMode::REBOOT, ApplyMode::STAGED}) {
    anotherMachine();
    works(booted(document("a")));
    change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
    live(70 * kj::SECONDS);
    change(document("a"), ApplyMode::NO_REBOOT).wait(io.waitScope);
    EXPECT_EQ("reverted", stateOfTrial());
    change(withKeys("b"), mode).wait(io.waitScope);
    EXPECT_EQ("none", stateOfTrial());
    boot();
    EXPECT_EQ("b/b", state());
    EXPECT_EQ("none", stateOfTrial());
  }
}

// Catches: a way back without its reason, because the good config is not on the disk.
TEST_F(ChangeTrialTest, TheWayBackToAConfigThatIsNotOnDiskHasItsReason) {
  works(booted(document("a", "", false)));
  change(document("bad", kEnv), ApplyMode::REBOOT).wait(io.waitScope);
  live(3 * kj::MINUTES);
  EXPECT_EQ("a/-", state());
  EXPECT_EQ("reverted", stateOfTrial());
  EXPECT_TRUE(contains(trial().getReason().cStr(), "it is not Ready"));
}

// Catches: secrets on the disk of a node whose configs may not be there; a trial of such configs
// that a crash of the brain ends.
TEST_F(ChangeTrialTest, ConfigsThatMayNotBeOnDiskAreNotInTheRecord) {
  works(booted(document("a", "", false)));
  change(document("bad", "", false), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_FALSE(hasRecord());
  live(10 * kj::SECONDS);
  works(start());
  EXPECT_EQ("trying", stateOfTrial());
  live(70 * kj::SECONDS);
  EXPECT_EQ("a/-", state());
  EXPECT_EQ("reverted", stateOfTrial());
  EXPECT_FALSE(hasRecord());
}

// Catches: mode try that makes the trial below it look as if another config ran.
TEST_F(ChangeTrialTest, TheConfigBelowModeTryIsTheOneOnTrial) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  tryOut(document("c"), 1 * kj::MINUTES).wait(io.waitScope);
  change(document("c"), ApplyMode::STAGED).wait(io.waitScope);
  works(start());
  live(30 * kj::SECONDS);
  EXPECT_EQ("c/c?", state());
  live(3 * kj::MINUTES);
  EXPECT_EQ("a/a", state());
  EXPECT_EQ("reverted", stateOfTrial());
}

// Catches: the good config that is put on trial, because mode try runs while another one is staged.
TEST_F(ChangeTrialTest, AStagedConfigIsNotOnTrialWhileAnotherIsTried) {
  works(booted(document("a")));
  change(document("b", kEnv), ApplyMode::STAGED).wait(io.waitScope);
  tryOut(document("c"), 1 * kj::MINUTES).wait(io.waitScope);
  works(start());
  EXPECT_EQ("none", stateOfTrial());
  live(2 * kj::MINUTES);
  EXPECT_EQ("a/b", state());
  EXPECT_EQ("none", stateOfTrial());
  EXPECT_TRUE(hasRecord());
}

// Catches: a way back in the middle of a reset whose node is leaving etcd, which reboots the node
// before the reset is promised.
TEST_F(ChangeTrialTest, ANodeThatLeavesItsClusterForAResetDoesNotGoBack) {
  auto& b = works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  b.leaving = true;
  live(5 * kj::MINUTES);
  EXPECT_EQ("bad/bad", state());
  b.leaving = false;  // it could not leave
  live(70 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
}

// Catches: an upgrade that begins in the moment between a change and its trial.
TEST_F(ChangeTrialTest, AChangeIsUnderWayOnceItIsPublished) {
  auto& b = works(booted(document("a")));
  auto paf = kj::newPromiseAndFulfiller<void>();
  disk.gate = kj::mv(paf.promise);
  auto applying = change(document("b"), ApplyMode::NO_REBOOT);
  settle();
  EXPECT_FALSE(b.manager.changeTrial().isUnderWay());  // nothing has changed
  paf.fulfiller->fulfill();
  while (running() == "a") io.waitScope.poll(1);
  EXPECT_TRUE(b.manager.changeTrial().isUnderWay());
  applying.wait(io.waitScope);
  live(10 * kj::SECONDS);
  EXPECT_FALSE(b.manager.changeTrial().isUnderWay());
}

// Catches: a staged config that was applied during a trial, and whose duties are not noted again
// once the first trial is confirmed.
TEST_F(ChangeTrialTest, AStagedConfigIsJudgedByWhatTheNodeDidLast) {
  auto& b = works(booted(document("a")));
  change(document("a2"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  change(document("b", kEnv), ApplyMode::STAGED).wait(io.waitScope);
  live(10 * kj::SECONDS);
  EXPECT_EQ("confirmed", stateOfTrial());
  b.facts = [](config::Config::Reader) {
    TrialFacts facts;
    facts.duties.add(Duty{kj::str(kNodeDuty), kj::str("it is not Ready")});
    facts.duties.add(Duty{kj::str(kBootDuty)});
    return facts;
  };
  live(11 * kj::MINUTES);
  auto kept = KJ_ASSERT_NONNULL(decodeTrialRecord(KJ_ASSERT_NONNULL(records.content).asArray()));
  ASSERT_EQ(1u, kept.fulfilled.size());
  EXPECT_EQ(kBootDuty, kept.fulfilled[0]);
}

// Catches: a config that a user has decided to keep, and that goes back because machined crashed
// while it noted that.
TEST_F(ChangeTrialTest, WithoutATrialOutlivesACrash) {
  for (auto mode : {ApplyMode::NO_REBOOT, ApplyMode::STAGED}) {
    for (bool noTrial : {true, false}) {
      anotherMachine();
      works(booted(document("a")));
      change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
      settle();
      EXPECT_EQ("trying", stateOfTrial());
      auto same = document("bad");
      Pending pending(mode, kj::heapArray(same.asArray().slice(0, same.size())), noTrial);
      holdPending(brain().process1, pending).wait(io.waitScope);
      works(start());
      settle();
      // A config that is only staged does not end the trial of the running one.
      bool kept = noTrial && mode == ApplyMode::NO_REBOOT;
      EXPECT_EQ(kept ? "none" : "trying", stateOfTrial());
      EXPECT_EQ(kept, !hasRecord());
      live(2 * kj::MINUTES);
      EXPECT_EQ(kept ? "bad/bad" : "a/a", state());
    }
  }
}

// Catches: a trial that stands for ever because the node could not be looked at once.
TEST_F(ChangeTrialTest, AnErrorOfTheFactsEndsNothing) {
  auto& b = works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  b.facts = [](config::Config::Reader) -> TrialFacts { KJ_FAIL_REQUIRE("no facts"); };
  live(20 * kj::SECONDS);
  works(b);
  live(60 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
}

// Catches: an error that does not say why a config was not applied, and what helps.
TEST_F(ChangeTrialTest, ARecordThatCannotBeStoredIsNamed) {
  works(booted(document("a")));
  records.broken = true;
  auto text = refusal(change(document("b"), ApplyMode::NO_REBOOT));
  EXPECT_TRUE(contains(text, "cannot store the way back")) << text;
  EXPECT_TRUE(contains(text, "--no-trial")) << text;
  change(document("b"), ApplyMode::NO_REBOOT, false, true).wait(io.waitScope);
  EXPECT_EQ("b/b", state());
}

}  // namespace talos::machined
