// The record of the newest upgrade: its only writer, in memory and on STATE. Each change asserts
// that the new phase may follow the old one (upgrade-lifecycle.h), shows the new state, and saves
// the whole record, so after a crash the record is the old or the new one.
//
// The durable writes of an upgrade, in their order, and the state if a crash follows each. The
// writes that decide which system starts are in capitals; they are those of SlotSwitch
// (slot-switch.h) and of the boot loader. The other writes only explain, so findingOf() is right
// without the last of them.
//
//   write                          next start    its finding, and what it does
//   1  duties of the node          old system    nothing: the duties belong to no record
//   2  record: writing             old system    kCutOff: the upgrade has failed
//   3  files of the other slot     old system    kCutOff; a partly written slot is no system
//   4  record: armed               old system    kCutOff; a node that left etcd joins it again
//   5  TRY THE OTHER SLOT          new system    kOnTrial
//   6  COUNT OF THE TRY            old system    kFellBack: it did not come up
//   7  record: trying              old system    kFellBack: it ended before it was healthy
//   8  record: wipe begins         old system    kFellBack; this system completes the wipe
//   9  record: wipe has ended      old system    kFellBack, with an empty EPHEMERAL
//   10 CONFIRM THE OTHER SLOT      new system    kConfirmed: the record becomes done
//   11 version floor in META       new system    kConfirmed; the floor is also raised at each start
//   12 record: done                new system    nothing
//
// A staged upgrade has "record: staged" in the place of write 4; after it the old system finds
// kStaged at every start, until a reboot makes write 5. Duties are recorded again before that. A
// rollback has no writes 2 and 3. A system that gives up records the reason (or leaves it in META,
// if it has no STATE) and reboots; it was started by write 6, so the old system starts next.
//
// An upgrade without a reboot has neither write 5 nor 6. After write 4 the new system takes over
// (root-switch.h), and until write 10 each start is that of the old system, which finds kFellBack.
//
// Write 8 is the only one of the others whose loss would matter, because the data is gone then: it
// is on the disk before the first byte is erased, and every later record keeps it until write 9.
//
// A crash of machined alone repeats no write of the boot loader: the next brain runs in the same
// system, and finds kWaiting after write 5 and kOnTrial from write 6 to write 10.
#pragma once

#include <kj/async.h>
#include <kj/debug.h>
#include <kj/timer.h>

#include "machined/upgrade/upgrade-environment.h"
#include "machined/upgrade/upgrade-lifecycle.h"

namespace talos::machined {

class RecordWriter {
 public:
  struct Dependencies {
    kj::Timer& timer;
    const kj::Clock& clock;
    UpgradeRecords& storage;
    UpgradableNode& node;
    kj::Maybe<install::Slot> running;  // nullptr: the node has no slots, and so no upgrades
    kj::StringPtr version;             // of the running system
    kj::Function<void()> changed;      // shows the record
  };
  explicit RecordWriter(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(RecordWriter);

  // Reads the record from STATE. Rejects if STATE cannot be read; a damaged record counts as none.
  kj::Promise<void> load();

  const kj::Maybe<UpgradeRecord>& record() const { return newest; }
  UpgradePhase phase() const { return phaseOf(newest); }
  // Returns the record, which must exist. Valid until the next change.
  const UpgradeRecord& current() const { return KJ_ASSERT_NONNULL(newest); }
  // Returns a record in kWriting for an upgrade of the other slot that begins now; an empty image
  // is a rollback. Changes nothing.
  UpgradeRecord fresh(kj::String image) const;

  // Replaces the record in memory by a new one, in kWriting or kArmed; the new record keeps that
  // EPHEMERAL is half emptied. STATE is unchanged until save(), so that the duties of the node can
  // be saved before.
  void begin(UpgradeRecord next);
  // Changes the record in memory to that of the running system's trial. STATE is unchanged until
  // save(), so that a disk that does not answer delays no trial.
  void trying(install::Slot confirmed, bool entered);
  // Saves the current duties of the node, for the trial of the upgrade that began at this time.
  kj::Promise<void> saveDuties(kj::Date upgrade);
  // Notes the version in the other slot; the next save stores it.
  void written(kj::String version);

  // The following change the record in memory at once, and resolve when STATE has it. They reject
  // if STATE does not take it within 10 s; the change stays in memory.
  kj::Promise<void> save();
  kj::Promise<void> staged(bool forced);
  kj::Promise<void> armed();
  kj::Promise<void> givingUp(kj::String reason);
  kj::Promise<void> done(kj::String reason);
  kj::Promise<void> failed(kj::String reason);     // announces it, too
  kj::Promise<void> explained(kj::String reason);  // the phase stays
  kj::Promise<void> wiping(bool begins);           // the phase stays
  // Ends an upgrade in kWriting that is retried: drops the record in memory, or keeps it as failed
  // if only this record says that EPHEMERAL is half emptied.
  kj::Promise<void> retried();
  // Withdraws a staged upgrade. If STATE does not take it, the upgrade stays staged, so that a
  // repeated call has the same result.
  kj::Promise<void> withdrawn();

 private:
  Dependencies deps;
  kj::Maybe<UpgradeRecord> newest;
  kj::ForkedPromise<void> saving = kj::Promise<void>(kj::READY_NOW).fork();

  // Enters the phase that `next` and `staged` mean, and shows it.
  void enter(UpgradeRecord::Stage next, bool staged, kj::String reason);
};

}  // namespace talos::machined
