// The plan of the volumes that documents describe: which partition each one has, which one is to be
// made and where, and what a volume waits for. Pure.
//
// A volume is the partition with its label, on whatever disk. Without one, the plan places it on
// the first disk that its selector selects and that has room: an empty disk, a disk with nothing
// but partitions of such volumes, or the free space of the system's disk. A disk with anything else
// is never chosen. Nothing shrinks and nothing moves: a plan adds partitions into free space, and
// grows one into the free space after it.
//
// No volume gets a second partition. A volume that was made on this node has a record
// (volume-records.h): while its partition is missing, it waits for its disk. And nothing is placed
// while a disk that the selector selects could not be read, because the volume may be on it.
#pragma once

#include "machined/disk/devices/storage-server.h"
#include "machined/disk/volumes/volume-records.h"
#include "machined/disk/volumes/volume-search.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

// A disk, and the partitions on it.
struct DiskOfVolumes {
  struct Partition {
    unsigned number;
    kj::String name;  // in the GPT
    uint64_t begin, bytes;
    kj::String id = kj::String();  // in the GPT; empty if it could not be read
    bool unfinished = false;
  };
  DiskFacts facts;
  bool readOnly = false;
  bool systemDisk = false;
  kj::String id = kj::String();  // of its GPT
  // Why its table could not be read: "did not respond within 10 s"; then the partitions are those
  // that the kernel knows, and some of them have no name. nullptr if it was read.
  kj::Maybe<kj::String> unread;
  // It appeared after the boot, so it may belong to a pod, and is not divided by itself.
  bool appeared = false;
  // Why no partition may be added: "it holds ext4 \"data\""; nullptr if one may be added.
  kj::Maybe<kj::String> unfit;
  kj::Vector<Partition> partitions;
};

// Returns why no partition may be added to a disk with this content, of which the kernel has the
// partitions with the numbers `known`; nullptr if one may be added.
kj::Maybe<kj::String> unfitFor(const FoundOnDisk& found, kj::ArrayPtr<const unsigned> known,
                               bool systemDisk);

enum class PlacementKind {
  kFound,       // a partition has the label
  kUnfinished,  // a partition was left while it was made
  kNew,         // a partition is to be made
  kWaiting,     // there is no place for it now
  kFailed,      // the partition cannot be used
};
struct Placement {
  config::StorageVolume::Reader volume;
  PlacementKind kind = PlacementKind::kWaiting;
  kj::String disk = kj::String();  // "vdb"
  unsigned number = 0;             // of the partition, from 1
  uint64_t offset = 0, bytes = 0;
  uint64_t growTo = 0;                                           // bytes; 0: it does not grow
  bool inUse = false;                                            // of kFound: by an earlier pass
  kj::String diskId = kj::String(), partitionId = kj::String();  // of an existing partition
  kj::String reason = kj::String();                              // of kWaiting and kFailed
};

// Returns the places in the order in which the volumes are to be made. Volumes without a partition,
// directories and existing ones, are left out. The result refers to `volumes`.
kj::Vector<Placement> planVolumes(capnp::List<config::StorageVolume>::Reader volumes,
                                  kj::ArrayPtr<const DiskOfVolumes> disks,
                                  kj::ArrayPtr<const VolumeRecord> records = nullptr);

// Returns the volume that an ExistingVolumeConfig selects, the first one with a file system that
// can be mounted; nullptr without one. Left out are volumes of this system, those with a label in
// `ours`, and those that are mounted or in use by another device. `mountinfo` is the text of
// /proc/self/mountinfo. Adds to `leftOut` why selected ones were: "/dev/vdb1 is the volume u-data".
kj::Maybe<const Volume&> existingVolume(config::StorageVolume::Reader wanted,
                                        kj::ArrayPtr<const Volume> volumes,
                                        kj::ArrayPtr<const DiskOfVolumes> disks,
                                        kj::ArrayPtr<const kj::String> ours,
                                        kj::StringPtr mountinfo, kj::Vector<kj::String>& leftOut);

// Returns why the partition of a volume cannot be mounted; nullptr if it can be, or be made again.
kj::Maybe<kj::String> whyUnusable(const Volume& volume);

// Returns why an ExistingVolumeConfig waits; `leftOut` is that of existingVolume().
kj::String textOfNoVolume(kj::ArrayPtr<const kj::String> leftOut);
// Returns which existing volumes will be mounted, and which ones will wait.
kj::Vector<kj::String> textOfExisting(capnp::List<config::StorageVolume>::Reader wanted,
                                      kj::ArrayPtr<const Volume> volumes,
                                      kj::ArrayPtr<const DiskOfVolumes> disks,
                                      kj::ArrayPtr<const kj::String> ours, kj::StringPtr mountinfo);

// Returns the steps of a plan for a reader: "makes partition u-data of 10 GiB on /dev/vdb".
kj::Vector<kj::String> textOfPlan(kj::ArrayPtr<const Placement> plan);

// Returns true if the volume's selector selects this disk.
bool selectsDisk(config::StorageVolume::Reader volume, const DiskOfVolumes& disk);

// Formats bytes with one decimal at most: "10 GiB", "1.5 GiB", "512 MiB".
kj::String binarySize(uint64_t bytes);

// Returns the number of a partition, 3 for vda3 and nvme0n1p3; 0 for a whole disk.
unsigned partitionNumber(const BlockDevice& device);

// Returns "UserVolumeConfig[data]" for a volume.
kj::String documentOf(config::StorageVolume::Reader volume);

// Returns the size of a partition made in a free extent; 0 if it would be smaller than the minimum.
uint64_t sizeIn(config::VolumeSize::Reader size, uint64_t extent);

}  // namespace talos::machined
