// Changes of volume keys that continue after their caller was answered.
#include "machined/config/test-config-manager.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kOld =
    "  systemDiskEncryption: {ephemeral: {keys: [{static: {passphrase: old}}]}}\n"_kj;
constexpr kj::StringPtr kNew =
    "  systemDiskEncryption: {ephemeral: {keys: [{static: {passphrase: new}}]}}\n"_kj;

struct OperationTest : ConfigManagerTest {
  ~OperationTest() noexcept override {}
  kj::Own<kj::PromiseFulfiller<void>> go;

  void holdKeys() {
    auto paf = kj::newPromiseAndFulfiller<void>();
    brain().keysGate = paf.promise.fork();
    go = kj::mv(paf.fulfiller);
  }
  // Applies for a caller that chose the operation's number.
  kj::Promise<ConfigManager::Outcome> numbered(kj::StringPtr text, ApplyMode mode, uint64_t number,
                                               bool dryRun = false) {
    return brain().manager.apply({.document = kj::heapArray(text.asArray().slice(0, text.size())),
                                  .mode = mode,
                                  .dryRun = dryRun,
                                  .operation = number});
  }
  std::string recordedMode() {
    KJ_IF_MAYBE (o, brain().store.tryGet<rpc::OperationSpec>(kApplyOperation)) {
      return o->getMode().cStr();
    }
    return "-";
  }
  // Returns "number state step error".
  std::string operation() {
    KJ_IF_MAYBE (o, brain().store.tryGet<rpc::OperationSpec>(kApplyOperation)) {
      return kj::str(o->getNumber(), " ", o->getState(), " ", o->getStep(), " ", o->getError())
          .cStr();
    }
    return "-";
  }
};

