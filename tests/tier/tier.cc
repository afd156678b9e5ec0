#include "tests/tier/tier.h"

#include "tests/tier/brain.h"
#include "tests/tier/ending.h"
#include "tests/tier/operator.h"

namespace talos::tier {
namespace {

using supervisor::Data;
using supervisor::Process;

constexpr auto kForming = 2 * kj::MINUTES;

constexpr const char* kProbeNames[] = {
    "confirmed",      "fell back",   "given up",           "cut off",          "staged and cut",
    "cut at a write", "write error", "ended by process 1", "machined crashed", "turn waited",
    "turn refused",   "left",        "promoted",           "removed",          "no quorum",
    "run finished",   "run stopped", "run interrupted",    "two runs",         "healed in part"};

void mix(uint64_t& fingerprint, kj::StringPtr text) {
  for (auto c : text) fingerprint = (fingerprint ^ uint8_t(c)) * 0x100000001b3;
}

}  // namespace

const char* nameOf(Probe probe) {
  return kProbeNames[size_t(probe)];
}

machined::Store& Stores::empty(unsigned machine) {
  while (stores.size() <= machine) {
    stores.push_back(kj::heap<machined::Store>(registry, kj::nullClock()));
  }
  auto& store = *stores[machine];
  KJ_IF_MAYBE (found, store.tryGet<rpc::UpgradeStatusSpec>("node")) {
    auto of = found->metadata();
    auto owner = kj::str(of.getOwner());
    store.destroy("", typeName<rpc::UpgradeStatusSpec>(), "node", owner);
  }
  return store;
}

Tier::Tier(Stores& stores, const Schedule& schedule, PlayOptions options)
    : bed(unsigned(schedule.seed), schedule.controlPlanes),
      stores(stores),
      schedule(schedule),
      mistakes(options.mistakes),
      containerd(bed.timer,
                 []() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
                   return error(ErrorKind::kUnavailable, "the model has no containerd");
                 }),
      options(options),
      tasks(*this) {
  for (unsigned i = 0; i < schedule.nodes(); ++i) {
    kj::Maybe<supervisor::Node&> member;
    if (i < schedule.controlPlanes) member = *bed.nodes[i];
    machines.push_back(kj::heap<Machine>(*this, i, member));
  }
}

Tier::~Tier() noexcept(false) {
  runs.clear();
  for (auto& machine : machines) machine->powerOff();
  bed.scope.poll();  // the stores, which outlive this loop, end their work
}

kj::Date Tier::now() const {
  return kj::UNIX_EPOCH + 20'000 * kj::DAYS + (bed.timer.now() - kj::origin<kj::TimePoint>());
}

void Tier::taskFailed(kj::Exception&& e) {
  never(kj::str("a task failed: ", e));
}

void Tier::never(kj::StringPtr what) {
  if (outcome.violation.empty()) outcome.violation = what.cStr();
  if (options.tells) {
    auto time = (bed.timer.now() - begin) / kj::MILLISECONDS;
    outcome.story.push_back(kj::str(time, " ms: VIOLATION: ", what).cStr());
  }
}

void Tier::note(const Machine& machine, kj::StringPtr what) {
  auto time = (bed.timer.now() - begin) / kj::MILLISECONDS;
  ++outcome.events;
  mix(outcome.fingerprint, what);
  outcome.fingerprint = (outcome.fingerprint ^ uint64_t(time)) * 0x100000001b3 + machine.index;
  if (!options.tells) return;
  outcome.story.push_back(kj::str(time, " ms: node ", machine.index + 1, ": ", what).cStr());
}

void Tier::soon(kj::Function<void()> work) {
  tasks.add(kj::evalLater(kj::mv(work)));
}

// --- the cluster

// A cluster that has always existed.
void Tier::makeCluster() {
  using supervisor::urlOf;
  etcd::ModelCluster::Options options;
  options.minTtl = 2 * kj::SECONDS;
  for (auto& node : bed.nodes) {
    auto peer = urlOf(node->address(), 2380), client = urlOf(node->address(), 2379);
    bool isFirst = bed.clusters.empty();
    if (isFirst) {
      bed.clusters.push_back(
          kj::heap<etcd::ModelCluster>(bed.timer, node->config.name, peer, client, options));
    }
    auto& cluster = *bed.clusters[0];
    node->disk.data = Data::kWhole;
    node->disk.cluster = &cluster;
    node->disk.member = isFirst ? cluster.leader : cluster.grow(node->config.name, peer, client);
    node->disk.intent.member = node->disk.member;
  }
  for (auto& machine : machines) machine->powerOn();
}

