// The places on a node that an upgrade changes: its slots, and EPHEMERAL, which an upgrade may
// empty. On a machine they are partitions of its system disk, in a container folders that its
// launcher has mounted.
//
// Nothing is cached: each call looks for the partitions again. All calls reject with
// FailedPrecondition if there is no such disk, or more than one.
#pragma once

#include "machined/disk/devices/block-devices.h"
#include "machined/disk/volumes/installer-client.h"

namespace talos::machined {

// Returns the partition of this name on the disk that has STATE and BOOT. Pure.
kj::String partitionOfSystem(kj::ArrayPtr<const BlockDevice> devices, kj::StringPtr name);

// A node without them has no slots.
class UpgradeVolumes {
 public:
  virtual ~UpgradeVolumes() noexcept(false) = default;

  // Returns the place of the slots (machined/disk/installer/slot-store.h). Changes nothing.
  virtual kj::Promise<kj::String> slots() = 0;
  // Returns the place of EPHEMERAL. Changes nothing.
  virtual kj::Promise<kj::String> ephemeral() = 0;
  // Empties the place that ephemeral() has returned: the data is lost. After an error or a crash it
  // is neither data nor empty; repeat the call from the beginning.
  virtual kj::Promise<void> empty(kj::String ephemeral) = 0;
};

class UpgradePartitions final : public UpgradeVolumes {
 public:
  using Devices = kj::Function<kj::Promise<kj::Vector<BlockDevice>>()>;
  UpgradePartitions(Installer& installer, Devices devices)
      : installer(installer), devices(kj::mv(devices)) {}

  kj::Promise<kj::String> slots() override { return partition("BOOT"); }
  kj::Promise<kj::String> ephemeral() override { return partition("EPHEMERAL"); }
  kj::Promise<void> empty(kj::String ephemeral) override;

 private:
  Installer& installer;
  Devices devices;

  kj::Promise<kj::String> partition(
      kj::StringPtr name);  // returns its device; `name` is a constant
};

class UpgradeFolders final : public UpgradeVolumes {
 public:
  // Runs `work` on the thread pool.
  using Blocking = kj::Function<kj::Promise<void>(kj::Function<void()> work)>;
  UpgradeFolders(kj::StringPtr slots, kj::StringPtr ephemeral, Blocking blocking)
      : slotsFolder(slots), ephemeralFolder(ephemeral), blocking(kj::mv(blocking)) {}

  kj::Promise<kj::String> slots() override { return kj::str(slotsFolder); }
  kj::Promise<kj::String> ephemeral() override { return kj::str(ephemeralFolder); }
  kj::Promise<void> empty(kj::String ephemeral) override;

 private:
  kj::StringPtr slotsFolder, ephemeralFolder;
  Blocking blocking;
};

}  // namespace talos::machined
