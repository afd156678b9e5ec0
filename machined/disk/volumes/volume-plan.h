// The plan of the volumes that documents describe: which partition each one has, which one is to be
// made and where, and what a volume waits for. Pure.
//
// A volume is the partition with its label, on whatever disk. Without one, the plan places it on
// the first disk that its selector selects and that has room: an empty disk, a disk with nothing
// but partitions of such volumes, or the free space of the system's disk. A disk with anything else
// is never chosen. Nothing shrinks and nothing moves: a plan adds partitions into free space, and
// grows one into the free space after it.
#pragma once

#include "machined/disk/devices/storage-server.h"
#include "machined/disk/volumes/volume-search.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

// A disk, and the partitions on it.
struct DiskOfVolumes {
  struct Partition {
    kj::String name;  // in the GPT
    uint64_t begin, bytes;
  };
  DiskFacts facts;
  bool readOnly = false;
  bool systemDisk = false;
  bool hasTable = false;
  // Why no partition may be added: "it holds ext4 \"data\""; nullptr if one may be added.
  kj::Maybe<kj::String> unfit;
  kj::Vector<Partition> partitions;  // the i-th one has the number i + 1
};

// Returns why no partition may be added to a disk with this content, of which the kernel has the
// partitions `known`; nullptr if one may be added.
kj::Maybe<kj::String> unfitFor(const FoundOnDisk& found, size_t known, bool systemDisk);

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
  uint64_t growTo = 0;               // bytes; 0: it does not grow
  kj::String reason = kj::String();  // of kWaiting and kFailed
};

// Returns the places in the order in which the volumes are to be made. Volumes without a partition,
// directories and existing ones, are left out. The result refers to `volumes`.
kj::Vector<Placement> planVolumes(capnp::List<config::StorageVolume>::Reader volumes,
                                  kj::ArrayPtr<const DiskOfVolumes> disks);

// Returns the volume that an ExistingVolumeConfig selects, the first one with a file system that
// can be mounted; nullptr without one. Volumes of this system, and mounted ones, are left out.
// `mountinfo` is the text of /proc/self/mountinfo.
kj::Maybe<const Volume&> existingVolume(config::StorageVolume::Reader wanted,
                                        kj::ArrayPtr<const Volume> volumes,
                                        kj::ArrayPtr<const DiskOfVolumes> disks,
                                        kj::StringPtr mountinfo);

// Returns the steps of a plan for a reader: "makes partition u-data of 10 GiB on /dev/vdb".
kj::Vector<kj::String> textOfPlan(kj::ArrayPtr<const Placement> plan);

// Returns the number of a partition, 3 for vda3 and nvme0n1p3; 0 for a whole disk.
unsigned partitionNumber(const BlockDevice& device);

// Returns "UserVolumeConfig[data]" for a volume.
kj::String documentOf(config::StorageVolume::Reader volume);

// Returns the size of a partition made in a free extent; 0 if it would be smaller than the minimum.
uint64_t sizeIn(config::VolumeSize::Reader size, uint64_t extent);

}  // namespace talos::machined
