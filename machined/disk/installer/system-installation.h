// Installs the running system on a disk.
//
// The installed system is the running one: kernel and early initramfs from /usr/install of the
// image, and the image itself, read from the device that it is mounted from.
//
// The order, and the state after a cut at any write:
//   1. A table in which STATE and EPHEMERAL have temporary names (partition-layout.h). Its last
//      write makes it valid: before that, the disk is as empty as it was; after that, it is a disk
//      with an unfinished installation, which the next installation does not take for data of an
//      owner.
//   2. META, STATE and the head of EPHEMERAL are zeroed; EFI and BOOT get file systems, BOOT the
//      system in slot A. Nothing of this can be started.
//   3. The brain makes STATE's file system and writes the config into it, with the key of an
//      encrypted one if necessary. All this is between write() and finish().
//   4. The code that firmware starts, and its boot entry (efi-boot-option.h). A cut between 4. and
//      5. leaves a disk that can be started and has no owner: its system installs itself again,
//      from the beginning.
//   5. The table once more, with the names STATE and EPHEMERAL: installed. One write of one sector.
// So a disk never belongs to a configured node without a config, and never lacks a boot loader. A
// wipe comes before all this and removes the table first: an interrupted wipe is started again.
//
// All functions block, and throw with human-readable messages; `say` gets the progress. Each enters
// the confinement before it reads the disk (confinement.h).
#pragma once

#include <kj/function.h>
#include <kj/string.h>
#include <kj/time.h>

#include "machined/disk/installer/confinement.h"
#include "machined/disk/installer/disk-content.h"
#include "machined/disk/installer/system-files.h"

namespace talos::install {

// Progress lines of a wipe: one at each full tenth, and one each minute in between. A tenth of a
// large disk takes hours, and a program that reports nothing for so long is killed as hanging
// (machined/disk/volumes/installer-client.cc).
class WipeProgress {
 public:
  // Starts measuring at once. The clock must outlive it.
  WipeProgress(uint64_t total, const kj::MonotonicClock& clock)
      : total(total), clock(clock), said(clock.now()) {}

  // Returns "10 %" or "1863 of 14902 GiB"; nullptr if no line is due.
  kj::Maybe<kj::String> at(uint64_t done);

 private:
  uint64_t total, tenths = 0;
  const kj::MonotonicClock& clock;
  kj::TimePoint said;
};

using Say = kj::Function<void(kj::StringPtr)>;

// The root image of a system with extensions, whose root is an overlay
// (machined/process1/init/root-layers.h).
constexpr kj::StringPtr kRootImageMount = "/run/root-image"_kj;

// Returns the device of the root image; `mountinfo` is the text of /proc/self/mountinfo.
kj::String rootImage(kj::StringPtr mountinfo);

struct InstallOptions {
  kj::StringPtr disk;
  bool wipe = false;
  kj::StringPtr arguments;  // of the kernel
  bool again = false;       // an earlier call may have done everything but answer
  EphemeralSize ephemeral = {};
  // The content of the disk; without `wipe`.
  machined::FoundOnDisk found;
};
// Does steps 1 and 2. FailedPrecondition if the disk must not be written to; nothing is written
// then. Returns false if the system is installed already, which is an error unless `again`.
bool write(InstallOptions options, const System& system, Say& say, Confinement& confinement);
// Does steps 4 and 5; repeated, it changes nothing.
void finish(kj::StringPtr disk, bool bootLoader, const System& system, Say& say,
            Confinement& confinement);

// Makes an XFS on a device whose first `empty` bytes are zero, or on which a file system was begun
// and not completed; FailedPrecondition on any other device. The XFS is on the disk when this
// returns. After an interruption, a disk that keeps the order of writes has an unfinished XFS
// (common/disk/empty-partition.h). A disk that loses its cache may have anything, so the brain
// marks the partition (machined/disk/volumes/format-marks.h), and calls again with `empty` 0.
void format(kj::StringPtr device, kj::StringPtr label, uint64_t empty, Confinement& confinement);

// Grows EPHEMERAL into the free space after it; its data and all other partitions stay. Returns
// false if there was nothing to do.
bool grow(kj::StringPtr disk, const EphemeralSize& ephemeral, Confinement& confinement);

}  // namespace talos::install
