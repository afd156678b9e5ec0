// A crash after each durable write of an upgrade (record-writer.h lists them), for each way that
// an upgrade can take; and an error of each write. The disk outlives the systems. After each crash
// the next system starts, and then further ones until one of them stays: a broken promise is one
// that no chain of starts repairs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using testing::IsEmpty;
using testing::Not;
using Finding = UpgradeFinding;

enum class Way { kUpgrade, kStaged, kRollback, kConfirmedByOperator, kLive, kLiveRollback };
struct Scenario {
  Way way;
  bool preserve, isHealthy;  // isHealthy: the new system
  const char* name;
};
constexpr Scenario kScenarios[] = {
    {Way::kUpgrade, true, true, "upgrade"},
    {Way::kUpgrade, true, false, "upgrade to a sick system"},
    {Way::kUpgrade, false, true, "upgrade without --preserve"},
    {Way::kUpgrade, false, false, "upgrade to a sick system without --preserve"},
    {Way::kStaged, true, true, "staged"},
    {Way::kStaged, true, false, "staged sick system"},
    {Way::kStaged, false, true, "staged without --preserve"},
    {Way::kStaged, false, false, "staged sick system without --preserve"},
    {Way::kRollback, true, true, "rollback"},
    {Way::kRollback, true, false, "rollback to a sick system"},
    {Way::kConfirmedByOperator, true, false, "operator's confirmation"},
    {Way::kConfirmedByOperator, false, false, "operator's confirmation without --preserve"},
    {Way::kLive, true, true, "upgrade without a reboot"},
    {Way::kLive, true, false, "upgrade to a sick system without a reboot"},
    {Way::kLiveRollback, true, true, "rollback without a reboot"},
    {Way::kLiveRollback, true, false, "rollback to a sick system without a reboot"},
};

enum class Crash { kPowerCut, kMachined };

// One run of a scenario on a disk, from the request to a system that stays.
class CrashRun {
 public:
  CrashRun(kj::WaitScope& scope, const Scenario& scenario) : scope(scope), scenario(scenario) {
    disk.imageVersion = "v3";
  }
  KJ_DISALLOW_COPY_AND_MOVE(CrashRun);

  ModelDisk disk;
  std::set<Finding> findings;           // of all starts
  std::vector<std::string> violations;  // of what an upgrade promises
  bool isBlind = false;                 // the node takes a sick system for a healthy one

  // Lives from the request until a system stays. Returns false if the power was cut.
  bool untilItStays(bool requests) {
    for (unsigned life = 0; life < kMostLives; ++life) {
      auto end = live(requests && life == 0);
      if (end == End::kCut) return false;
      if (end == End::kStays) return true;
    }
    violations.push_back("no system stays");
    return true;
  }
  // Crashes where the disk is off, and lives until a system stays.
  void recover(Crash crash) {
    disk.cutAfter = ModelDisk::kNever;
    if (crash == Crash::kMachined) {
      disk.runs = running;
    } else {
      disk.powerCut();
    }
    untilItStays(false);
    disk.powerCut();
  }
  // Starts again without a crash and a request: nothing may be left to do.
  void checkRest() {
    disk.failAt = 0;
    disk.powerCut();
    untilItStays(false);
    auto before = disk.environment.confirmed;
    expect(live(false) == End::kStays && disk.start() == before, "the last system does not stay");
    expect(disk.environment.attempt == nullptr, "a later start tries a system");
    expect(disk.ephemeral != ModelDisk::Ephemeral::kHalf, "EPHEMERAL stays half emptied");
    KJ_IF_MAYBE (r, disk.record) {
      expect(r->isOver() && !r->emptying, "the record is not over");
      bool isNew = r->stage == UpgradeRecord::Stage::DONE;
      expect(isNew == (before == Slot::kB), "the record names the wrong end");
    } else {
      expect(before == Slot::kA, "there is no record of the new system");
    }
    if (before == Slot::kB && !scenario.preserve) {
      expect(disk.ephemeral == ModelDisk::Ephemeral::kEmpty, "EPHEMERAL is not empty");
    }
  }

 private:
  enum class End { kReboots, kSwitches, kCut, kStays };
  static constexpr unsigned kMostLives = 6, kMostTurns = 2'000;

  kj::WaitScope& scope;
  const Scenario& scenario;
  Slot running = Slot::kA;
  bool operatorConfirms = false;  // has requested it

  void expect(bool is, const char* otherwise) {
    if (!is) violations.push_back(otherwise);
  }

