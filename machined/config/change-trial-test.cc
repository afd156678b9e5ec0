// The running config and the copy on disk after a change on trial: without a crash, after a crash
// of the brain, and after a power cut at each write.
#include "machined/config/change-trial.h"

#include "machined/config/test-change-trial.h"
#include "machined/config/trial-plan.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kResolver = "    nameservers: [10.0.0.9]\n"_kj;  // may cut the node off

// The power of the node goes before one of the next writes to STATE.
struct Power {
  unsigned writes = 0;
  kj::Maybe<unsigned> cutBefore;

  bool isOff() const {
    return cutBefore.map([this](unsigned last) { return writes >= last; }).orDefault(false);
  }
  bool take() {
    if (isOff()) return false;
    ++writes;
    return true;
  }
};

struct PoweredDisk final : public ModelConfigDisk {
  Power* power = nullptr;
  bool loses = false;  // a mistake: what is written is lost with the power
  kj::Promise<void> write(kj::Array<char> text) override {
    if (power != nullptr && !power->take()) return kj::NEVER_DONE;
    if (loses) {
      lost = kj::heapString(text);
      return kj::READY_NOW;
    }
    return ModelConfigDisk::write(kj::mv(text));
  }
  kj::Promise<void> remove() override {
    if (power != nullptr && !power->take()) return kj::NEVER_DONE;
    lost = nullptr;
    return ModelConfigDisk::remove();
  }
  kj::Maybe<kj::String> lost;
};

}  // namespace

// Catches: a good change that stays on trial, or whose record stays.
TEST_F(ChangeTrialTest, AGoodChangeIsConfirmedWithinSeconds) {
  auto& b = works(booted(document("a")));
  auto outcome = change(document("b"), ApplyMode::AUTO).wait(io.waitScope);
  EXPECT_TRUE(outcome.changeTrial == 1 * kj::MINUTES);
  ASSERT_EQ(1u, outcome.trialDuties.size());
  EXPECT_EQ(kNodeDuty, outcome.trialDuties[0]);
  settle();
  EXPECT_TRUE(hasRecord());
  EXPECT_EQ("trying", stateOfTrial());
  live(6 * kj::SECONDS);
  EXPECT_EQ("b/b", state());
  EXPECT_FALSE(hasRecord());
  EXPECT_EQ("confirmed", stateOfTrial());
  EXPECT_EQ(0u, b.reboots);
}

