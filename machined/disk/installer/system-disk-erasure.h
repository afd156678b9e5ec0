// Erases the partitions of the system disk that a reset names, or all of it.
//
// The caller has marked the reset in META (machined/disk/volumes/node-reset.h), and the mark is
// what a power cut at any write leaves: the next boot finds it and begins again from the first
// step, of which each may be done twice. So the mark goes last, and with it only what nobody needs
// to come back to it:
//   1. STATE and EPHEMERAL: the secrets and the data. The first 16 MiB of a partition are zeroed,
//   with which
//      a LUKS header and all its key slots are gone; of STATE all of it.
//   2. What the node is started from, EFI, BIOS and BOOT, only if asked for by name: EFI and BOOT
//   get empty
//      file systems.
//   3. Of META every value but the mark.
//   4. The mark: the value is deleted, and when STATE was erased, the keys of it that a boot finds
//   in META; or META zeroed, its first copy last; or, when the whole disk is reset,
//      the table: STATE and EPHEMERAL lose their names, the copy at the disk's end is zeroed, then
//      the first sector. That is one write, after which neither firmware nor kernel see a
//      partition; the rest of the table is that of an installation that did not get far, which the
//      next one begins again.
#pragma once

#include "machined/disk/devices/meta-values.h"
#include "machined/disk/installer/partition-layout.h"
#include "machined/disk/installer/system-installation.h"

namespace talos::install {

struct EraseStep {
  enum class Kind { kZero, kUnname, kFat, kBootFileSystem, kOnlyMark, kNoMark };
  Kind kind;
  kj::StringPtr what;  // a label, or what it is of the disk
  uint64_t offset, size;
  bool keys = false;  // of kNoMark: with the keys of STATE, which is gone
};
// Pure. NotFound when the table does not have one of these partitions.
kj::Vector<EraseStep> eraseSteps(const gpt::Table& table, unsigned sectorSize, uint64_t diskBytes,
                                 kj::ArrayPtr<const kj::StringPtr> labels);

// Of a step of META's values.
void eraseValues(const EraseStep& step, machined::MetaValues& values);

// Blocks. False when there was nothing left to do.
bool erase(kj::StringPtr disk, kj::ArrayPtr<const kj::StringPtr> labels, Say& say,
           Confinement& confinement);

}  // namespace talos::install
