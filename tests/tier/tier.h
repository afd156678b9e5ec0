// A cluster in virtual time, without containers: machines with boot loaders and disks, their
// brains, etcd with its supervisors, and operators who upgrade everything. The programs are the
// project's own code:
//
//   talosctl          RollingRun with its plan, survey and judges (talosctl/upgrade-cluster)
//   machined          Upgrader with all its parts (machined/upgrade), EtcdDeparture
//   etcd-supervisor   MembershipReconciler with all its parts, on the testbed of its unit tests
//
// Models are the machine (machine.h), the disk and the boot loader (disk.h), etcd
// (common/etcd/test-etcd.h), and the network. A schedule (schedule.h) says what happens. The tier
// plays it, then heals the cluster, and judges:
//
//   safety     etcd never loses its quorum by our hand; never two nodes away by upgrades at once;
//   no
//              member removed for a restart, or while a learner waits; no slot without a system
//              started; no sick system confirmed; no data of a member erased; a run that says that
//              it has finished has
//   liveness   a healed majority is a working cluster, whatever stays broken; a healed cluster lets
//              the same command upgrade all of it
//
// Everything follows from the schedule and its number, so a schedule is played again exactly.
#pragma once

#include "etcd-supervisor/membership/test-supervisor-life.h"
#include "machined/resources/store.h"
#include "machined/services/containers/containerd-connection.h"
#include "tests/tier/judges.h"
#include "tests/tier/machine.h"
#include "tests/tier/schedule.h"

namespace talos::tier {

class Run;

// Mistakes that a program could make; the model must find each.
struct Mistakes {
  bool confirmsAnything = false;         // a system is confirmed without being healthy
  bool slotIsNotFlushed = false;         // the boot loader's choice is on the disk before the slot
  bool takesNoTurn = false;              // a node reboots without asking etcd
  bool removesInsteadOfWaiting = false;  // a node that restarts removes its member
  bool leavesAtOnce = false;             // a node leaves etcd whatever the others are like
  bool asksOnce = false;                 // a node does not ask etcd again after its drain
  bool givesUpAtOnce = false;            // a system that gives up takes no turn
  bool loaderForgetsTries = false;       // the boot loader does not count its tries
  bool process1HasNoDeadline = false;    // process 1 does not end a trial
  bool runBelievesReboots = false;       // upgrade-cluster takes a reboot for the end
};

// Rare states. A run of many schedules that does not visit each shows nothing.
enum class Probe {
  kConfirmed,        // a system on trial was confirmed
  kFellBack,         // the old system runs again
  kGivenUp,          // a system on trial gave up
  kCutOff,           // the power was cut while a slot was written
  kStagedAndCut,     // the power was cut while a system was staged
  kCutAtWrite,       // the power was cut at a durable write
  kWriteError,       // a durable write reported an error
  kProcess1Ended,    // process 1 ended a trial
  kMachinedCrashed,  // machined crashed during an upgrade
  kTurnWaited,       // a node waited for its turn
  kTurnRefused,      // a node did not get its turn
  kLeft,             // a member left for an upgrade
  kPromoted,         // and voted again
  kRemoved,          // an operator removed a silent member
  kNoQuorum,         // faults cost etcd its quorum
  kRunFinished,
  kRunStopped,
  kRunInterrupted,
  kTwoRuns,     // two runs at the same time
  kHealedPart,  // a majority was healed, and the rest stayed away
};
constexpr size_t kProbes = 20;
constexpr auto kSlice = 1 * kj::SECONDS;  // the judges look at the cluster as often
const char* nameOf(Probe probe);

struct Outcome {
  std::string violation;  // the first one; empty: none
  unsigned probes[kProbes] = {};
  uint64_t writes = 0, events = 0;
  kj::Duration time = 0 * kj::SECONDS;  // virtual
  uint64_t fingerprint = 0;             // of everything that was noted
  std::set<uint64_t> states;            // fingerprints of states that were sampled
  std::vector<std::string> story;       // if requested
};

// Stores of the machines, which take long to make, for any number of tiers, one after the other:
// the machines.
class Stores {
 public:
  // Returns the store of a machine, as a boot finds it.
  machined::Store& empty(unsigned machine);

 private:
  Registry registry;
  std::vector<kj::Own<machined::Store>> stores;
};

struct PlayOptions {
  Mistakes mistakes = {};
  bool tells = false;  // fills Outcome::story
  const std::set<unsigned>* only = nullptr;
};

class Tier final : public kj::Clock, private kj::TaskSet::ErrorHandler {
 public:
  Tier(Stores& stores, const Schedule& schedule, PlayOptions options);
  ~Tier() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Tier);

  // Plays the whole schedule. Called once.
  Outcome play();
  kj::Date now() const override;

  supervisor::Testbed bed;
  Stores& stores;
  const Schedule schedule;
  const Mistakes mistakes;
  machined::Containerd containerd;
  Outcome outcome;
  std::vector<kj::Own<Machine>> machines;
  bool operatorsAreCutOff[8] = {};  // from these nodes
  std::vector<kj::Own<Run>> runs;
  Judges judges{*this};

  // --- called by the machines and the operators
  void never(kj::StringPtr what);
  void probe(Probe which) { ++outcome.probes[size_t(which)]; }
  void note(const Machine& machine, kj::StringPtr what);
  // Runs `work` in a turn of the loop that belongs to no machine.
  void soon(kj::Function<void()> work);
  void cutPower(Machine& machine, unsigned ms);
  bool reachesAnother(Machine& machine);

  // --- time
  void passUntil(kj::TimePoint end);
  // Lets time pass until the condition holds, or a violation was found. Returns false after
  // `limit`.
  template <typename F>
  bool eventually(kj::Duration limit, F&& condition);
  void sample();  // looks at the state of the cluster
  std::string stateOf(Machine& machine);

 private:
  const PlayOptions options;
  kj::TaskSet tasks;
  std::map<unsigned, std::string> lastStates;  // states that the story has
  kj::TimePoint begin = kj::origin<kj::TimePoint>();

  void taskFailed(kj::Exception&& e) override;
  void makeCluster();
  void happen(const Event& event);
  void fault(const Event& event, Machine& machine);
  void request(const Event& event, Machine& machine);
  void lose(Machine& machine);
  void partition(Machine& a, Machine& b, unsigned ms);

  void tellState(Machine& machine);
};

// --- inline

template <typename F>
bool Tier::eventually(kj::Duration limit, F&& condition) {
  auto end = bed.timer.now() + limit;
  while (outcome.violation.empty()) {
    if (condition()) return true;
    if (bed.timer.now() >= end) return false;
    passUntil(bed.timer.now() + kSlice);
  }
  return true;  // the violation counts
}

}  // namespace talos::tier