// Catches: a harmful change that stays, goes back without its reason, or reboots without need.
TEST_F(ChangeTrialTest, AHarmfulChangeGoesBackWithItsReason) {
  auto& b = works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  live(59 * kj::SECONDS);
  EXPECT_EQ("bad/bad", state());
  EXPECT_EQ("trying", stateOfTrial());
  EXPECT_TRUE(contains(trial().getLacks().cStr(), "Kubernetes node: it is not Ready"));
  live(3 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
  EXPECT_EQ(0u, b.reboots);
  EXPECT_EQ("reverted", stateOfTrial());
  EXPECT_TRUE(
      contains(trial().getReason().cStr(), "not within 1 min: Kubernetes node: it is not Ready"))
      << trial().getReason().cStr();
  boot();
  EXPECT_EQ("reverted", stateOfTrial());
  change(document("c"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  live(10 * kj::SECONDS);
  EXPECT_EQ("c/c", state());
  EXPECT_EQ("confirmed", stateOfTrial());
}

// Catches: a change with a reboot, or one that is staged, whose trial does not begin at the boot,
// or that comes back without a reboot.
TEST_F(ChangeTrialTest, AChangeWithARebootIsOnTrialAfterIt) {
  for (auto mode : {ApplyMode::REBOOT, ApplyMode::STAGED}) {
    for (bool bad : {true, false}) {
      SCOPED_TRACE(testing::Message() << nameOf(mode).cStr() << (bad ? " bad" : " good"));
      anotherMachine();
      works(booted(document("a")));
      change(document(bad ? "bad" : "good", kEnv), mode).wait(io.waitScope);
      live(2 * kj::MINUTES);  // staged: nothing happens before the reboot
      if (mode == ApplyMode::STAGED) {
        EXPECT_EQ(bad ? "a/bad" : "a/good", state());
        EXPECT_EQ("none", stateOfTrial());
        boot();
        live(2 * kj::MINUTES);
      }
      EXPECT_EQ(bad ? "a/a" : "good/good", state());
      EXPECT_EQ(bad ? "reverted" : "confirmed", stateOfTrial());
    }
  }
}

// Catches: a way back to a config that was never confirmed.
TEST_F(ChangeTrialTest, ASecondChangeKeepsTheGoodConfigAsWayBack) {
  works(booted(document("a")));
  change(document("bad1"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  live(30 * kj::SECONDS);
  change(document("bad2"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  live(59 * kj::SECONDS);
  EXPECT_EQ("bad2/bad2", state());
  live(3 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
}

// Catches: a trial that the operator's own return to the good config does not end.
TEST_F(ChangeTrialTest, TheGoodConfigEndsTheTrial) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  change(document("a"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  settle();
  EXPECT_EQ("none", stateOfTrial());
  EXPECT_FALSE(hasRecord());
}

// Catches: a record of a staged config that goes with the end of an earlier trial.
TEST_F(ChangeTrialTest, AConfigThatIsStagedDuringATrialHasItsOwnTrial) {
  works(booted(document("a")));
  change(document("b"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  change(document("bad"), ApplyMode::STAGED).wait(io.waitScope);
  live(10 * kj::SECONDS);
  EXPECT_EQ("b/bad", state());
  boot();
  live(2 * kj::MINUTES);
  EXPECT_EQ("b/b", state());
}

// Catches: a trial that begins although the operator, or the change itself, excludes it.
TEST_F(ChangeTrialTest, SomeChangesAreNotOnTrial) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT, false, true).wait(io.waitScope);
  EXPECT_FALSE(hasRecord());
  live(2 * kj::MINUTES);
  EXPECT_EQ("bad/bad", state());
  auto keys = document("bad",
                       "  systemDiskEncryption: {ephemeral: {provider: luks2, keys: "
                       "[{slot: 0, nodeID: {}}]}}\n");
  auto outcome = change(keys, ApplyMode::REBOOT).wait(io.waitScope);
  EXPECT_FALSE(hasRecord());
  ASSERT_EQ(1u, outcome.warnings.size());
  EXPECT_TRUE(contains(outcome.warnings[0].cStr(), "is not on trial"))
      << outcome.warnings[0].cStr();
}

// Catches: a node that goes back although its client has called, or keeps what no client reaches.
TEST_F(ChangeTrialTest, TheCallOfAClientIsADutyIfItIsPromised) {
  works(booted(document("a")));
  change(document("b", kResolver), ApplyMode::NO_REBOOT, true).wait(io.waitScope);
  live(10 * kj::SECONDS);
  EXPECT_EQ("trying", stateOfTrial());
  brain().manager.changeTrial().called();
  settle();
  works(start());  // a crash of the brain does not lose the call
  settle();
  EXPECT_TRUE(trial().getReached());
  live(6 * kj::SECONDS);
  live(1 * kj::SECONDS);
  EXPECT_EQ("confirmed", stateOfTrial());
  change(document("c"), ApplyMode::NO_REBOOT, true).wait(io.waitScope);
  live(62 * kj::SECONDS);
  EXPECT_EQ("b/b", state());
}

// Catches: a config on trial whose time stands still for a crash of the brain, or begins again; a
// brain that comes back after the end and reverts what it has not looked at.
TEST_F(ChangeTrialTest, ACrashOfTheBrainMovesTheEndByAMinuteAtMost) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT, false, false, 3 * kj::MINUTES).wait(io.waitScope);
  live(150 * kj::SECONDS);
  works(start());
  settle();
  EXPECT_EQ("trying", stateOfTrial());
  live(59 * kj::SECONDS);
  EXPECT_EQ("bad/bad", state());
  live(3 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
}

// Catches: a call that is required although the change cannot cut the node off; an answer without
// a warning that none is required although it can.
TEST_F(ChangeTrialTest, OnlyAChangeThatMayCutOffTheNodeNeedsACall) {
  works(booted(document("a")));
  auto outcome = change(document("a", "  sysctls: {vm.max_map_count: \"65530\"}\n"),
                        ApplyMode::NO_REBOOT, true)
                     .wait(io.waitScope);
  EXPECT_TRUE(outcome.warnings.empty());
  live(10 * kj::SECONDS);
  EXPECT_EQ("confirmed", stateOfTrial());
  outcome = change(document("b", kResolver), ApplyMode::REBOOT).wait(io.waitScope);
  ASSERT_EQ(1u, outcome.warnings.size());
  EXPECT_TRUE(contains(outcome.warnings[0].cStr(), "need not be reached"));
}

// Catches: an answer that does not name what stays on disks after a change of volumes.
TEST_F(ChangeTrialTest, TheAnswerSaysWhatStaysOnDisks) {
  works(booted(document("a")));
  auto volume = kj::str(document("a"),
                        "---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\n"
                        "provisioning: {diskSelector: {match: '!system_disk'}, minSize: 1GiB, "
                        "maxSize: 2GiB}\n");
  auto outcome = change(volume, ApplyMode::NO_REBOOT).wait(io.waitScope);
  std::string said;
  for (auto& warning : outcome.warnings) said += warning.cStr();
  EXPECT_TRUE(contains(said, "what it writes to disks stays: the documents of volumes")) << said;
}

// Catches: a kind of change that is judged as another one.
TEST(ChangeKinds, AreThoseOfTheChangedKeys) {
  struct {
    const char* path;
    bool network, trust, work;
  } rows[] = {
      {"machine.network.interfaces[0].addresses", true, false, false},
      {"machine.network.nameservers", true, false, false},
      {"machine.network.firewall.ingress", true, false, false},
      {"machine.network.hostname", false, false, false},
      {"machine.sysctls.net.ipv4.ip_forward", true, false, false},
      {"machine.sysctls.vm.swappiness", false, false, false},
      {"machine.networks", false, false, false},
      {"machine.kernel.modules[0].name", true, false, false},
      {"machine.pciDrivers[0].driver", true, false, false},
      {"machine.ca.crt", false, true, false},
      {"machine.acceptedCAs", false, true, false},
      {"machine.kubelet.extraArgs.v", false, false, true},
      {"cluster.controlPlane.endpoint", true, false, true},
      {"cluster.etcd.extraArgs.x", false, false, true},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.path);
    kj::Vector<config::Change> changes;
    changes.add(config::Change{kj::str(row.path), true});
    auto kinds = kindsOf(changes);
    EXPECT_EQ(row.network, kinds.network);
    EXPECT_EQ(row.trust, kinds.trust);
    EXPECT_EQ(row.work, kinds.work);
  }
}

// Catches: a staged config that was applied without a trial, and is on one after the boot.
TEST_F(ChangeTrialTest, AStagedConfigWithoutATrialStays) {
  works(booted(document("a")));
  change(document("b"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  change(document("bad"), ApplyMode::STAGED, false, true).wait(io.waitScope);
  live(10 * kj::SECONDS);
  EXPECT_EQ("confirmed", stateOfTrial());
  EXPECT_FALSE(hasRecord());
  boot();
  live(2 * kj::MINUTES);
  EXPECT_EQ("bad/bad", state());
}

// Catches: a record that reverts a config which is not the one on trial: after a crash between the
// publication and the end of the trial, or of an earlier release that knows no trials.
TEST_F(ChangeTrialTest, ARecordDoesNotConcernAnotherConfig) {
  works(booted(document("a")));
  change(document("b", kEnv), ApplyMode::STAGED).wait(io.waitScope);
  EXPECT_TRUE(hasRecord());
  disk.content = document("bad");
  boot();
  EXPECT_FALSE(hasRecord());
  live(2 * kj::MINUTES);
  EXPECT_EQ("bad/bad", state());
}

// Catches: a config that comes back while the node shuts down, is reset or writes another system; a
// trial that is judged meanwhile.
TEST_F(ChangeTrialTest, ASequenceIsNotDisturbed) {
  for (auto sequence : {"shutdown"_kj, "reset"_kj, "upgrade"_kj, "reboot"_kj}) {
    SCOPED_TRACE(sequence.cStr());
    anotherMachine();
    auto& b = works(booted(document("a")));
    change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
    live(30 * kj::SECONDS);
    b.runningSequence = kj::str(sequence);
    live(5 * kj::MINUTES);
    EXPECT_EQ("bad/bad", state());
    b.runningSequence = kj::String();  // an upgrade that was given up
    live(29 * kj::SECONDS);
    EXPECT_EQ("bad/bad", state());
    live(35 * kj::SECONDS);
    EXPECT_EQ("a/a", state());
  }
}

// Catches: a config whose way back waits for its turn, and takes it from a reset.
TEST_F(ChangeTrialTest, AWayBackWaitsForTheEndOfASequence) {
  auto& b = works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  live(59 * kj::SECONDS);
  records.broken = disk.broken = true;
  live(5 * kj::SECONDS);
  EXPECT_EQ("reverting", stateOfTrial());
  EXPECT_EQ("bad/bad", state());
  b.runningSequence = kj::str("reset");
  records.broken = disk.broken = false;
  live(5 * kj::MINUTES);
  EXPECT_EQ("bad/bad", state());
}

// Catches: a way back that is lost because the record cannot be written.
TEST_F(ChangeTrialTest, AFullDiskForTheRecordDoesNotStopTheWayBack) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  records.broken = true;
  live(70 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
  boot();
  live(2 * kj::MINUTES);
  EXPECT_EQ("a/a", state());
}

// Catches: a record that cannot be written and that ends the trial before, or an apply that is
// carried out without its way back.
TEST_F(ChangeTrialTest, AnApplyWithoutARecordChangesNothing) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  live(10 * kj::SECONDS);
  records.broken = true;
  EXPECT_TRUE(contains(refusal(change(document("c"), ApplyMode::NO_REBOOT)), "no space"));
  EXPECT_EQ("bad/bad", state());
  EXPECT_EQ("trying", stateOfTrial());
  records.broken = false;
  live(60 * kj::SECONDS);
  EXPECT_EQ("a/a", state());
}

// Catches: a confirmation that is lost, or repeated with a config that came meanwhile.
TEST_F(ChangeTrialTest, AConfirmationWaitsForTheDisk) {
  works(booted(document("a")));
  change(document("b"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  records.removable = false;
  live(20 * kj::SECONDS);
  EXPECT_EQ("trying", stateOfTrial());
  EXPECT_LE(brain().alarms, 3u);  // not one each second
  records.removable = true;
  live(12 * kj::SECONDS);
  EXPECT_EQ("confirmed", stateOfTrial());
  EXPECT_FALSE(hasRecord());
}

// Catches: the reason of an earlier way back that is shown for another config.
TEST_F(ChangeTrialTest, ANewChangeForgetsTheReason) {
  works(booted(document("a")));
  change(document("bad"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  live(70 * kj::SECONDS);
  EXPECT_EQ("reverted", stateOfTrial());
  change(document("c"), ApplyMode::STAGED).wait(io.waitScope);
  EXPECT_EQ("none", stateOfTrial());
  EXPECT_EQ("", std::string(trial().getReason().cStr()));
}

// Catches: a node that is started often, for other reasons, and loses a config with which it lives.
TEST_F(ChangeTrialTest, OnlyStartsThatDoNotLastCount) {
  works(booted(document("a")));
  auto elsewhere = [](config::Config::Reader config) {
    TrialFacts facts;
    Duty work{kj::str(kNodeDuty)};
    if (config.getMachine().getNetwork().getHostname() == "b") {
      work.problem = kj::str("no API server answers");
      work.causedElsewhere = true;
    }
    facts.duties.add(kj::mv(work));
    return facts;
  };
  change(document("b", kEnv), ApplyMode::STAGED).wait(io.waitScope);
  for (unsigned boots = 0; boots < 2 * kMostTrialBoots; ++boots) {
    machine.drop();
    start().facts = elsewhere;
    load();
    live(90 * kj::SECONDS);
  }
  EXPECT_EQ("b/b", state());
}

// Catches: mode try that this trial ends, or that ends it.
TEST_F(ChangeTrialTest, ATriedConfigStopsTheTrialOfTheOneBelow) {
  works(booted(document("a")));
  change(document("b"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  tryOut(document("bad"), 5 * kj::MINUTES).wait(io.waitScope);
  live(4 * kj::MINUTES);
  EXPECT_EQ("bad/b?", state());
  live(2 * kj::MINUTES);
  EXPECT_EQ("b/b", state());
  EXPECT_EQ("confirmed", stateOfTrial());
}

// Catches: a config with which the node crashes during each trial.
TEST_F(ChangeTrialTest, AConfigThatNeverComesToTheEndOfItsTrialGoesBack) {
  works(booted(document("a")));
  change(document("bad", kEnv), ApplyMode::REBOOT).wait(io.waitScope);
  unsigned boots = 0;
  for (; onDisk() == "bad" && boots < 20; ++boots) {
    boot();
    live(30 * kj::SECONDS);
  }
  EXPECT_EQ("a/a", state());
  EXPECT_EQ(kMostTrialBoots + 1, boots);
}

// --- power cuts

namespace {

struct PowerTest : public ChangeTrialTest {
  ~PowerTest() noexcept override {}

  kj::Promise<void> loading = kj::READY_NOW;
  PoweredDisk copy, trials;
  Power power;

  // The brain of this test has disks that lose their power.
  ModelBrain& startPowered() {
    copy.power = trials.power = &power;
    current = nullptr;
    auto made = kj::heap<ModelBrain>(machine, registry, clock, copy, trials, sources, timer, mode,
                                     startsFailed, io.waitScope);
    return works(*current.emplace(kj::mv(made)));
  }
  enum class Fault { kPowerCut, kCrash };
  void boot() {
    machine.drop();
    startPowered();
    loading = brain().manager.load().eagerlyEvaluate([](kj::Exception&&) {});
    settle();
  }
  std::string result() {
    return running() + "/" +
           (copy.content == nullptr ? "-" : named(KJ_ASSERT_NONNULL(copy.content)));
  }
  // Runs a change; before one write the power goes, or machined crashes. Returns the state in the
  // end.
  std::string run(kj::StringPtr name, ApplyMode mode, unsigned cutBefore, bool& wasCut,
                  Fault fault = Fault::kPowerCut) {
    machine.drop();
    copy.content = nullptr;
    trials.content = nullptr;
    power = {};
    sources.answers.clear();
    sources.answers.add(kj::str(document("a")));
    startPowered();
    load();
    brain().manager.save().wait(io.waitScope);
    power = {.cutBefore = cutBefore};
    auto text = document(name, mode != ApplyMode::NO_REBOOT ? kEnv : ""_kj);
    auto applied = change(text, mode).ignoreResult().eagerlyEvaluate([](kj::Exception&&) {});
    wasCut = false;
    for (int second = 0; second < 200; ++second) {
      pass(1 * kj::SECONDS);
      bool cuts = power.isOff();
      wasCut = wasCut || cuts;
      bool boots = brain().intended > 0 || (mode == ApplyMode::STAGED && second == 5);
      if (!cuts && !boots) continue;
      applied = kj::READY_NOW;
      loading = kj::READY_NOW;
      if (cuts) power = {};
      if (boots || fault == Fault::kPowerCut || running() == "-") {
        boot();
      } else {
        startPowered();
      }
    }
    return result();
  }
};

}  // namespace

// Catches: a power cut, or a crash of machined, at any write of an apply, a trial, its confirmation
// or its revert after which a harmful config stays, or a good one is lost after it was confirmed.
TEST_F(PowerTest, AFaultAtAnyWriteKeepsTheWayBack) {
  for (auto fault : {Fault::kPowerCut, Fault::kCrash}) {
    for (auto mode : {ApplyMode::NO_REBOOT, ApplyMode::REBOOT, ApplyMode::STAGED}) {
      for (auto name : {"bad"_kj, "good"_kj}) {
        unsigned cuts = 0;
        for (bool wasCut = true; wasCut && cuts < 50; ++cuts) {
          SCOPED_TRACE(testing::Message()
                       << (fault == Fault::kCrash ? "crash " : "cut ") << nameOf(mode).cStr() << " "
                       << name.cStr() << " " << cuts);
          auto end = run(name, mode, cuts, wasCut, fault);
          if (name == "bad") {
            EXPECT_EQ("a/a", end);
          } else {
            EXPECT_TRUE(end == "good/good" || (end == "a/a" && wasCut && cuts <= 2)) << end;
          }
        }
        EXPECT_GE(cuts, 4u);  // the record, the copy, and the end of the trial
      }
    }
  }
}

// Catches: a test of power cuts that nothing fails: here the record is written, and not synced.
TEST_F(PowerTest, TheCutsFindARecordThatIsLost) {
  trials.loses = true;
  unsigned stranded = 0;
  bool wasCut = true;
  for (unsigned cuts = 0; wasCut && cuts < 50; ++cuts) {
    stranded += run("bad", ApplyMode::NO_REBOOT, cuts, wasCut) == "bad/bad";
  }
  EXPECT_GT(stranded, 0u);
}

}  // namespace talos::machined
