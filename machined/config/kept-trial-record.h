// The record of a trial in memory, and on the disk, which follows it (change-trial.h). One write
// comes after the other; each writes the record of the moment when it begins. A record that may not
// be on the disk (TrialRecord::onlyInMemory) is held by process 1 ("config/trial-record") instead.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "machined/config/state-disk.h"
#include "machined/config/trial-record.h"
#include "machined/process1/value-in-memory-file.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

class KeptTrialRecord {
 public:
  // `report` prints an error that ends nothing.
  KeptTrialRecord(Process1& process1, ConfigDisk& disk, kj::Timer& timer, kj::TaskSet& tasks,
                  kj::Function<void(kj::Exception&&)> report)
      : held(process1, "config/trial-record"),
        disk(disk),
        timer(timer),
        tasks(tasks),
        report(kj::mv(report)) {}
  KJ_DISALLOW_COPY_AND_MOVE(KeptTrialRecord);

  // Reads the record, once: later, memory knows better. Returns true if there is one.
  bool load();
  // Becomes true with load() or replace(), if there is a record.
  bool isKnown() const { return known; }
  bool exists() const { return record != nullptr; }
  TrialRecord& get() { return KJ_ASSERT_NONNULL(record); }
  bool hasWayBack() const;
  bool mustRevert() const;
  // Both are false without a record.
  bool isBefore(kj::ArrayPtr<const char> config) const;
  bool isAbout(kj::ArrayPtr<const char> config) const;

  // Replaces the record, in memory at once. If it cannot be stored, the one before is back, and the
  // promise rejects; the disk may have either then.
  kj::Promise<void> replace(kj::Maybe<TrialRecord> next);
  // Stores the record, after a change of get().
  kj::Promise<void> store();
  // Reports an error.
  kj::Promise<void> tryToStore();
  // Drops the record, in memory at once. Does not reject: until it is removed from the disk, that
  // is tried again.
  kj::Promise<void> drop();

 private:
  Held<rpc::HeldChange> held;
  bool isHeld = false;
  ConfigDisk& disk;
  kj::Timer& timer;
  kj::TaskSet& tasks;
  kj::Function<void(kj::Exception&&)> report;
  kj::Maybe<TrialRecord> record;
  bool known = false;
  uint64_t edition = 0;  // counts the records
  kj::ForkedPromise<void> writes = kj::Promise<void>(kj::READY_NOW).fork();

  void put(kj::Maybe<TrialRecord> next);
  kj::Promise<void> write();
  kj::Promise<void> dropAgain(uint64_t mine);
};

}  // namespace talos::machined