void Tier::passUntil(kj::TimePoint end) {
  while (bed.timer.now() < end && outcome.violation.empty()) {
    bed.pass(kj::min(kSlice, end - bed.timer.now()));
    sample();
  }
}

void Tier::sample() {
  for (auto& what : bed.violations) never(kj::str(what.c_str()));
  uint64_t state = 0xcbf29ce484222325;
  for (auto& machine : machines) {
    mix(state, stateOf(*machine).c_str());
    if (options.tells) tellState(*machine);
    KJ_IF_MAYBE (node, machine->member) {
      if (!bed.votes(*node)) continue;
      machine->isAway = false;
      if (machine->hasLeft) probe(Probe::kPromoted);
      machine->hasLeft = false;
    }
  }
  outcome.states.insert(state);
  if (!bed.quorum()) probe(Probe::kNoQuorum);
}

// Tells the state of the node when it has changed.
void Tier::tellState(Machine& machine) {
  auto state = stateOf(machine);
  KJ_IF_MAYBE (node, machine.member) {
    if (node->on && !bed.votes(*node)) state += " does not vote";
    if (node->message.size() > 0) state += " " + node->message;
  }
  auto& last = lastStates[machine.index];
  if (last != state) note(machine, kj::str("is ", state.c_str()));
  last = state;
}

std::string Tier::stateOf(Machine& machine) {
  kj::StringPtr stage = "off"_kj, upgrade = ""_kj, etcd = ""_kj;
  if (machine.on) stage = machine.brain.get() == nullptr ? "starting"_kj : machine.brain->stage;
  KJ_IF_MAYBE (node, machine.member) etcd = node->on ? node->status.phase : "off"_kj;
  if (machine.brain.get() != nullptr) {
    KJ_IF_MAYBE (found, machine.brain->store.tryGet<rpc::UpgradeStatusSpec>("node")) {
      upgrade = found->getStage();
    }
  }
  return kj::str(stage, ' ', upgrade, ' ', etcd, ' ', machine.image(), ' ',
                 machine.disk.environment.tries, ';')
      .cStr();
}

bool Tier::reachesAnother(Machine& machine) {
  KJ_IF_MAYBE (own, machine.member) {
    for (auto& other : machines) {
      KJ_IF_MAYBE (node, other->member) {
        if (other.get() != &machine && other->on && bed.reach(*own, *node)) return true;
      }
    }
  }
  return false;
}

// --- events

void Tier::cutPower(Machine& machine, unsigned ms) {
  if (!machine.on) return;
  note(machine, kj::str("power cut for ", ms, " ms"));
  judges.noteFault(bed.timer.now());
  machine.powerOff();
  tasks.add(bed.timer.afterDelay(ms * kj::MILLISECONDS).then([&machine]() {
    if (!machine.isLost) machine.powerOn();
  }));
}

void Tier::partition(Machine& a, Machine& b, unsigned ms) {
  KJ_IF_MAYBE (first, a.member) {
    KJ_IF_MAYBE (second, b.member) {
      if (first == second) return;
      auto cut = std::pair<const supervisor::Node*, const supervisor::Node*>(first, second);
      bed.cuts.insert(cut);
      tasks.add(
          bed.timer.afterDelay(ms * kj::MILLISECONDS).then([this, cut]() { bed.cuts.erase(cut); }));
    }
  }
}

void Tier::fault(const Event& event, Machine& machine) {
  judges.noteFault(bed.timer.now());
  auto end = bed.timer.afterDelay(event.amount * kj::MILLISECONDS);
  switch (event.what) {
    case What::kPowerCut:
      return cutPower(machine, event.amount);
    case What::kCutAtWrite:
      return machine.armCut(event.amount % 2 == 0 ? Machine::ArmedCut::kBefore
                                                  : Machine::ArmedCut::kAfter);
    case What::kCrashMachined:
      return machine.crashMachined();
    case What::kPartition:
      return partition(machine, *machines[event.other], event.amount);
    case What::kCutOffOperators:
      operatorsAreCutOff[machine.index] = true;
      tasks.add(end.then([this, &machine]() { operatorsAreCutOff[machine.index] = false; }));
      return;
    case What::kWriteError:
      machine.disk.failsNext = true;
      machine.disk.failsSilently = event.amount % 2 == 1;
      return;
    default:
      break;
  }
  KJ_IF_MAYBE (node, machine.member) {
    switch (event.what) {
      case What::kCrashSupervisor:
        return bed.crash(*node);
      case What::kKillEtcd:
        node->killed = true;
        return node->changed.raise();
      case What::kSlowNode:
        bed.slow[node] = 3 * kj::SECONDS;
        tasks.add(end.then([this, node]() { bed.slow.erase(node); }));
        return;
      case What::kMoveLeadership:
        if (bed.votes(*node)) {
          auto& cluster = *bed.clusters[0];
          if (cluster.leader != 0) cluster.moveLeader(cluster.leader, node->disk.member);
        }
        return;
      default:
        return;
    }
  }
}