  // Runs one system until it reboots, stays, or the power is cut.
  End live(bool requests) {
    unsigned earlierBrains = disk.runs == nullptr ? 0 : 1;
    System node(disk, VolumesAs::kPartitions, earlierBrains);
    bool entered = disk.entered;
    disk.runs = nullptr;
    if (disk.isOff()) return End::kCut;  // the boot loader has counted the try
    running = node.running;
    checkStart(node, entered);
    bool isSick = running == Slot::kB && !scenario.isHealthy && !isBlind;
    node.lacks = isSick ? "no network" : "";
    node.doing = {{"clock", ""}};
    auto end = runTurns(node, requests);
    if (end == End::kStays) checkEnd(node, entered);
    if (end == End::kReboots) disk.powerCut();
    return end;
  }

  End runTurns(System& node, bool requests) {
    bool asked = false, stagedIsTried = false;
    auto work = boot(node, requests).then([&]() { asked = true; }).eagerlyEvaluate(nullptr);
    for (unsigned turn = 0; turn < kMostTurns; ++turn) {
      scope.poll();
      if (disk.isOff()) return End::kCut;
      if (node.root.hasEntered) return End::kSwitches;
      if (node.reboots > 0) return End::kReboots;
      if (isArchiveHeld(node)) continue;
      if (asked && stagedIsTried) return End::kReboots;
      if (asked && node.status().starts_with("staged")) {
        asked = false;
        stagedIsTried = true;
        work = node.upgrader.tryStaged().then([&]() { asked = true; }).eagerlyEvaluate(nullptr);
        continue;
      }
      if (asked && !node.upgrader.isUnderWay()) return End::kStays;
      KJ_IF_MAYBE (next, node.timer.nextEvent()) node.timer.advanceTo(*next);
    }
    violations.push_back("it is under way for ever: " + node.status());
    return End::kStays;
  }
  static bool isArchiveHeld(System& node) {
    KJ_IF_MAYBE (held, node.archives.held) {
      if (!(*held)->isWaiting()) return false;
      (*held)->fulfill();
      return true;
    }
    return false;
  }

  // Boots, and makes the request of the scenario.
  kj::Promise<void> boot(System& node, bool requests) {
    co_await node.upgrader.resume();
    co_await node.upgrader.emptyEphemeralIfAsked().catch_([&](kj::Exception&&) {
      node.lacks = "its boot failed";
      node.hopeless = true;
      if (running == disk.environment.confirmed) ++node.reboots;  // by an operator
    });
    if (running == Slot::kA && requests) co_await request(node);
    bool confirms = scenario.way == Way::kConfirmedByOperator && running == Slot::kB;
    if (confirms && disk.environment.confirmed == Slot::kA && !node.hopeless) {
      operatorConfirms = true;
      co_await node.upgrader.confirmTrial().ignoreResult().catch_([](kj::Exception&&) {});
    }
  }
  kj::Promise<void> request(System& node) {
    kj::Promise<void> asking = nullptr;
    if (scenario.way == Way::kRollback || scenario.way == Way::kLiveRollback) {
      asking = node.upgrader.rollback(60, false, scenario.way == Way::kLiveRollback).ignoreResult();
    } else {
      UpgradeRequest request{kj::str("https://h.example/i.tar"), scenario.preserve, 60};
      request.stage = scenario.way == Way::kStaged;
      request.live = scenario.way == Way::kLive;
      asking = node.upgrader.upgrade(kj::mv(request));
    }
    return asking.catch_([](kj::Exception&&) {});
  }

  // The promises that hold at each start, whatever happened before.
  void checkStart(const System& node, bool entered) {
    findings.insert(findingOf(copyOfRecord(disk.record), running, disk.environment, entered));
    expect(!disk.versions[running == Slot::kA ? 0 : 1].empty(), "a slot without a system starts");
    bool mayKeepNew = scenario.isHealthy || operatorConfirms;
    expect(disk.environment.confirmed == Slot::kA || mayKeepNew, "a sick system is confirmed");
    using Ephemeral = ModelDisk::Ephemeral;
    expect(disk.ephemeral == Ephemeral::kData || !scenario.preserve, "the data is lost");
    bool isRecorded = disk.record.map([](auto& r) { return r.emptying; }).orDefault(false);
    expect(disk.ephemeral != Ephemeral::kHalf || isRecorded, "a wipe is not recorded");
    (void)node;
  }
  // The promises of a system that stays, to its cluster.
  void checkEnd(System& node, bool entered) {
    bool hasTurn = entered, isDrained = false;  // its predecessor took the turn
    for (auto& call : node.etcdAsked) {
      if (call == "restarts") hasTurn = true;
      if (call == "stays") hasTurn = false;
      if (call == "drains") isDrained = true;
    }
    expect(!hasTurn, "the turn to restart is not given back");
    expect(!isDrained || node.uncordoned > 0, "the node stays cordoned");
  }
};

