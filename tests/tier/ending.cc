#include "tests/tier/ending.h"

#include <algorithm>

#include "tests/tier/brain.h"
#include "tests/tier/operator.h"

namespace talos::tier {
namespace {

using supervisor::Data;
using supervisor::Intent;

// A trial of 30 s that the other slot ends, twice, and the return of etcd.
constexpr auto kSettles = 8 * kj::MINUTES, kRunTakes = 40 * kj::MINUTES;
constexpr unsigned kMostRuns = 4;

}  // namespace

// Ends the faults of programs and links. Power is another matter.
void Ending::calm() {
  tier.bed.crashes = tier.bed.losses = tier.bed.failures = 0;
  tier.bed.cuts.clear();
  tier.bed.slow.clear();
  for (auto& cut : tier.operatorsAreCutOff) cut = false;
  for (auto& machine : tier.machines) {
    machine->armCut(Machine::ArmedCut::kNone);
    machine->disk.failsNext = false;
    machine->isLost = false;
  }
  tier.runs.clear();
}

// Returns true if no upgrade is under way. A staged system waits for a reboot.
bool Ending::isIdle(Machine& machine) {
  auto& upgrader = machine.brain->upgrader();
  if (!upgrader.isUnderWay()) return true;
  KJ_IF_MAYBE (status, machine.store->tryGet<rpc::UpgradeStatusSpec>("node")) {
    return status->getStage() == "staged";
  }
  return false;
}

// Returns true if the node runs its confirmed system, and its member votes.
bool Ending::isWell(Machine& machine) {
  if (!machine.on || machine.brain.get() == nullptr) return false;
  if (machine.brain->stage != "running" || !isIdle(machine)) return false;
  // A choice without a try left starts nothing.
  auto& slots = machine.disk.environment;
  if (slots.confirmed != machine.running || slots.tries > 0) return false;
  KJ_IF_MAYBE (node, machine.member) return tier.bed.votes(*node) && node->status.phase == "member";
  return true;
}

// Does what docs/etcd.md tells an operator to do: a node that left etcd joins it again after a
// reboot; one that others have removed leaves before.
void Ending::repair(Machine& machine) {
  KJ_IF_MAYBE (node, machine.member) {
    if (!machine.on || machine.brain.get() == nullptr || tier.bed.pending > 0) return;
    bool removed = node->disk.data == Data::kWhole && !tier.bed.isMember(*node);
    auto state = node->disk.intent.state;
    if (removed && state != Intent::State::kLeft && state != Intent::State::kLeaves) {
      tier.bed.ask<void>(*node, "leave", [](supervisor::MembershipReconciler& reconciler) {
        return reconciler.leave(false);
      });
    }
    bool left = state == Intent::State::kLeft && node->disk.data == Data::kNone;
    if (left && isIdle(machine) && machine.brain->stage == "running") {
      tier.note(machine, "is rebooted to join etcd again");
      machine.powerOff();
      machine.powerOn();
    }
  }
}

// Heals a random majority of etcd's voters; the other nodes stay off.
void Ending::healPart() {
  std::vector<Machine*> voters;
  for (auto& machine : tier.machines) {
    KJ_IF_MAYBE (node, machine->member) {
      auto& members = tier.bed.clusters[0]->members;
      auto found = members.find(node->disk.member);
      bool votes =
          tier.bed.isMember(*node) && found != members.end() && !found->second.member.learner;
      if (votes) voters.push_back(machine.get());
    }
  }
  unsigned all = 0;
  for (auto& [id, state] : tier.bed.clusters[0]->members) all += state.member.learner ? 0 : 1;
  auto needed = all / 2 + 1;
  if (voters.size() < needed) return;
  std::shuffle(voters.begin(), voters.end(), tier.bed.random);
  voters.resize(needed);
  tier.probe(Probe::kHealedPart);
  tier.judges.noteFault(tier.bed.timer.now());
  for (auto& machine : tier.machines) {
    bool heals = std::find(voters.begin(), voters.end(), machine.get()) != voters.end();
    if (!heals) machine->powerOff();
    if (heals) machine->powerOn();
  }
  bool isWorking = tier.eventually(kSettles, [&]() {
    bool all = tier.bed.quorum();
    for (auto* machine : voters) all = all && isWell(*machine);
    return all;
  });
  if (isWorking) return;
  std::string states;
  for (auto* machine : voters) states += tier.stateOf(*machine) + " ";
  tier.never(kj::str("a healed majority is not a working cluster: ", states.c_str()));
}

void Ending::heal() {
  for (auto& machine : tier.machines) machine->powerOn();
  bool isWorking = tier.eventually(kSettles, [&]() {
    bool all = true;
    for (auto& machine : tier.machines) {
      repair(*machine);
      all = all && isWell(*machine);
    }
    return all && tier.bed.pending == 0;
  });
  if (isWorking) return;
  std::string states;
  for (auto& machine : tier.machines) states += tier.stateOf(*machine) + " ";
  tier.never(kj::str("a healed cluster does not settle: ", states.c_str()));
}

void Ending::finish() {
  calm();
  if (tier.schedule.healsPartly) healPart();
  heal();
  bool isGood = true;
  for (auto sickness : tier.schedule.sick[0]) isGood = isGood && sickness == Sickness::kHealthy;
  auto image = isGood ? kFirstTarget : kLastTarget;
  std::string stops;
  for (unsigned i = 0; i < kMostRuns && tier.outcome.violation.empty(); ++i) {
    auto run = kj::heap<Run>(tier, image);
    auto& state = run->state;
    if (!tier.eventually(kRunTakes, [&]() { return state != Run::State::kRuns; })) {
      return tier.never("upgrade-cluster does not end");
    }
    if (state == Run::State::kFinished) return judgeEnd(image);
    stops += kj::str("; ", run->error).cStr();
  }
  tier.never(kj::str("upgrade-cluster stops again and again", stops.c_str()));
}

void Ending::judgeEnd(unsigned image) {
  for (auto& machine : tier.machines) {
    auto& disk = machine->disk;
    bool ends = machine->image() == image && isWell(*machine);
    KJ_IF_MAYBE (record, disk.record) ends = ends && !record->emptying;
    if (ends && disk.data != Disk::Content::kHalf) continue;
    tier.never(kj::str("node ", machine->index + 1, " is not what upgrade-cluster has made of it: ",
                       tier.stateOf(*machine).c_str()));
  }
  if (tier.bed.clusters[0]->members.size() != tier.schedule.controlPlanes) {
    tier.never(kj::str("etcd has ", tier.bed.clusters[0]->members.size(), " members in the end"));
  }
}

}  // namespace talos::tier
