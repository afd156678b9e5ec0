// The running config during a trial and after it: without a crash, after a crash of the brain at
// any point, and after an apply during the trial.
#include <string.h>

#include "machined/config/test-config-manager.h"
#include "machined/process1/value-in-memory-file.h"
#include "rpc/held.capnp.h"

namespace talos::machined {
namespace {

// Catches: a config on trial that touches the disk, ends too early, or never ends.
TEST_F(ConfigManagerTest, ATriedConfigGivesWayAtItsDeadline) {
  auto& b = booted(document("a"));
  auto writes = disk.writes;
  auto outcome = tryOut(document("b")).wait(io.waitScope);
  EXPECT_EQ(ApplyMode::TRY, outcome.mode);
  EXPECT_EQ("b/a?", state());
  EXPECT_TRUE(b.manager.revertsIn() == 1 * kj::MINUTES);
  pass(59'999 * kj::MILLISECONDS);
  EXPECT_EQ("b/a?", state());
  pass(1 * kj::MILLISECONDS);
  EXPECT_EQ("a/a", state());
  EXPECT_TRUE(b.manager.revertsIn() == nullptr);
  EXPECT_EQ(writes, disk.writes);
  EXPECT_EQ(0u, disk.removals + b.reboots + b.intended);
  ASSERT_EQ(2u, b.trials.size());
  EXPECT_EQ("the trial of the config ended; reverted to the previous config", b.trials[1]);
  pass(1 * kj::HOURS);
  EXPECT_EQ("a/a", state());
}

// Catches: a change during a trial that makes a part of the config on trial permanent, because it
// is based on the running config, in any mode.
TEST_F(ConfigManagerTest, AChangeDuringATrialIsRefused) {
  for (auto mode : {ApplyMode::NO_REBOOT, ApplyMode::AUTO, ApplyMode::STAGED, ApplyMode::REBOOT}) {
    SCOPED_TRACE(nameOf(mode).cStr());
    anotherMachine();
    booted(document("a"));
    tryOut(document("a", "  sysctls: {vm.swappiness: \"10\"}\n")).wait(io.waitScope);
    pass(30 * kj::SECONDS);
    auto more = document("b", "  sysctls: {vm.swappiness: \"10\"}\n");
    for (bool dryRun : {true, false}) {
      auto text = refusal(apply(more, mode, dryRun));
      EXPECT_TRUE(contains(text,
                           "FailedPrecondition: a config is on trial "
                           "(machine.sysctls.vm.swappiness) and will be reverted in 30 s"))
          << text;
    }
    EXPECT_EQ("a/a?", state());
    pass(30 * kj::SECONDS);
    EXPECT_EQ("a/a", state());
    apply(document("b"), ApplyMode::NO_REBOOT).wait(io.waitScope);
    EXPECT_EQ("b/b", state());
  }
}

// Catches: a trial that cannot be confirmed by a document with other comments, or ended before its
// deadline.
TEST_F(ConfigManagerTest, ATrialIsConfirmedOrGivenUp) {
  booted(document("a"));
  tryOut(document("b")).wait(io.waitScope);
  apply(kj::str("# kept\n", document("b")), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_EQ("b/b", state());
  tryOut(document("c")).wait(io.waitScope);
  apply(document("b"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_EQ("b/b", state());
  pass(2 * kj::MINUTES);
  EXPECT_EQ("b/b", state());
}

// Catches: a wrong effect of applying the config on trial, or another trial, during a trial.
TEST_F(ConfigManagerTest, ApplyDuringATrialHasTheEffectOfItsMode) {
  struct {
    ApplyMode mode;
    const char* name;
    const char* before;  // the state before the first trial's deadline
    const char* after;   // the state after all deadlines
  } rows[] = {
      {ApplyMode::NO_REBOOT, "b", "b/b", "b/b"}, {ApplyMode::AUTO, "b", "b/b", "b/b"},
      {ApplyMode::TRY, "c", "c/a?", "a/a"},      {ApplyMode::STAGED, "b", "b/b?", "a/b"},
      {ApplyMode::REBOOT, "b", "b/b?", "a/b"},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(nameOf(row.mode).cStr());
    anotherMachine();
    booted(document("a"));
    tryOut(document("b")).wait(io.waitScope);
    pass(30 * kj::SECONDS);
    auto outcome = row.mode == ApplyMode::TRY
                       ? tryOut(document(row.name)).wait(io.waitScope)
                       : apply(document(row.name), row.mode).wait(io.waitScope);
    for (auto& w : outcome.warnings)
      EXPECT_FALSE(contains(w.cStr(), "this config replaces")) << w.cStr();
    pass(29 * kj::SECONDS);
    EXPECT_EQ(row.before, state());
    if (row.mode == ApplyMode::TRY) {  // the second trial has its own deadline
      pass(2 * kj::SECONDS);
      EXPECT_EQ(row.before, state());
    }
    pass(1 * kj::MINUTES);
    EXPECT_EQ(row.after, state());
  }
}

// Catches: a series of trials that ends with one of its configs instead of the config from before.
TEST_F(ConfigManagerTest, ASeriesOfTrialsEndsWhereItBegan) {
  booted(document("a"));
  for (auto name : {"b", "c", "d"}) {
    tryOut(document(name), 10 * kj::SECONDS).wait(io.waitScope);
    pass(9 * kj::SECONDS);
  }
  EXPECT_EQ("d/a?", state());
  pass(1 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
}

// Catches: a trial that is lost, or becomes permanent, by a crash at any line; a deadline that a
// new brain forgets or restarts.
TEST_F(ConfigManagerTest, ATrialOverCrashesOfTheBrain) {
  // 0: before process 1 holds the trial. 1: it holds the trial, nothing is published. 2: published.
  // 3: reverted, process 1 does not know it yet.
  for (int step = 0; step <= 3; step++) {
    for (bool late : {false, true}) {  // the next brain starts after the deadline
      SCOPED_TRACE(testing::Message() << "step " << step << (late ? ", late" : ""));
      anotherMachine();
      booted(document("a"));
      auto paf = kj::newPromiseAndFulfiller<void>();
      auto deadline = timer.now() + 1 * kj::MINUTES;
      if (step == 0) {
        machine.holdGate = kj::mv(paf.promise);
        auto call = tryOut(document("b"));
        EXPECT_FALSE(call.poll(io.waitScope));
      } else if (step == 1) {
        Trial trial(deadline, kj::heapArray(document("a").asArray()),
                    kj::heapArray(document("b").asArray()));
        holdTrial(brain().process1, trial).wait(io.waitScope);
      } else {
        tryOut(document("b")).wait(io.waitScope);
      }
      if (step == 3) {
        auto held = FakeMachine::duplicate(machine.heldFd(kTrialName));
        pass(1 * kj::MINUTES);
        machine.keep(kTrialName, kj::mv(held));
      }
      current = nullptr;
      timer.advanceTo(timer.now() + (late ? 2 : 0) * kj::MINUTES);
      auto& next = start();
      bool on = !late && (step == 1 || step == 2);
      EXPECT_EQ(on ? "b/a?" : "a/a", state());
      EXPECT_EQ(on, next.manager.revertsIn() != nullptr);
      start();  // and another start
      EXPECT_EQ(on ? "b/a?" : "a/a", state());
      if (on) pass(deadline - timer.now());
      EXPECT_EQ("a/a", state());
    }
  }
}

// Catches: a config that was applied for good and is reverted all the same, by this brain or the
// next.
TEST_F(ConfigManagerTest, ConfirmedTrialOutlivesACrash) {
  // 0: process 1 holds the document, 1: it is on disk, 2: it is published, 3: the trial is dropped.
  for (int step = 0; step <= 3; step++) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    anotherMachine();
    booted(document("a"));
    tryOut(document("b")).wait(io.waitScope);
    auto paf = kj::newPromiseAndFulfiller<void>();
    disk.gate = kj::mv(paf.promise);
    auto call = apply(document("b"), ApplyMode::NO_REBOOT);
    EXPECT_FALSE(call.poll(io.waitScope));
    EXPECT_EQ("b/a*?", state());
    if (step >= 1) disk.content = kj::str(document("b"));
    if (step >= 3) dropTrial(brain().process1).wait(io.waitScope);
    call = ConfigManager::Outcome();
    start();
    EXPECT_EQ("b/b", state());
    pass(2 * kj::MINUTES);
    EXPECT_EQ("b/b", state());
  }
}

// Catches: a deadline that interrupts the apply which ends the trial, and a deadline that a failed
// apply drops.
TEST_F(ConfigManagerTest, ADeadlineWhileAnotherIsAppliedWaits) {
  for (bool good : {true, false}) {
    anotherMachine();
    booted(document("a"));
    tryOut(document("b")).wait(io.waitScope);
    auto paf = kj::newPromiseAndFulfiller<void>();
    disk.gate = kj::mv(paf.promise);
    auto call = apply(document("b"), ApplyMode::NO_REBOOT);
    EXPECT_FALSE(call.poll(io.waitScope));
    pass(2 * kj::MINUTES);
    EXPECT_EQ("b/a*?", state());
    EXPECT_TRUE(brain().manager.revertsIn() == 0 * kj::SECONDS);
    if (good) {
      paf.fulfiller->fulfill();
    } else {
      paf.fulfiller->reject(KJ_EXCEPTION(FAILED, "no space left on device"));
    }
    settle();
    EXPECT_EQ(good ? "b/b" : "a/a", state());
  }
}

// Catches: a deadline that ends the next trial instead of the replaced one.
TEST_F(ConfigManagerTest, ADeadlineWhileAnotherTrialBeginsIsNotThatOnes) {
  booted(document("a"));
  tryOut(document("b")).wait(io.waitScope);
  pass(59 * kj::SECONDS);
  auto paf = kj::newPromiseAndFulfiller<void>();
  machine.holdGate = kj::mv(paf.promise);
  auto call = tryOut(document("c"));
  EXPECT_FALSE(call.poll(io.waitScope));
  pass(2 * kj::SECONDS);
  EXPECT_EQ("b/a?", state());
  paf.fulfiller->fulfill();
  settle();
  call.wait(io.waitScope);
  EXPECT_EQ("c/a?", state());
  pass(57 * kj::SECONDS);
  EXPECT_EQ("c/a?", state());
  pass(1 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
}

// Catches: a trial of the largest documents that a new brain cannot continue.
TEST_F(ConfigManagerTest, TheLargestTrialIsTakenUp) {
  booted(document("a"));
  auto large = [] {
    auto text = kj::heapArray<char>(kMostConfigBytes);
    memset(text.begin(), '#', text.size());
    return text;
  };
  holdTrial(brain().process1, Trial(timer.now(), large(), large())).wait(io.waitScope);
  current = nullptr;
  FakeProcess1 next(machine);
  auto found = takeTrial(next);
  EXPECT_EQ(kMostConfigBytes, KJ_ASSERT_NONNULL(found).before.size());
}

// Catches: a trial on a machine without a config to revert to, and a trial that needs a reboot.
TEST_F(ConfigManagerTest, WhereThereIsNoTrial) {
  booted(document("a"));
  auto text = refusal(tryOut(document("b", kEnv)));
  EXPECT_TRUE(contains(text, "FailedPrecondition: these changes need a reboot:")) << text;
  for (auto length : {999 * kj::MILLISECONDS, 24 * kj::HOURS + 1 * kj::MILLISECONDS}) {
    text = refusal(tryOut(document("b"), length));
    EXPECT_TRUE(contains(text, "InvalidArgument: the time of a trial must be 1s")) << text;
  }
  auto dry = apply(document("b"), ApplyMode::TRY, true).wait(io.waitScope);
  EXPECT_EQ(ApplyMode::TRY, dry.mode);
  brain().failed = true;
  text = refusal(tryOut(document("b")));
  EXPECT_TRUE(contains(text, "boot of the node failed")) << text;
  EXPECT_EQ("a/a", state());

  anotherMachine();
  sources.answers.clear();
  sources.answers.add(kj::str());
  auto& b = start();
  text = refusal(apply(document("b"), ApplyMode::TRY, true));
  EXPECT_TRUE(contains(text, "FailedPrecondition")) << text;
  auto loading = b.manager.load();
  EXPECT_FALSE(loading.poll(io.waitScope));
  text = refusal(tryOut(document("b")));
  EXPECT_TRUE(contains(text, "FailedPrecondition: a node in maintenance mode")) << text;
}

// Catches: a trial of volume keys, or keys that are changed to those of a config that the next boot
// does not have, so that it cannot open the volume.
TEST_F(ConfigManagerTest, KeysAreNotTried) {
  constexpr kj::StringPtr kOld =
      "  systemDiskEncryption: {ephemeral: {keys: [{static: {passphrase: old}}]}}\n"_kj;
  constexpr kj::StringPtr kNew =
      "  systemDiskEncryption: {ephemeral: {keys: [{static: {passphrase: new}}]}}\n"_kj;
  booted(document("a", kOld));
  auto text = refusal(tryOut(document("b", kNew)));
  EXPECT_TRUE(contains(text, "FailedPrecondition: the keys of a partition cannot be tried:"))
      << text;
  tryOut(document("b", kOld)).wait(io.waitScope);
  pass(1 * kj::MINUTES);
  for (bool memory : {false, true}) {
    if (memory) disk.volatileBecause = kj::str("it is memory");
    text = refusal(apply(document("b", kNew, memory), ApplyMode::NO_REBOOT));
    EXPECT_TRUE(contains(text, "FailedPrecondition: the next boot would not have these keys:"))
        << text;
  }
  disk.volatileBecause = nullptr;
  EXPECT_EQ("a/a", state());
  apply(document("b", kNew), ApplyMode::AUTO).wait(io.waitScope);
  settle();
  EXPECT_EQ("b/b", state());
  EXPECT_EQ(brain().persisted, "no-reboot");
}

// Catches: a config that is stored or published although the volume did not get its keys.
TEST_F(ConfigManagerTest, KeysThatCannotBeChangedEndTheApply) {
  for (auto mode : {ApplyMode::NO_REBOOT, ApplyMode::REBOOT, ApplyMode::STAGED}) {
    anotherMachine();
    booted(document("a"));
    brain().keysFail = true;
    auto text = refusal(apply(document("b"), mode));
    EXPECT_TRUE(contains(text, "FailedPrecondition: no key opens it")) << text;
    EXPECT_EQ("a/a", state());
    EXPECT_EQ(0u, brain().intended + brain().reboots);
  }
}

// Catches: a trial that fails for a reason that concerns only the copy on disk.
TEST_F(ConfigManagerTest, ATrialNeedsNoDisk) {
  mode = config::Mode::kContainer;
  booted(document("a"));
  disk.volatileBecause = kj::str("it is memory");
  disk.broken = true;
  auto outcome = tryOut(document("b", "", false)).wait(io.waitScope);
  EXPECT_EQ(0u, outcome.warnings.size());
  EXPECT_EQ("b/a?", state());
  pass(1 * kj::MINUTES);
  EXPECT_EQ("a/a", state());
}

// Catches: a staged config that a trial forgets, and a warning about a staged config that does not
// exist.
TEST_F(ConfigManagerTest, AStagedConfigStaysBesideATrial) {
  booted(document("a"));
  apply(document("b"), ApplyMode::STAGED).wait(io.waitScope);
  auto outcome = tryOut(document("c")).wait(io.waitScope);
  EXPECT_EQ(0u, outcome.warnings.size());
  EXPECT_EQ("c/b?", state());
  outcome = apply(document("c"), ApplyMode::STAGED, true).wait(io.waitScope);
  ASSERT_EQ(2u, outcome.warnings.size());
  EXPECT_TRUE(contains(outcome.warnings[0].cStr(), "this config replaces"));
  EXPECT_TRUE(contains(outcome.warnings[1].cStr(), "the trial continues"));
  pass(1 * kj::MINUTES);
  EXPECT_EQ("a/b", state());
}

// Catches: a trial that stays for ever because no parser could read the previous config at its end.
TEST_F(ConfigManagerTest, ARevertWaitsForAReader) {
  booted(document("a"));
  tryOut(document("b")).wait(io.waitScope);
  brain().foreign.broken = error(ErrorKind::kInternal, "cannot start a process");
  pass(1 * kj::MINUTES);
  EXPECT_EQ("b/a?", state());
  brain().foreign.broken = nullptr;
  pass(2 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
}

// Catches: nonsense under the name of a trial that stops a brain, or becomes the config.
TEST_F(ConfigManagerTest, NonsenseUnderTheNameOfATrial) {
  booted(document("a"));
  Held<rpc::HeldCount>(brain().process1, kTrialName)
      .hold([](rpc::HeldCount::Builder out) { out.setNumber(1); })
      .wait(io.waitScope);
  start();
  EXPECT_EQ("a", running());
  EXPECT_TRUE(brain().manager.revertsIn() == nullptr);
}

// Catches: a change of another operator that is overwritten in silence.
TEST_F(ConfigManagerTest, ADocumentOfAnotherVersionIsRefused) {
  booted(document("a"));
  auto version = [&]() {
    return KJ_ASSERT_NONNULL(brain().store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId))
        .version();
  };
  auto from = version();
  auto send = [&](kj::StringPtr name, uint64_t ifVersion, bool dryRun) {
    auto text = document(name);
    return brain().manager.apply({.document = kj::heapArray(text.asArray().slice(0, text.size())),
                                  .mode = ApplyMode::NO_REBOOT,
                                  .dryRun = dryRun,
                                  .ifVersion = ifVersion});
  };
  send("b", from, false).wait(io.waitScope);
  EXPECT_LT(from, version());
  for (bool dryRun : {true, false}) {
    auto text = refusal(send("c", from, dryRun));
    EXPECT_TRUE(contains(text, "Conflict: the config changed in the meantime")) << text;
  }
  EXPECT_EQ("b/b", state());
  send("c", version(), false).wait(io.waitScope);
  send("d", 0, false).wait(io.waitScope);
  EXPECT_EQ("d/d", state());
  // A trial is a change, too, and so is its end.
  from = version();
  tryOut(document("e")).wait(io.waitScope);
  EXPECT_TRUE(contains(refusal(send("f", from, false)), "Conflict"));
  from = version();
  pass(1 * kj::MINUTES);
  EXPECT_TRUE(contains(refusal(send("f", from, false)), "Conflict"));
  EXPECT_EQ("d/d", state());
}

}  // namespace
}  // namespace talos::machined
