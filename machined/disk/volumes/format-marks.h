// Marks in META for a partition, STATE or EPHEMERAL, on which a plain file system is being made.
//
// The mark is on the disk before mkfs writes its first byte, and goes when all of the file system
// is there. So a partition with its mark has nothing of anybody's, however it looks: a disk that
// loses its cache with the power may have kept any of mkfs's writes, also the last one without
// those before. It is made anew.
//
// The mark says where the partition begins; one of a partition somewhere else is not followed.
// Without META (on a disk that was not divided by an installation) there are no marks: then the
// traces that mkfs itself leaves must suffice (common/disk/unfinished-xfs.h), and a partition that
// such a disk has left as neither is refused until somebody wipes it. A META that does not answer
// is another thing: a mark that was overlooked once would be found by a later boot, after the
// partition was used. In a container no disk is looked at.
#pragma once

#include "machined/disk/devices/meta-partition.h"

namespace talos::machined {

class FormatMarks {
 public:
  virtual ~FormatMarks() noexcept(false) = default;
  // `label`: STATE or EPHEMERAL. Rejects when META cannot be read: then the partition must not be
  // used.
  virtual kj::Promise<bool> has(kj::StringPtr label, uint64_t begin) = 0;
  // Resolves when it is on the disk; false: without META there is none. Rejects when META cannot be
  // written: then nothing must be formatted.
  virtual kj::Promise<bool> set(kj::StringPtr label, uint64_t begin) = 0;
  // Rejects when it may still be there: then nothing must be kept on the partition.
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