// Catches: a caller who must wait while keys are derived, or who reads that a config is in effect
// before it is stored; an operation without an end, or two with the same number; other changes that
// become operations.
TEST_F(OperationTest, TheCallerIsAnsweredAndTheRestGoesOn) {
  booted(document("a", kOld));
  holdKeys();
  auto outcome = apply(document("b", kNew), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_EQ(outcome.operation, 1u);
  settle();
  EXPECT_EQ("a/a*", state());
  EXPECT_EQ(operation(), "1 running adding a key ");
  auto text = refusal(apply(document("c", kNew), ApplyMode::NO_REBOOT));
  EXPECT_TRUE(contains(text, "Conflict: another config is being applied")) << text;
  go->fulfill();
  settle();
  EXPECT_EQ("b/b", state());
  EXPECT_EQ(operation(), "1 done adding a key ");

  EXPECT_EQ(apply(document("c", kNew), ApplyMode::NO_REBOOT).wait(io.waitScope).operation, 0u);
  EXPECT_EQ("c/c", state());
  EXPECT_EQ(operation(), "1 done adding a key ");
  confirmChange();
  brain().keysGate = nullptr;
  EXPECT_EQ(apply(document("d", kOld), ApplyMode::NO_REBOOT).wait(io.waitScope).operation, 2u);
  settle();
  EXPECT_EQ(operation(), "2 done adding a key ");
}

// Catches: a change of keys that starts from the running config although another config is staged
// for the next boot, which would then lack its keys.
TEST_F(OperationTest, WhatWasStagedIsWhatIsChangedFrom) {
  booted(document("a", kOld));
  apply(document("b", kNew), ApplyMode::STAGED).wait(io.waitScope);
  settle();
  EXPECT_EQ("a/b", state());
  EXPECT_EQ(brain().stagedBefore, "");
  apply(document("c", kOld), ApplyMode::NO_REBOOT).wait(io.waitScope);
  settle();
  EXPECT_EQ("c/c", state());
  EXPECT_EQ(brain().stagedBefore, "b");
  confirmChange();
  apply(document("d", kNew), ApplyMode::NO_REBOOT).wait(io.waitScope);
  settle();
  EXPECT_EQ(brain().stagedBefore, "");
}

// Catches: a failure that waiting callers do not see, and a config that is stored or runs in spite
// of the failure.
TEST_F(OperationTest, AFailureIsItsEnd) {
  booted(document("a", kOld));
  brain().keysFail = true;
  EXPECT_EQ(apply(document("b", kNew), ApplyMode::NO_REBOOT).wait(io.waitScope).operation, 1u);
  settle();
  EXPECT_EQ(operation(), "1 failed  no key opens it");
  EXPECT_EQ("a/a", state());
  EXPECT_TRUE(brain().saidThat("cannot change the machine config: no key opens it"));
}

// Catches: a caller who waits for ever after a restart of machined; keys that the next brain
// forgets.
TEST_F(OperationTest, TheNextBrainGoesOnWithIt) {
  booted(document("a", kOld));
  holdKeys();
  apply(document("b", kNew), ApplyMode::NO_REBOOT).wait(io.waitScope);
  settle();
  start();
  EXPECT_EQ(operation(), "1 done adding a key ");
  EXPECT_EQ("b/b", state());
}

// Catches: a caller of mode reboot that must wait while keys are derived; a reboot before the
// config is stored, or before callers can read the outcome; another number than the caller's.
TEST_F(OperationTest, ARebootWithItsCallersNumberIsAnsweredBeforeKeysAreDerived) {
  booted(document("a", kOld));
  holdKeys();
  auto outcome = numbered(document("b", kNew), ApplyMode::REBOOT, 77).wait(io.waitScope);
  EXPECT_EQ(outcome.mode, ApplyMode::REBOOT);
  EXPECT_EQ(outcome.operation, 77u);
  settle();
  EXPECT_EQ("a/a*", state());
  EXPECT_EQ(operation(), "77 running adding a key ");
  EXPECT_EQ(recordedMode(), "reboot");
  go->fulfill();
  settle();
  EXPECT_EQ("a/b", state());
  EXPECT_EQ(operation(), "77 done adding a key ");
  EXPECT_EQ(brain().intended, 1u);
  EXPECT_EQ(brain().reboots, 0u);
  pass(2 * kj::SECONDS);
  EXPECT_EQ(brain().reboots, 1u);
}

// Catches: a caller of an earlier release that is answered in mode reboot or staged before the
// config is stored.
TEST_F(OperationTest, ARebootWithoutANumberIsAnsweredWhenTheConfigIsStored) {
  booted(document("a", kOld));
  holdKeys();
  auto staging = apply(document("b", kNew), ApplyMode::STAGED);
  settle();
  EXPECT_FALSE(staging.poll(io.waitScope));
  EXPECT_EQ(operation(), "-");
  go->fulfill();
  EXPECT_EQ(staging.wait(io.waitScope).operation, 0u);
  EXPECT_EQ("a/b", state());
}

// Catches: a caller that cannot find the outcome after it has lost its connection; a dry run or a
// trial that replaces the outcome of another apply.
TEST_F(OperationTest, AnApplyWithANumberLeavesItsOutcome) {
  booted(document("a", kOld));
  EXPECT_EQ(numbered(document("b", kOld), ApplyMode::NO_REBOOT, 9).wait(io.waitScope).operation, 0u)
      << "it is answered at its end";
  settle();
  EXPECT_EQ("b/b", state());
  EXPECT_EQ(operation(), "9 done adding a key ");
  EXPECT_EQ(recordedMode(), "no-reboot");
  brain().keysFail = true;
  auto text = refusal(numbered(document("c", kOld), ApplyMode::STAGED, 10));
  EXPECT_TRUE(contains(text, "FailedPrecondition: no key opens it")) << text;
  settle();
  EXPECT_EQ(operation(), "10 failed  no key opens it");
  EXPECT_EQ(recordedMode(), "staged");
  brain().keysFail = false;
  for (auto dryRun : {true, false}) {
    auto trial = dryRun ? ApplyMode::NO_REBOOT : ApplyMode::TRY;
    numbered(document("d", kOld), trial, 11, dryRun).wait(io.waitScope);
    settle();
    EXPECT_EQ(operation(), "10 failed  no key opens it");
  }
}

// Catches: keys that this machine cannot have, and a caller who learns this only after the answer.
TEST_F(OperationTest, WhatCannotBeIsRefusedBeforeItBegins) {
  booted(document("a", kOld));
  brain().keysWrong = true;
  for (bool dry : {true, false}) {
    auto text = refusal(apply(document("b", kNew), ApplyMode::NO_REBOOT, dry));
    EXPECT_TRUE(contains(text, "FailedPrecondition: no key can be made of nodeID")) << text;
  }
  EXPECT_EQ("a/a", state());
  EXPECT_EQ(operation(), "-");
}

}  // namespace
}  // namespace talos::machined
