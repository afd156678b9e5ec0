// Marks in META for a partition, STATE or EPHEMERAL, on which a plain file system is being made.
//
// The mark is on the disk before mkfs writes its first byte, and is removed when the file system is
// complete. So a partition with its mark holds no data, whatever it looks like: a disk that loses
// its cache with the power may have kept any of mkfs's writes, even the last one without earlier
// ones. Its file system is made again.
//
// The mark says where the partition begins; a mark with another position is ignored. Without META
// (on a disk that no installation has partitioned) no marks exist: then the traces that mkfs itself
// leaves must suffice (common/disk/empty-partition.h), and a partition that a lost cache has left
// without these traces is refused until an operator wipes it. A META that does not answer is an
// error: if a mark were overlooked, a later boot would find it after the partition was used. In a
// container no disk is looked at.
#pragma once

#include "machined/disk/devices/meta-partition.h"

namespace talos::machined {

class FormatMarks {
 public:
  virtual ~FormatMarks() noexcept(false) = default;
  // `label`: STATE or EPHEMERAL. Rejects if META cannot be read; then the partition must not be
  // used.
  virtual kj::Promise<bool> has(kj::StringPtr label, uint64_t begin) = 0;
  // Resolves with true when the mark is on the disk, with false if there is no META. Rejects if
  // META cannot be written; then nothing must be formatted.
  virtual kj::Promise<bool> set(kj::StringPtr label, uint64_t begin) = 0;
  // Rejects if the mark may still exist; then nothing must be kept on the partition.
  virtual kj::Promise<void> clear(kj::StringPtr label) = 0;
};

class MetaFormatMarks final : public FormatMarks {
 public:
  MetaFormatMarks(ReadPool& pool, MetaPartition& meta) : pool(pool), meta(meta) {}

  kj::Promise<bool> has(kj::StringPtr label, uint64_t begin) override;
  kj::Promise<bool> set(kj::StringPtr label, uint64_t begin) override;
  kj::Promise<void> clear(kj::StringPtr label) override;

 private:
  ReadPool& pool;
  MetaPartition& meta;
};

}  // namespace talos::machined
