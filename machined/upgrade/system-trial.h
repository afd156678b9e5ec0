// The trial of the system that runs: it is confirmed when it has been healthy for a few seconds, or
// an operator requests it, and gives up if it is not healthy in time.
//
// The boot loader has counted the try on the disk before it started the system. So every end of the
// system before its confirmation (a crash, a hang that a deadline ends, a power cut, a reboot)
// starts the old one. Process 1 reboots a little after the deadline if the brain does not
// (machined/process1/init), and the kernel if process 1 does not; settle() tells process 1 that it
// no longer has to.
//
// Healthy includes each duty that the node fulfilled when the upgrade began (node-duties.h). If
// everything that the system lacks is caused by other nodes, such as a lost majority of etcd's
// voters, the old system would not help: the trial continues until the system is healthy, or an
// operator reboots the node.
//
// A system that took over without a reboot is on trial from its takeover on, and replaces the
// services of the old one meanwhile. It gives up by letting the old system take over in the same
// way; if that is not possible, it reboots: the boot loader still starts the old one
// (root-switch.h).
//
// A system that gives up may be a voter of etcd, which another node counts on while it restarts
// itself. So it waits for its turn before it reboots, but not as long as process 1 waits for it.
//
// An incomplete network is unhealthy unless it was incomplete when the upgrade began: what was ill
// before may be ill after. The status of the upgrade says when the trial gives up.
//
// The order of the durable writes: the boot loader's confirmation, then the version floor, then the
// record. A STATE that cannot be written neither keeps a bad system alive nor ends a good one.
#pragma once

#include "machined/process1/process1.h"
#include "machined/upgrade/image-admission.h"
#include "machined/upgrade/record-writer.h"
#include "machined/upgrade/root-switch.h"
#include "machined/upgrade/slot-switch.h"
#include "machined/upgrade/upgrade-status.h"

namespace talos::machined {

// The time that a system has to become healthy. Pure: the time is passed in.
class TrialClock {
 public:
  // `first` begins now; `again` is the time after a wait for other nodes.
  TrialClock(kj::TimePoint now, kj::Duration first, kj::Duration again)
      : begin(now), timeout(first), again(again) {}

  // Returns true if the system has been healthy for long enough. A service that comes up and exits
  // immediately is not healthy.
  bool isSteady(const Health& health, kj::TimePoint now);

  enum class Verdict {
    kInTime,
    kWaitForOthers,  // returned once, when a wait for other nodes begins
    kTooLate,
  };
  Verdict judge(const Health& health, kj::TimePoint now);
  // Returns the time until the trial gives up; nullptr while it waits for other nodes.
  kj::Maybe<kj::Duration> left(kj::TimePoint now) const;

 private:
  kj::TimePoint begin;
  kj::Duration timeout, again;
  bool waitsForOthers = false;
  kj::Maybe<kj::TimePoint> healthySince;
};

class SystemTrial {
 public:
  struct Dependencies {
    kj::Timer& timer;
    Process1& process1;
    UpgradableNode& node;
    UpgradeClusters& clusters;
    UpgradeRecords& storage;
    RecordWriter& records;
    SlotSwitch& slots;
    ImageAdmission& admission;
    UpgradeProgress& progress;
    kj::Maybe<install::Slot> running;
    kj::StringPtr version;  // of the running system
    kj::Maybe<kj::Duration>
        timeLeft;  // of talos.trial=, or of a trial without a reboot; nullptr: there is no trial
    kj::Maybe<RootSwitch&> root;
  };
  explicit SystemTrial(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(SystemTrial);

  // Returns true from begin() to the confirmation.
  bool hasBegun() const { return begun; }
  // Returns true also before begin(), while the system does not know yet that it is not on trial.
  bool isPossible() const { return begun || (deps.timeLeft != nullptr && !settled); }

  // Begins the trial of the running system, in the record in memory; the caller saves it.
  void begin(install::Slot confirmed, bool entered);
  // Runs the trial to the confirmation, or to the reboot into the other slot.
  kj::Promise<void> run();
  // Confirms the system on trial as it is. Resolves to what it lacks; empty if it is healthy.
  // FailedPrecondition if no trial runs; Unavailable if the disk does not take it, and then the
  // trial continues.
  kj::Promise<kj::String> confirmAsItIs();
  // Tells process 1 that it does not have to end a trial any more.
  kj::Promise<void> settle();

  // Gives up the system because its boot has ended with these problems before the trial could
  // begin, for lack of STATE, and so of the record: leaves the reason in META, and reboots.
  kj::Promise<void> giveUpBoot(kj::String problems);
  // Returns the reason that a system has left there; nullptr without one, or if META cannot be
  // read.
  kj::Promise<kj::Maybe<kj::String>> readReasonInMeta();
  // Removes the reason, which the record now has. Does not reject.
  kj::Promise<void> clearReasonInMeta();

 private:
  Dependencies deps;
  bool begun = false, settled = false, reasonIsInMeta = false;
  kj::Vector<kj::Own<kj::PromiseFulfiller<kj::String>>> operators;  // callers of confirmAsItIs()

  kj::Promise<kj::Maybe<DutyRecord>> dutiesBefore();
  kj::Promise<Health> health(const kj::Maybe<DutyRecord>& before);
  void showTimeLeft(kj::Maybe<kj::Duration> left);
  kj::Promise<void> waitForOthers();
  kj::Promise<bool> confirm(kj::String reason);
  kj::Promise<bool> confirmForOperators(const kj::Maybe<kj::String>& lacks);
  void refuseOperators(kj::StringPtr reason);
  kj::Promise<void> giveUp(kj::String reason, bool hopeless = false);
  kj::Promise<void> takeTurn();
  kj::Promise<void> returnTo(install::Slot slot);
};

}  // namespace talos::machined
