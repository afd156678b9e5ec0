// Records the partitions of the volumes that this node has made or used: a file for each
// volume in a folder on STATE, with the IDs of the partition and of its disk. So a volume whose
// disk is missing waits for it, and is not made a second time on another disk.
//
// A record is written before its partition is finished (common/disk/volume-labels.h), so no
// finished partition of this node is without one. After a cut between the two, the record is that
// of the unfinished partition, which the next boot finds by the same ID and completes. After a cut
// before the record, the partition is still unfinished and without data: if its disk goes missing
// then, the volume is made elsewhere, and nothing is lost. The partition of another node, or of an
// earlier installation, gets its record when it is first used.
//
// The record is dropped when the config has no document of the volume any more.
//
// Without STATE on a disk no records exist.
#pragma once

#include "machined/process1/uv-loop.h"

namespace talos::machined {

struct VolumeRecord {
  kj::String label;            // "u-data"
  kj::String disk, partition;  // IDs in the GPT; empty if the record is damaged
};

// A file that is damaged is a record without IDs: its volume was made, and is not made again. The
// folder may be absent. These functions block.
kj::Vector<VolumeRecord> readVolumeRecords(kj::StringPtr folder);
void writeVolumeRecord(kj::StringPtr folder, const VolumeRecord& record);
void dropVolumeRecord(kj::StringPtr folder, kj::StringPtr label);

// The records in the folder that `folder` returns; without one, none.
class StoredRecords {
 public:
  using Folder = kj::Function<kj::Maybe<kj::String>()>;
  StoredRecords(UvLoop& uv, Folder folder) : uv(uv), folder(kj::mv(folder)) {}

  kj::Promise<kj::Vector<VolumeRecord>> read();
  kj::Promise<void> write(VolumeRecord record);
  // Writes the record if it is not among these.
  kj::Promise<void> keep(VolumeRecord record, kj::ArrayPtr<const VolumeRecord> known);
  // Drops the records of all volumes with other labels.
  kj::Promise<void> dropOthers(kj::Vector<kj::String> labels);

 private:
  UvLoop& uv;
  Folder folder;
};

// Returns the reason of a volume whose partition is missing.
kj::String textOfMissing(const VolumeRecord& record);

}  // namespace talos::machined
