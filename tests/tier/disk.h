// The disk of a machine, and the boot loader that starts from it: BOOT with two slots, STATE, META
// and EPHEMERAL. It outlives every system of the machine.
//
// A durable write is pending for a while. A power cut in this time leaves the old content or the
// new one; the files of a slot are half written before they are whole. The boot loader is a model
// of GRUB's script, with the record of common/disk/boot-slots.h; everything that writes to this
// disk is the node's own code.
#pragma once

#include "machined/upgrade/upgrade-environment.h"
#include "machined/upgrade/upgrade-volumes.h"

namespace talos::tier {

class Machine;

class Disk final : public machined::Installer, public machined::UpgradeVolumes {
 public:
  explicit Disk(Machine& machine) : machine(machine) {}
  KJ_DISALLOW_COPY_AND_MOVE(Disk);

  install::SlotState environment;
  unsigned images[2] = {1, 0};  // image of each slot; 0: no whole system
  kj::Maybe<machined::UpgradeRecord> record;
  kj::Maybe<machined::DutyRecord> duties;
  kj::Maybe<kj::String> trialFailure, floor;
  enum class Content { kData, kHalf, kEmpty } data = Content::kData;  // of EPHEMERAL
  bool failsNext = false, failsSilently = false;  // the next write reports an error

  // Writes what the kernel has kept in memory (Mistakes::slotIsNotFlushed), or loses it.
  void flush();
  void lose() { unflushed = 0; }

  // Chooses a slot, and counts a try on the disk.
  install::Slot start();
  // Makes one durable write, which takes at most `most`. The promise does not resolve if the power
  // is cut meanwhile.
  kj::Promise<void> write(kj::Duration most, kj::Function<void()> change);
  unsigned& imageOf(install::Slot slot) { return images[slot == install::Slot::kA ? 0 : 1]; }

  // --- Installer ---
  kj::Promise<bool> run(Fill fill) override;
  kj::Promise<void> slots(Fill fill, Hear hear, int archive) override;

  // --- UpgradeVolumes ---
  kj::Promise<kj::String> slots() override { return kj::str("/dev/vda3"); }
  kj::Promise<kj::String> ephemeral() override { return kj::str("/dev/vda6"); }
  kj::Promise<void> empty(kj::String device) override;

 private:
  Machine& machine;
  unsigned unflushed = 0;  // image that the other slot gets later; 0: none
  install::Slot unflushedSlot = install::Slot::kB;

  kj::Promise<void> writeSlot(rpc::InstallRequest::Reader request);
  kj::Promise<void> choose(rpc::InstallRequest::Choose::Reader params);
};

}  // namespace talos::tier