struct UpgradeCrash : UpgraderTest {
  ~UpgradeCrash() noexcept override {}
  std::set<Finding> findings;

  // Returns the number of durable writes of the scenario without a crash.
  unsigned writesOf(const Scenario& scenario) {
    CrashRun run(scope, scenario);
    EXPECT_TRUE(run.untilItStays(true));
    auto writes = run.disk.writes;
    run.checkRest();
    EXPECT_THAT(run.violations, IsEmpty());
    bool isNew = scenario.isHealthy || scenario.way == Way::kConfirmedByOperator;
    EXPECT_EQ(run.disk.environment.confirmed, isNew ? Slot::kB : Slot::kA);
    return writes;
  }
  void crashAfterEachWrite(Crash crash) {
    for (auto& scenario : kScenarios) {
      SCOPED_TRACE(scenario.name);
      auto writes = writesOf(scenario);
      EXPECT_GE(writes, 6u);
      for (unsigned n = 0; n < writes; ++n) {
        SCOPED_TRACE(kj::str("crash after write ", n, " of ", writes).cStr());
        CrashRun run(scope, scenario);
        run.disk.cutAfter = n;
        EXPECT_FALSE(run.untilItStays(true));
        run.recover(crash);
        run.checkRest();
        EXPECT_THAT(run.violations, IsEmpty());
        findings.insert(run.findings.begin(), run.findings.end());
      }
    }
  }
};

}  // namespace

// Catches: a power cut between two durable writes of an upgrade after which a slot without a system
// starts, a sick system is kept, an upgrade is under way for ever, data is lost, or EPHEMERAL stays
// half emptied.
TEST_F(UpgradeCrash, PowerCutAfterEachWriteEndsWithOneWholeSystem) {
  crashAfterEachWrite(Crash::kPowerCut);
  EXPECT_EQ(findings, (std::set{Finding::kNothing, Finding::kOnTrial, Finding::kConfirmed,
                                Finding::kStaged, Finding::kFellBack, Finding::kCutOff}))
      << "the crashes do not reach each state";
}

// Catches: the same after a crash of machined, whose next brain finds a choice that its predecessor
// has made, or a trial that it has begun.
TEST_F(UpgradeCrash, CrashOfMachinedAfterEachWriteEndsWithOneWholeSystem) {
  crashAfterEachWrite(Crash::kMachined);
  EXPECT_THAT(findings, testing::Contains(Finding::kWaiting));
}

// Catches: an error of one write, made or not made, after which the node keeps its turn to restart,
// stays cordoned, tries a system later that was reported as failed, or keeps a sick one.
TEST_F(UpgradeCrash, ErrorOfEachWriteEndsWithOneWholeSystem) {
  for (auto& scenario : kScenarios) {
    SCOPED_TRACE(scenario.name);
    auto writes = writesOf(scenario);
    for (unsigned n = 1; n <= writes; ++n) {
      for (bool silently : {false, true}) {
        SCOPED_TRACE(kj::str("write ", n, " of ", writes, silently ? " is made" : "").cStr());
        CrashRun run(scope, scenario);
        run.disk.failAt = n;
        run.disk.failsSilently = silently;
        EXPECT_TRUE(run.untilItStays(true));
        run.checkRest();
        EXPECT_THAT(run.violations, IsEmpty());
      }
    }
  }
}

// Catches: a model that finds no mistake: a wipe whose record is not on the disk, and a sick system
// that is confirmed.
TEST_F(UpgradeCrash, ModelFindsMistakes) {
  for (bool isBlind : {false, true}) {
    std::set<std::string> found;
    for (unsigned n = 0; n < 20; ++n) {
      CrashRun run(scope, kScenarios[3]);
      run.isBlind = isBlind;
      run.disk.losesWipes = !isBlind;
      run.disk.cutAfter = n;
      if (!run.untilItStays(true)) run.recover(Crash::kPowerCut);
      run.checkRest();
      found.insert(run.violations.begin(), run.violations.end());
    }
    EXPECT_THAT(found, testing::Contains(isBlind ? "a sick system is confirmed"
                                                 : "EPHEMERAL stays half emptied"));
  }
}

}  // namespace talos::machined
