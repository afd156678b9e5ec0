// Erases the partitions of the system disk that a reset names, or the whole disk.
//
// The caller has marked the reset in META (machined/disk/volumes/node-reset.h). A power cut at any
// write leaves the mark, so the next boot starts the erasure again from the first step; each step
// may be done twice. The mark is therefore erased last, together with whatever a repetition does
// not need:
//   1. STATE and EPHEMERAL: the secrets and the data. The first 16 MiB of a partition are zeroed,
//      which destroys a LUKS header and all its key slots; STATE is zeroed completely. When the
//      whole disk is reset, so are the volumes of documents on it.
//   2. The boot partitions EFI, BIOS and BOOT, only if the request names them: EFI and BOOT get
//      empty file systems.
//   3. In META, every value but the mark.
//   4. The mark: the value is deleted, and when STATE was erased, also its keys that a boot finds
//      in META. Or META is zeroed, its first copy last. Or, when the whole disk is reset, the table
//      is erased: STATE and EPHEMERAL lose their names, the copy at the disk's end is zeroed, then
//      the first sector. The last is one write, after which neither firmware nor kernel find a
//      partition; the rest of the table is that of an unfinished installation, which the next
//      installation starts again.
#pragma once

#include "machined/disk/devices/meta-values.h"
#include "machined/disk/installer/partition-layout.h"
#include "machined/disk/installer/system-installation.h"

namespace talos::install {

struct EraseStep {
  enum class Kind { kZero, kUnname, kFat, kBootFileSystem, kOnlyMark, kNoMark };
  Kind kind;
  kj::StringPtr what;  // a label, or the part of the disk
  uint64_t offset, size;
  bool keys = false;  // of kNoMark: also the keys of STATE, which was erased
};
// Pure. NotFound if the table lacks one of these partitions.
kj::Vector<EraseStep> eraseSteps(const gpt::Table& table, unsigned sectorSize, uint64_t diskBytes,
                                 kj::ArrayPtr<const kj::StringPtr> labels);

// Applies a step to META's values.
void eraseValues(const EraseStep& step, machined::MetaValues& values);

// Does all steps. Blocks. Returns false if there was nothing left to do. After an error the mark is
// still there, and a repeated call starts again from the first step.
bool erase(kj::StringPtr disk, kj::ArrayPtr<const kj::StringPtr> labels, Say& say,
           Confinement& confinement);

}  // namespace talos::install
