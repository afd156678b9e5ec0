// The newest upgrade or rollback of this node, stored on STATE. Both systems read and write it: the
// system that has written the other, and the system on trial. The record is replaced whole, so
// after a crash at any line it is the old or the new one.
#pragma once

#include <kj/time.h>

#include "machined/disk/installer/boot-files.h"
#include "rpc/upgrade.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kUpgradeFile = "/system/state/upgrade"_kj;

struct UpgradeRecord {
  using Stage = rpc::UpgradeRecord::Stage;
  kj::String image = {}, digest = {};  // empty: a rollback
  install::Slot from = install::Slot::kA, to = install::Slot::kB;
  kj::String fromVersion = {}, toVersion = {};
  unsigned healthTimeoutS = install::kHealthTimeoutS;
  bool empty = false, emptying = false, staged = false, forced = false;
  bool live = false;  // the new system takes over without a reboot
  Stage stage = Stage::WRITING;
  kj::String reason = {};
  kj::Date began = kj::UNIX_EPOCH;

  kj::String target() const;  // slot and version
  bool isOver() const { return stage == Stage::DONE || stage == Stage::FAILED; }
  bool isStaged() const { return staged && stage == Stage::WRITTEN; }
  bool isWithdrawn() const { return staged && stage == Stage::FAILED; }
};

// Returns nullptr if `bytes` is not a record.
kj::Maybe<UpgradeRecord> decodeRecord(kj::ArrayPtr<const char> bytes);
kj::Array<char> encodeRecord(const UpgradeRecord& record);

}  // namespace talos::machined
