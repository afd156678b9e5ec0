// Describes disks for the planner of volumes, by what the kernel knows of them and by their own
// tables, which a confined process reads.
//
// The kernel does not learn the names of partitions that were added while another partition of the
// disk was in use, nor any attribute. So the table counts; without it, the kernel's partitions
// remain, and the disk counts as unread.
#pragma once

#include "machined/disk/volumes/volume-plan.h"

namespace talos::machined {

// Fills in a disk of which the content was read. Gives the partitions among `volumes` their names.
void describeDisk(DiskOfVolumes& out, kj::ArrayPtr<Volume> volumes, const FoundOnDisk& found);
// Fills in a disk of which it could not be read, for this reason.
void describeUnreadDisk(DiskOfVolumes& out, kj::ArrayPtr<const Volume> volumes, kj::String reason);

// Looks at the disk with these facts, and fills it in. `volumes` as above. Does not reject.
using LookAtDisk = kj::Function<kj::Promise<FoundOnDisk>(kj::StringPtr disk)>;  // "/dev/vdb"
kj::Promise<void> describe(DiskOfVolumes& disk, kj::Vector<Volume>& volumes, LookAtDisk& look);

// Returns a text that differs for another disk with the same name: "vdb/7".
kj::String identityOf(kj::ArrayPtr<const Volume> volumes, kj::StringPtr disk);

// Returns a text that changes with the document and the identity of the disk.
kj::String keyOfAttempt(config::StorageVolume::Reader volume, kj::StringPtr disk);

// Returns the record of a volume on this disk. Unavailable if the disk does not show its partition.
VolumeRecord recordOf(kj::StringPtr label, kj::StringPtr disk, const FoundOnDisk& found);

// Returns the volume as if its partition had this name.
Volume copyOf(const Volume& volume, kj::StringPtr name);

// Returns the labels of the volumes that are this node's, by the config and by its records.
kj::Vector<kj::String> ownLabels(capnp::List<config::StorageVolume>::Reader volumes,
                                 kj::ArrayPtr<const VolumeRecord> records);

}  // namespace talos::machined
