// Writes a disk with the system on it as a file, from which a provider makes machines. It holds
// what an installation leaves (machined/disk/installer/system-installation.h), except that STATE
// and EPHEMERAL are zeros: the first boot makes their file systems, and EPHEMERAL grows with the
// disk.
//
// Nothing is mounted and no device is needed: the file systems are made in files, with
// mkfs.xfs(8)'s prototypes and mtools(1), and copied to their places. Zeros become holes of the
// file. The same system yields the same bytes: identities of the disk, its partitions and its file
// systems are derived from their content, and dates are those of the system's kernel.
//
// Blocks. If it is interrupted, the file is missing, or is the previous one.
#pragma once

#include "machined/disk/installer/system-files.h"

namespace talos::install {

struct DiskImage {
  kj::StringPtr file;
  uint64_t bytes;
  kj::StringPtr arguments;  // kernel arguments
};

// InvalidArgument if the disk is too small; Internal naming the tool that failed, with its
// messages.
void writeDiskImage(const DiskImage& image, const System& system);

}  // namespace talos::install
