// The volumes that documents of the config describe, such as u-data at /var/mnt/data: makes and
// mounts those that can be, and reports what the others wait for.
//
// A volume that cannot be made or mounted never fails a boot. VolumeStatuses has its phase and the
// reason, and each later pass tries again: after a change of the config, and when a disk appears.
//
// One planner decides (volume-plan.h), this unit makes, and another mounts and releases
// (volume-use.h). Each step may be repeated: after a cut at any write, the next pass finds the
// partition unfinished and makes it again, or complete (machined/disk/installer/
// volume-partitions.h). What has failed is repeated with increasing pauses (volume-retries.h). A
// restarted brain finds the mounts of its predecessor in VolumeStatuses and in the table of mounts.
// A status keeps the device and the mount point as long as the volume is in use, whatever fails
// meanwhile.
//
// While something may go back (a config or an upgraded system on trial), or the boot has not
// mounted /var, in which the mount points are, nothing is written to disks: volumes that exist are
// mounted, and the others wait.
//
// A volume without a document any more is unmounted; its partition and its data stay.
#pragma once

#include "common/memory/zeroize.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/disk/volumes/system-partitions.h"
#include "machined/disk/volumes/volume-plan.h"
#include "machined/disk/volumes/volume-retries.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/store.h"

namespace talos::machined {

// Mounts the file system of a device at `target`; `grows`: to the size of the device first.
using AttachVolume = kj::Function<kj::Promise<void>(
    SystemPartitions::Mountable ready, kj::String target, MountOptions options, bool grows)>;

class VolumeUse;
struct WantedVolumes;  // the volumes of a config
struct FoundVolumes;   // the disks as they are

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
    // Returns the folder of the records of volumes (volume-records.h); nullptr while STATE is in
    // memory.
    kj::Function<kj::Maybe<kj::String>()> records;
    AttachVolume attach;
    bool restarted = false;  // the brain, since the boot
    SayLine say;
    SayLine alarm;  // prints for the operator, on the console
    // Returns why nothing may be written to disks now: "a config is on trial".
    kj::Function<kj::Maybe<kj::String>()> held = []() -> kj::Maybe<kj::String> { return nullptr; };
    kj::StringPtr mountinfo = "/proc/self/mountinfo"_kj, swaps = "/proc/swaps"_kj,
                  meminfo = "/proc/meminfo"_kj;
  };
  explicit DataVolumes(Dependencies deps);
  ~DataVolumes() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(DataVolumes);

  // Makes the volumes of this config what they should be, as far as possible. Passes run one after
  // the other, and to their end, even if the caller drops the promise. Does not reject.
  //   kBoot   at a boot; the same as kAsked, but for a restarted brain as kEvent
  //   kAsked  when the operator applies a config: each present disk may be divided, and what has
  //           failed is tried again
  //   kEvent  when disks change: a disk that has appeared since is not divided, because a pod may
  //           have it
  enum class Occasion { kBoot, kAsked, kEvent };
  kj::Promise<void> reconcile(config::Machine::Reader machine,
                              Occasion occasion = Occasion::kAsked);
  // Does the same at a boot, and waits for at most kBootWaits: the pass continues beside the boot.
  kj::Promise<void> mountAtBoot(config::Machine::Reader machine);
  // Returns what reconcile() would do to disks, what volumes would wait for, and which ones would
  // not be used any more.
  kj::Promise<kj::Vector<kj::String>> plan(config::Machine::Reader machine);
  // Names the partitions of volumes that have no document, for the operator.
  kj::Promise<void> nameUnused(config::Machine::Reader machine);
  // For a shutdown: ends the passes before their next step, and swap last. Reports failures, and
  // leaves the rest to process 1.
  kj::Promise<void> unmountAll();
  // Returns the mount points of volumes that are mounted.
  kj::Vector<kj::String> mounted();
  // Returns what documents want of volumes that are in use otherwise, by the last pass:
  // "UserVolumeConfig[data].provisioning: grows to 20 GiB at the next boot".
  kj::ArrayPtr<const kj::String> different() const;

 private:
  using ConfigVolume = config::StorageVolume::Reader;
  using Wanted = WantedVolumes;
  using Found = FoundVolumes;
  Dependencies deps;
  kj::ForkedPromise<void> last = kj::Promise<void>(kj::READY_NOW).fork();
  bool closing = false;  // no pass begins another step
  bool asked = false;    // no pass has finished since the operator asked
  kj::String current;    // the volume that the running pass is at
  StoredRecords records;
  kj::TreeSet<kj::String> present;  // disks that may be divided
  VolumeRetries retries;
  kj::Maybe<kj::Own<Wanted>> latest;
  kj::Promise<void> retry = kj::NEVER_DONE;
  kj::Own<VolumeUse> uses;

  kj::Promise<void> pass(kj::Own<Wanted> wanted);
  kj::Promise<void> passOver(ConfigVolume volume, kj::Promise<void> work);
  kj::Promise<void> passOver(const Placement& placement, const Found& found);
  kj::Promise<void> setBackupAside(const Placement& placement, const Found& found);
  kj::Promise<void> useFound(const Placement& placement, const Found& found);
  kj::Promise<kj::Own<Found>> look(const Wanted& wanted);
  void noteUnread(const Found& found);
  void repeatLater(kj::StringPtr id, kj::StringPtr error);
  void armRetry();
  kj::Promise<kj::Own<Found>> makeMissing(const Wanted& wanted);
  kj::Promise<void> make(const Placement& placement);
  kj::Promise<void> finish(const Placement& placement);
  kj::Vector<kj::String> others(const Wanted& wanted);
  kj::Promise<void> removeOthers(const Wanted& wanted);
  void report(ConfigVolume volume, VolumePhase phase, kj::String reason);
};

constexpr auto kBootWaits = 60 * kj::SECONDS;

}  // namespace talos::machined
