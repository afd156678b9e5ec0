// The volumes that documents of the config describe, such as u-data at /var/mnt/data: makes and
// mounts those that can be, and reports what the others wait for.
//
// A volume that cannot be made or mounted never fails a boot. VolumeStatuses has its phase and the
// reason, and each later pass tries again: after a change of the config, and when a disk appears.
//
// One planner decides (volume-plan.h); this unit does the steps. Each may be repeated, and nothing
// is remembered between two passes: after a cut at any write, the next pass finds the partition
// under its unfinished name and makes it again, or complete (machined/disk/installer/
// volume-partitions.h). A restarted brain finds the mounts of its predecessor in VolumeStatuses and
// in the table of mounts.
//
// A volume without a document any more is unmounted; its partition and its data stay.
#pragma once

#include "common/memory/zeroize.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/disk/volumes/system-partitions.h"
#include "machined/disk/volumes/volume-plan.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/store.h"

namespace talos::machined {

// Mounts the file system of a device at `target`; `grows`: to the size of the device first.
using AttachVolume = kj::Function<kj::Promise<void>(
    SystemPartitions::Mountable ready, kj::String target, MountOptions options, bool grows)>;
AttachVolume attachVolumes(UvLoop& uv, kj::Timer& timer, SayLine say);

class DataVolumes {
 public:
  struct Dependencies {
    UvLoop& uv;
    kj::Timer& timer;
    Store& store;
    Volumes& volumes;
    Installer& installer;
    SystemPartitions& partitions;
    VolumeReports& reports;
    kj::Function<kj::Promise<kj::Vector<DiskFacts>>()> disks;
    kj::Function<kj::Promise<FoundOnDisk>(kj::StringPtr disk)> look;  // "/dev/vdb"
    // Returns the device that STATE is mounted from, "/dev/vda5"; nullptr if it is in memory.
    kj::Function<kj::Maybe<kj::String>()> stateDevice;
    AttachVolume attach;
    SayLine say;
    SayLine alarm;  // prints for the operator, on the console
    kj::StringPtr mountinfo = "/proc/self/mountinfo"_kj, swaps = "/proc/swaps"_kj;
  };
  explicit DataVolumes(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(DataVolumes);

  // Makes the volumes of this config what they should be, as far as possible. Passes run one after
  // the other, and to their end, even if the caller drops the promise. Does not reject.
  kj::Promise<void> reconcile(config::Machine::Reader machine);
  // Returns what reconcile() would do to disks, what volumes would wait for, and which ones would
  // not be used any more.
  kj::Promise<kj::Vector<kj::String>> plan(config::Machine::Reader machine);
  // For a shutdown. Reports failures, and leaves the rest to process 1.
  kj::Promise<void> unmountAll();
  // Returns the mount points of volumes that are mounted.
  kj::Vector<kj::String> mounted();

 private:
  using ConfigVolume = config::StorageVolume::Reader;
  struct Wanted;  // the volumes of a config
  struct Found;   // the disks as they are
  Dependencies deps;
  kj::ForkedPromise<void> last = kj::Promise<void>(kj::READY_NOW).fork();

  kj::Promise<void> pass(kj::Own<Wanted> wanted);
  kj::Promise<kj::Own<Found>> look(const Wanted& wanted);
  kj::Promise<kj::Own<Found>> makeMissing(const Wanted& wanted);
  kj::Promise<void> make(const Placement& placement);
  kj::Promise<Volume> partitionOf(const Placement& placement, kj::StringPtr name);
  kj::Promise<void> finish(const Placement& placement);
  kj::Promise<void> use(const Placement& placement, const Found& found);
  kj::Promise<void> grow(const Placement& placement);
  kj::Promise<void> mount(const Placement& placement, Volume volume);
  kj::Promise<void> attachTo(ConfigVolume volume, SystemPartitions::Mountable ready);
  kj::Promise<void> bindDirectory(ConfigVolume volume);
  kj::Promise<void> mountExisting(ConfigVolume volume, const Found& found);
  kj::Promise<void> startSwap(kj::String node);
  kj::Promise<void> stopSwap(kj::String node);
  bool isSwap(kj::StringPtr node);
  void reportUsed(ConfigVolume volume, const Volume& partition);
  kj::Vector<kj::String> others(const Wanted& wanted);
  kj::Promise<void> removeOthers(const Wanted& wanted);
  kj::Promise<bool> release(kj::StringPtr id);
  void report(ConfigVolume volume, VolumePhase phase, kj::String reason);
  bool isMounted(kj::StringPtr mountpoint);
};

// Returns "UserVolumeConfig[data]: REASON" for each volume of the config that is not in use.
kj::Vector<kj::String> volumesNotInEffect(Store& store, config::Machine::Reader machine,
                                          bool container);

}  // namespace talos::machined
