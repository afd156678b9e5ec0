// Empties EPHEMERAL for an upgrade without --preserve, before a system mounts it.
//
// The record says that the wipe has begun before the first byte is erased. So after a crash in the
// middle, which leaves something that is neither data nor empty, the next system that starts, old
// or new, erases everything again. A crash before that leaves the data, also for an old system that
// comes back.
#pragma once

#include "machined/upgrade/record-writer.h"
#include "machined/upgrade/upgrade-volumes.h"

namespace talos::machined {

class EphemeralWipe {
 public:
  EphemeralWipe(kj::Maybe<UpgradeVolumes&> volumes, RecordWriter& records, UpgradableNode& node)
      : volumes(volumes), records(records), node(node) {}
  KJ_DISALLOW_COPY_AND_MOVE(EphemeralWipe);

  // Empties EPHEMERAL if a wipe was interrupted, or if the system on trial has yet to begin one.
  // Rejects if STATE does not take the record, and then has erased nothing; and with the errors of
  // UpgradeVolumes, and then the next start repeats it.
  kj::Promise<void> runIfDue(bool isOnTrial);

 private:
  kj::Maybe<UpgradeVolumes&> volumes;
  RecordWriter& records;
  UpgradableNode& node;
};

}  // namespace talos::machined
