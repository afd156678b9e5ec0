// The end of a schedule: everything heals, and the cluster must become what its operators want.
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
void Tier::calm() {
  bed.crashes = bed.losses = bed.failures = 0;
  bed.cuts.clear();
  bed.slow.clear();
  for (auto& cut : operatorsAreCutOff) cut = false;
  for (auto& machine : machines) {
    machine->armCut(Machine::ArmedCut::kNone);
    machine->disk.failsNext = false;
    machine->isLost = false;
  }
  runs.clear();
}

// Returns true if no upgrade is under way. A staged system waits for a reboot.
bool Tier::isIdle(Machine& machine) {
  auto& upgrader = machine.brain->upgrader();
  if (!upgrader.isUnderWay()) return true;
  KJ_IF_MAYBE (status, machine.store->tryGet<rpc::UpgradeStatusSpec>("node")) {
    return status->getStage() == "staged";
  }
  return false;
}

// Returns true if the node runs its confirmed system, and its member votes.
bool Tier::isWell(Machine& machine) {
  if (!machine.on || machine.brain.get() == nullptr) return false;
  if (machine.brain->stage != "running" || !isIdle(machine)) return false;
  // A choice without a try left is none.
  auto& slots = machine.disk.environment;
  if (slots.confirmed != machine.running || slots.tries > 0) return false;
  KJ_IF_MAYBE (node, machine.member) return bed.votes(*node) && node->status.phase == "member";
  return true;
}

// Does what docs/etcd.md tells an operator to do: a node that left etcd joins it again after a
// reboot; one that others have removed leaves before.
void Tier::repair(Machine& machine) {
  KJ_IF_MAYBE (node, machine.member) {
    if (!machine.on || machine.brain.get() == nullptr || bed.pending > 0) return;
    bool removed = node->disk.data == Data::kWhole && !bed.isMember(*node);
    auto state = node->disk.intent.state;
    if (removed && state != Intent::State::kLeft && state != Intent::State::kLeaves) {
      bed.ask<void>(*node, "leave", [](supervisor::MembershipReconciler& reconciler) {
        return reconciler.leave(false);
      });
    }
    bool left = state == Intent::State::kLeft && node->disk.data == Data::kNone;
    if (left && isIdle(machine) && machine.brain->stage == "running") {
      note(machine, "is rebooted to join etcd again");
      machine.powerOff();
      machine.powerOn();
    }
  }
}

// Heals a random majority of etcd's voters; the other nodes stay off.
void Tier::healPart() {
  std::vector<Machine*> voters;
  for (auto& machine : machines) {
    KJ_IF_MAYBE (node, machine->member) {
      auto& members = bed.clusters[0]->members;
      auto found = members.find(node->disk.member);
      bool votes = bed.isMember(*node) && found != members.end() && !found->second.member.learner;
      if (votes) voters.push_back(machine.get());
    }
  }
  unsigned all = 0;
  for (auto& [id, state] : bed.clusters[0]->members) all += state.member.learner ? 0 : 1;
  auto needed = all / 2 + 1;
  if (voters.size() < needed) return;
  std::shuffle(voters.begin(), voters.end(), bed.random);
  voters.resize(needed);
  probe(Probe::kHealedPart);
  lastFault = bed.timer.now();
  for (auto& machine : machines) {
    bool heals = std::find(voters.begin(), voters.end(), machine.get()) != voters.end();
    if (!heals) machine->powerOff();
    if (heals) machine->powerOn();
  }
  bool isWorking = eventually(kSettles, [&]() {
    bool all = bed.quorum();
    for (auto* machine : voters) all = all && isWell(*machine);
    return all;
  });
  if (isWorking) return;
  std::string states;
  for (auto* machine : voters) states += stateOf(*machine) + " ";
  never(kj::str("a healed majority is not a working cluster: ", states.c_str()));
}

void Tier::heal() {
  for (auto& machine : machines) machine->powerOn();
  bool isWorking = eventually(kSettles, [&]() {
    bool all = true;
    for (auto& machine : machines) {
      repair(*machine);
      all = all && isWell(*machine);
    }
    return all && bed.pending == 0;
  });
  if (isWorking) return;
  std::string states;
  for (auto& machine : machines) states += stateOf(*machine) + " ";
  never(kj::str("a healed cluster does not settle: ", states.c_str()));
}

void Tier::finish() {
  calm();
  if (schedule.healsPartly) healPart();
  heal();
  bool isGood = true;
  for (auto sickness : schedule.sick[0]) isGood = isGood && sickness == Sickness::kHealthy;
  auto image = isGood ? kFirstTarget : kLastTarget;
  std::string stops;
  for (unsigned i = 0; i < kMostRuns && outcome.violation.empty(); ++i) {
    auto run = kj::heap<Run>(*this, image);
    auto& state = run->state;
    if (!eventually(kRunTakes, [&]() { return state != Run::State::kRuns; })) {
      return never("upgrade-cluster does not end");
    }
    if (state == Run::State::kFinished) return judgeEnd(image);
    stops += kj::str("; ", run->error).cStr();
  }
  never(kj::str("upgrade-cluster stops again and again", stops.c_str()));
}

void Tier::judgeEnd(unsigned image) {
  for (auto& machine : machines) {
    auto& disk = machine->disk;
    bool ends = machine->image() == image && isWell(*machine);
    KJ_IF_MAYBE (record, disk.record) ends = ends && !record->emptying;
    if (ends && disk.data != Disk::Content::kHalf) continue;
    never(kj::str("node ", machine->index + 1, " is not what upgrade-cluster has made of it: ",
                  stateOf(*machine).c_str()));
  }
  if (bed.clusters[0]->members.size() != schedule.controlPlanes) {
    never(kj::str("etcd has ", bed.clusters[0]->members.size(), " members in the end"));
  }
}

}  // namespace talos::tier