// A machine fails for long, and an operator removes its member.
void Tier::lose(Machine& lost) {
  cutPower(lost, 91'000);
  lost.isLost = true;
  tasks.add(bed.timer.afterDelay(90 * kj::SECONDS).then([&lost]() { lost.isLost = false; }));
  tasks.add(bed.timer.afterDelay(20 * kj::SECONDS).then([this, &lost]() {
    if (!lost.isLost) return;
    KJ_IF_MAYBE (node, lost.member) {
      for (auto& other : bed.nodes) {
        if (!bed.votes(*other)) continue;
        bed.ask<void>(*other, "remove",
                      [this, &lost, name = kj::str(node->config.name)](
                          supervisor::MembershipReconciler& reconciler) {
                        return reconciler.removeMember(kj::str(name), false).then([this, &lost]() {
                          note(lost, "its member is removed");
                          probe(Probe::kRemoved);
                        });
                      });
        return;
      }
    }
  }));
}

void Tier::request(const Event& event, Machine& machine) {
  auto calls = kj::heap<Operator>(*this);
  kj::Promise<void> asked = nullptr;
  switch (event.what) {
    case What::kUpgrade:
    case What::kStage:
      asked = calls->upgradeAlone(machine, event.amount, true, event.what == What::kStage);
      break;
    case What::kUpgradeAndEmpty:
      asked = calls->upgradeAlone(machine, event.amount, false, false);
      break;
    case What::kRollback:
      asked = calls->rollBack(machine);
      break;
    case What::kReboot:
      asked = calls->reboot(machine);
      break;
    default:
      return;
  }
  tasks.add(asked.attach(kj::mv(calls)).catch_([this, &machine](kj::Exception&& e) {
    note(machine, kj::str("a request failed: ", messageOf(e)));
  }));
}

void Tier::happen(const Event& event) {
  auto& machine = *machines[event.node];
  note(machine, nameOf(event.what));
  switch (event.what) {
    case What::kRun:
      for (auto& run : runs) {
        if (run->state == Run::State::kRuns) probe(Probe::kTwoRuns);
      }
      runs.push_back(kj::heap<Run>(*this, event.amount));
      return;
    case What::kInterruptRuns:
      probe(Probe::kRunInterrupted);
      return runs.clear();
    case What::kLoseAndRemove:
      return lose(machine);
    case What::kUpgrade:
    case What::kUpgradeAndEmpty:
    case What::kStage:
    case What::kRollback:
    case What::kReboot:
      return request(event, machine);
    default:
      return fault(event, machine);
  }
}

Outcome Tier::play() {
  makeCluster();
  auto formed = [this]() {
    for (auto& machine : machines) {
      if (!Ending(*this).isWell(*machine)) return false;
    }
    return true;
  };
  if (!eventually(kForming, formed)) never("the cluster does not form");
  passUntil(bed.timer.now() + 6 * kj::SECONDS);  // etcd counts a member that has lived for a while
  begin = bed.timer.now();
  bed.crashes = schedule.supervisorCrashes;
  bed.losses = schedule.losses;
  bed.failures = schedule.supervisorFailures;
  for (unsigned i = 0; i < schedule.events.size(); ++i) {
    auto& event = schedule.events[i];
    if (options.only != nullptr && !options.only->contains(i)) continue;
    passUntil(begin + event.at * kj::MILLISECONDS);
    if (!outcome.violation.empty()) break;
    happen(event);
  }
  passUntil(begin + schedule.endMs * kj::MILLISECONDS);
  if (outcome.violation.empty()) Ending(*this).finish();
  outcome.time = bed.timer.now() - kj::origin<kj::TimePoint>();
  return kj::mv(outcome);
}

}  // namespace talos::tier
