// The trial of a change of the config that was applied for good (modes auto, no-reboot, reboot and
// staged): if the node does not do with the new config what it did before (trial-judge.h), the last
// good config comes back by itself, with a reboot where the change needs one.
//
// Two files in /system/state decide, each replaced in one rename and synced (state-disk.h): the
// copy of the config, config.yaml, and the record of the trial, config-trial, which has the last
// good config whole, what the node did with it, a stage, and the hashes of the configs on trial.
// One rule reads them, at each start of the node and of the brain: a copy whose hash a record in
// the stage `trying` has, and that is not its good config, is on trial; nothing else is. So a
// record does not concern a config that was applied without a trial, by this release or an earlier
// one. The order of the writes, and a power cut or a crash after each:
//
//   1. the record, trying          the copy is another config: the record is removed
//   2. the copy: the new config    on trial; after a start of the node with its full time
//   3a. confirmed: no record       the new config stays
//   3b. the record, reverting      the next start writes the good config before it reads the copy
//   4b. the copy: the good config  the same write changes nothing
//   5b. the record, reverted       the good config stays; the record has only the reason
//
// The record in memory decides, and the disk follows it (kept-trial-record.h). A record that cannot
// be written ends an apply before anything has changed, and delays a confirmation; a way
// back is gone without 3b, and a removal is repeated.
//
// A second change during a trial keeps the good config of the record: the way back is never a
// config that was not confirmed. So a change that cannot be undone is refused during a trial
// (config-manager.h). A config that was staged during a trial gets its record when the trial is
// confirmed. A config with which the node was started kMostTrialBoots times without living through
// the time of a trial is reverted: it may crash the node each time. The end of the time by
// CLOCK_MONOTONIC is held by process 1 ("config/change-trial"), so that a crash of the brain does
// not move it. A new brain has a minute at least, because what was fulfilled has to be seen again;
// one that begins long after the end has predecessors that all died in their minute, and reverts.
//
// While the node runs another sequence than its boot, such as a reset or an upgrade, nothing is
// judged and nothing goes back; while the system itself is on trial (system-trial.h), this trial
// stands still. A boot that finds a trial but cannot read the copy ends as it does without one: the
// record is kept.
//
// Mode try has nothing to do with it (config-trial.h); while a config is tried on top, this trial
// stands still.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "machined/config/config-checks.h"
#include "machined/config/kept-trial-record.h"
#include "machined/config/state-disk.h"
#include "machined/config/trial-judge.h"
#include "machined/process1/value-in-memory-file.h"
#include "rpc/held.capnp.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

constexpr auto kChangeTrial = 10 * kj::MINUTES;
constexpr unsigned kMostTrialBoots = 5;
constexpr auto kDutiesTimeout = 8 * kj::SECONDS;

// The end of the time, in process 1.
class HeldTrialEnd {
 public:
  explicit HeldTrialEnd(Process1& process1) : store(process1, "config/change-trial") {}
  KJ_DISALLOW_COPY_AND_MOVE(HeldTrialEnd);

  void take();  // from the predecessor
  kj::Maybe<kj::TimePoint> end() const { return known; }
  kj::Promise<void> hold(kj::TimePoint end);
  kj::Promise<void> drop();

 private:
  Held<rpc::HeldCount> store;
  kj::Maybe<kj::TimePoint> known;
};

class ChangeTrial {
 public:
  struct Dependencies {
    Process1& process1;
    kj::Timer& timer;
    ConfigHost& host;
    ConfigChecks& checks;
    ConfigDisk& disk;
    ConfigDisk& records;
    kj::TaskSet& tasks;
    kj::Function<kj::Maybe<const KnownConfig&>()> running;
    // Resolves when the running apply has ended; nullptr if none runs.
    kj::Function<kj::Maybe<kj::Promise<void>>()> applying;
    kj::Function<bool()> tries;  // a config is on trial by mode try
    // The config that runs, or runs again after mode try.
    kj::Function<kj::Maybe<kj::ArrayPtr<const char>>()> lasting;
    // Applies a config as apply() does, in mode no-reboot or reboot.
    kj::Function<kj::Promise<void>(rpc::ApplyMode, KnownConfig)> restore;
  };
  explicit ChangeTrial(Dependencies given);
  KJ_DISALLOW_COPY_AND_MOVE(ChangeTrial);

