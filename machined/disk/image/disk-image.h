// A disk with the system on it, as a file: what a provider makes machines of. It holds what an
// installation leaves (machined/disk/installer/system-installation.h), but for STATE and EPHEMERAL,
// which are zeros: the first boot makes their file systems, and EPHEMERAL grows with the disk.
//
// Nothing is mounted and no device is needed: the file systems are made in files, with
// mkfs.xfs(8)'s prototypes and mtools(1), and copied to their places. What is zero is a hole of the
// file. The same system gives the same bytes: identities of the disk, its partitions and its file
// systems are made of what they hold, and dates are those of the system's kernel.
//
// It blocks. Cut off, there is no file, or the one that was there before.
#pragma once

#include "machined/disk/installer/system-files.h"

namespace talos::install {

struct DiskImage {
  kj::StringPtr file;
  uint64_t bytes;
  kj::StringPtr arguments;  // of the kernel
};

// InvalidArgument when the disk is too small; Internal naming the tool that failed, and what it
// said.
void writeDiskImage(const DiskImage& image, const System& system);

}  // namespace talos::install
