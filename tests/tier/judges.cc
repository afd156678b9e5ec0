#include "tests/tier/judges.h"

#include "tests/tier/brain.h"
#include "tests/tier/tier.h"

namespace talos::tier {
namespace {

// A node that is about to go cannot know of a fault that is younger.
constexpr auto kUnknowable = 5 * kj::SECONDS;
// A system that gives up waits as long for its turn (machined/upgrade/system-trial.cc).
constexpr auto kGivesUpWithin = 40 * kj::SECONDS;

}  // namespace

void Judges::observeStart(Machine& machine) {
  auto& disk = machine.disk;
  auto record = disk.record.map([](machined::UpgradeRecord& r) {
    return KJ_ASSERT_NONNULL(machined::decodeRecord(machined::encodeRecord(r)));
  });
  using Finding = machined::UpgradeFinding;
  using Stage = machined::UpgradeRecord::Stage;
  auto finding = machined::findingOf(record, machine.running, disk.environment);
  if (finding == Finding::kFellBack) {
    tier.probe(Probe::kFellBack);
    KJ_IF_MAYBE (r, record) {
      if (r->stage == Stage::GIVING_UP) tier.probe(Probe::kGivenUp);
    }
  }
  if (finding == Finding::kCutOff) tier.probe(Probe::kCutOff);
  if (finding == Finding::kStaged) tier.probe(Probe::kStagedAndCut);
  bool isUnderWay = record.map([](auto& r) { return !r.isOver(); }).orDefault(false);
  if (isUnderWay && machine.brain->isAfterACrash()) tier.probe(Probe::kMachinedCrashed);
}

void Judges::judgeStart(Machine& machine) {
  if (machine.image() == 0) {
    tier.never(kj::str("node ", machine.index + 1, " starts a slot without a system"));
  }
}

void Judges::judgeChoice(Machine& machine, install::Slot confirmed) {
  auto& disk = machine.disk;
  if (confirmed == disk.environment.confirmed) return;
  tier.probe(Probe::kConfirmed);
  auto sickness = machine.sicknessOf(disk.imageOf(confirmed));
  // A duty that failed before the upgrade may fail after it.
  auto wasWell = [&](kj::StringPtr duty) {
    KJ_IF_MAYBE (before, disk.duties) {
      for (auto& one : before->fulfilled) {
        if (one == duty) return true;
      }
    }
    return false;
  };
  bool isSick = sickness == Sickness::kNoKernel || sickness == Sickness::kHangs ||
                sickness == Sickness::kBootFails || sickness == Sickness::kUnhealthy ||
                (sickness == Sickness::kCrashLoops && wasWell("service machined")) ||
                (sickness == Sickness::kNoEtcd && wasWell("voter of etcd"));
  if (isSick) {
    tier.never(kj::str("node ", machine.index + 1, " confirms a sick system: ", nameOf(sickness)));
  }
  machine.cured = disk.imageOf(confirmed);
}

// A node is about to go for the trial of another system, or to end that of this one.
void Judges::judgeGoing(Machine& machine, bool givesUp) {
  tier.sample();
  KJ_IF_MAYBE (node, machine.member) {
    if (!tier.bed.votes(*node)) return;  // it is away already
    for (auto& other : tier.machines) {
      if (!other->isAway || other.get() == &machine) continue;
      // A system that gives up waits for a while, and then goes all the same.
      if (!givesUp || tier.bed.timer.now() - other->awaySince < kGivesUpWithin) {
        tier.never(kj::str("node ", machine.index + 1, " goes while node ", other->index + 1,
                           " is away, too"));
      }
    }
    bool isOnly = tier.bed.clusters[0]->members.size() == 1;
    if (givesUp) return;
    bool isKnown = tier.bed.timer.now() - lastFault >= kUnknowable;
    if (!isOnly && isKnown && tier.bed.quorum() && !tier.bed.quorumWithout(*node)) {
      tier.never(kj::str("node ", machine.index + 1, " goes although etcd needs it"));
    }
    machine.isAway = true;
    machine.awaySince = tier.bed.timer.now();
  }
}

// A member has left for an upgrade.
void Judges::judgeLeft(Machine& machine) {
  tier.probe(Probe::kLeft);
  tier.sample();
  unsigned voters = 0, learners = 0;
  for (auto& [id, state] : tier.bed.clusters[0]->members) {
    (state.member.learner ? learners : voters) += 1;
  }
  bool isSmall = tier.schedule.controlPlanes <= 3;
  if (isSmall && learners > 0) {
    tier.never(kj::str("node ", machine.index + 1, " leaves etcd while a learner waits"));
  }
  if (isSmall && tier.schedule.controlPlanes == 3 && voters < 2) {
    tier.never(kj::str("node ", machine.index + 1, " leaves etcd with one voter"));
  }
}

void Judges::judgeWipe(Machine& machine) {
  KJ_IF_MAYBE (node, machine.member) {
    if (tier.bed.isMember(*node)) {
      tier.never(kj::str("node ", machine.index + 1, " erases the data of a member"));
    }
  }
}

// A run says that each node runs its image.
void Judges::judgeFinished(unsigned image) {
  for (auto& machine : tier.machines) {
    auto& disk = machine->disk;
    bool runs = disk.imageOf(disk.environment.confirmed) == image;
    bool other = machine->accepted != 0 && machine->accepted != image;
    if (runs || other || machine->isRolledBack) continue;
    tier.never(kj::str("upgrade-cluster to image ", image, " finished, and node ",
                       machine->index + 1, " has image ",
                       disk.imageOf(disk.environment.confirmed)));
  }
}

}  // namespace talos::tier