  struct Plan {
    kj::Array<char> before;
    kj::Vector<kj::String> fulfilled;  // trialDuties()
    kj::Duration timeout = kChangeTrial;
    bool needsCall = false;
    bool onlyInMemory = false;  // as in TrialRecord

    Plan() = default;
    Plan(Plan&&) = default;
    Plan& operator=(Plan&&) = default;
    ~Plan() noexcept(false);  // overwrites the document: it holds secrets
  };

  // Runs before the copy on disk is read at a start of the node. Does not reject: a disk that
  // cannot be written does not end the boot.
  kj::Promise<void> beginBoot();
  // Continues the trial of a predecessor.
  kj::Promise<void> recover();

  // Resolves within kDutiesTimeout with the duties that the node fulfils now, or during a trial
  // those that it has to fulfil; with nullptr if that could not be found out.
  kj::Promise<kj::Maybe<kj::Vector<kj::String>>> duties();
  // Writes the record of a trial of `wanted`, before anything has changed.
  kj::Promise<void> prepare(Plan plan, kj::ArrayPtr<const char> wanted);
  // Compares the running config with the record, after a change or its failure, and begins,
  // continues or ends the trial. `fresh`: with its full time.
  kj::Promise<void> follow(bool fresh);
  // Ends the trial, and keeps the config, which was applied in this mode without a trial, maybe by
  // a predecessor. A config that is only staged does not end the trial of the running one.
  kj::Promise<void> forget(rpc::ApplyMode mode = rpc::ApplyMode::NO_REBOOT);
  // Stops looking at the node, which reboots.
  void stop();
  bool isTrying() const { return judge != nullptr; }
  // Returns true if the config that runs may still go back.
  bool isUnderWay();
  // Returns true if a config went back and none was applied since.
  bool hasGoneBack() const { return state == State::REVERTED; }
  // Counts a call of a client of another machine.
  void called();

  void fill(rpc::ConfigTrial::Builder out) const;

 private:
  using State = rpc::ConfigTrial::State;
  using Stage = TrialRecord::Stage;
  struct Good;
  Dependencies deps;
  KeptTrialRecord record;
  kj::Maybe<TrialJudge> judge;
  State state = State::NONE;
  uint64_t number = 0;
  kj::String reason;
  HeldTrialEnd held;
  bool isReverting = false;  // revert() runs
  kj::ForkedPromise<void> firstReverted = kj::Promise<void>(kj::READY_NOW).fork();
  kj::Maybe<kj::TimePoint> leastEnd;  // the end for the least time; process 1 keeps the earlier one
  kj::Promise<void> watching = kj::READY_NOW;

  bool load();
  kj::Promise<void> writeBack();
  void begin(bool fresh);
  kj::Promise<void> watch(kj::Duration left);
  kj::Promise<void> noteStaged();
  kj::Promise<Good> readGood();
  kj::Promise<bool> decide(const Good& good);
  kj::Promise<bool> conclude(const TrialFacts& facts);
  kj::Promise<void> confirm(kj::ArrayPtr<const Duty> duties);
  void beginRevert();
  kj::Promise<void> revert(kj::Own<kj::PromiseFulfiller<void>> tried);
  kj::Promise<bool> tryRevert();
  kj::Promise<void> reverted();
  bool runsBefore();
  bool runsOnTrial();
  void say(State next, kj::StringPtr what, Tone tone);
  kj::Promise<void> reported(kj::Promise<void> work);
};

}  // namespace talos::machined
