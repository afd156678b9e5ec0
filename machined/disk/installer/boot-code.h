// The code that a BIOS starts: GRUB's two images, completed with their positions on the disk. Pure.
//
// boot.img is the first sector of the disk; it loads the first sector of core.img, which loads the
// rest of core.img. Both come from grub-mkimage (rootfs/image.sh); the fields to complete are
// documented in GRUB's boot.S and diskboot.S.
#pragma once

#include <kj/array.h>
#include <stdint.h>

namespace talos::install {

constexpr size_t kBootSector = 512;

// `first`: the first 512 bytes of the disk, whose partition table and identity stay. `coreSector`:
// the begin of core.img, counted in sectors of 512 bytes, as a BIOS counts.
kj::Array<kj::byte> bootSector(kj::ArrayPtr<const kj::byte> first,
                               kj::ArrayPtr<const kj::byte> bootImage, uint64_t coreSector);
// Throws InvalidArgument if the image does not fit into `room` bytes.
kj::Array<kj::byte> coreImage(kj::ArrayPtr<const kj::byte> image, uint64_t coreSector,
                              uint64_t room);

}  // namespace talos::install
