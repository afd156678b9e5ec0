// The files of a new system on the partitions EFI and BOOT of its disk: in slot A, which is the one
// that is started. `top` is a descriptor of a mounted file system, or of a folder that becomes one
// (machined/disk/image).
//
// Everything blocks, throws naming the file, and is on the disk when it returns.
#pragma once

#include <kj/string.h>

namespace talos::install {

// Where the parts of the system are.
struct System {
  kj::StringPtr folder = "/usr/install";  // vmlinuz, initramfs, boot.img, core.img, BOOTX64.EFI
  kj::String image;                       // a squashfs: a device or a file
};

// `arguments`: of the kernel.
void putBootFiles(int top, kj::StringPtr arguments, const System& system);
void putEfiFiles(int top, const System& system);

}  // namespace talos::install
