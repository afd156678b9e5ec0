// Writes the files of a new system to the partitions EFI and BOOT of its disk: to slot A, which is
// started. `top` is a descriptor of a mounted file system, or of a folder that becomes one
// (machined/disk/image).
//
// Everything blocks, throws naming the file, and is on the disk when it returns.
#pragma once

#include <kj/string.h>

#include "common/base/version.h"

namespace talos::install {

// The programs that firmware looks for on a disk. On an architecture without a BIOS, the partition
// for them still exists, so that all disks have one layout, and is empty.
struct BootPrograms {
  kj::StringPtr efi;  // in EFI/BOOT (UEFI 2.10, 3.5.1.1)
  bool bios;          // boot.img and core.img exist
};
BootPrograms bootProgramsOf(kj::StringPtr arch);

// The places of the system's parts.
struct System {
  kj::StringPtr folder = "/usr/install";  // vmlinuz, initramfs and the boot programs
  kj::String image;                       // a squashfs: a device or a file
  kj::StringPtr arch = buildVersion().arch;
};

// `arguments`: of the kernel.
void putBootFiles(int top, kj::StringPtr arguments, const System& system);
void putEfiFiles(int top, const System& system);

}  // namespace talos::install
