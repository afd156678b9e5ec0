// Installs the running system on a disk.
//
// The installed system is the running one: kernel and early initramfs from /usr/install of the
// image, and the image itself, read from the device that it is mounted from.
//
// The order, and what a cut leaves at any write:
//   1. a table in which STATE and EPHEMERAL have names of their own (partition-layout.h). It comes
//   into force
//      by its last write, so before that the disk is as empty as it was, and from then on it is one
//      on which an installation has begun: the next one does not take it for somebody's data.
//   2. META, STATE and the head of EPHEMERAL are zeroed; EFI and BOOT get file systems, BOOT the
//      system in slot A. Nothing of this can be started.
//   3. The brain makes STATE's file system and writes the config into it, through the key of an
//      encrypted one if need be. All that is between write() and finish().
//   4. The code that firmware starts, and its boot entry (efi-boot-option.h). A cut between this
//      and 5. leaves a disk that can be started and belongs to nobody: the system on it installs
//      itself again, from the beginning.
//   5. The table once more, with the names STATE and EPHEMERAL: installed. One write of one sector.
// So a disk is never one of a configured node without a config, and never without a boot loader.
// A wipe comes before all this and removes the table first: cut off, it is begun again.
//
// All functions block, and throw with messages for people; `say` gets the progress. Each enters the
// confinement before it reads the disk (confinement.h).
#pragma once

#include <kj/function.h>
#include <kj/string.h>

#include "machined/disk/installer/confinement.h"
#include "machined/disk/installer/disk-content.h"
#include "machined/disk/installer/system-files.h"

namespace talos::install {

using Say = kj::Function<void(kj::StringPtr)>;

// The device that the root is mounted from; `mountinfo` is the text of /proc/self/mountinfo.
kj::String rootImage(kj::StringPtr mountinfo);

struct InstallOptions {
  kj::StringPtr disk;
  bool wipe = false;
  kj::StringPtr arguments;  // of the kernel
  bool again = false;       // an earlier call may have been the last but for its answer
  // Without `wipe`: what is on the disk.
  machined::FoundOnDisk found;
};
// Steps 1 and 2. FailedPrecondition when the disk must not be written to, and nothing was. False:
// it is installed already, which is no error only if `again`.
bool write(InstallOptions options, const System& system, Say& say, Confinement& confinement);
// Steps 4 and 5; again, it changes nothing.
void finish(kj::StringPtr disk, bool bootLoader, const System& system, Say& say,
            Confinement& confinement);

// An XFS on a device whose first `empty` bytes are zero; on one where that was begun and not ended;
// FailedPrecondition on any other. It is on the disk when this returns. Cut off, a disk that keeps
// the order of writes has one that was not ended (common/disk/unfinished-xfs.h); one that loses its
// cache has anything, so the brain marks what it has made (machined/disk/volumes/format-marks.h),
// and asks again with `empty` 0.
void format(kj::StringPtr device, kj::StringPtr label, uint64_t empty, Confinement& confinement);

// EPHEMERAL to the end of its disk. False when there was nothing to do.
bool grow(kj::StringPtr disk, Confinement& confinement);

}  // namespace talos::install
