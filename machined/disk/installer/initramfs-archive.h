// An initramfs with the root image in it: archives in the kernel's format newc, one behind the
// other, are unpacked in turn. Pure, but for the image's bytes, which are the caller's to copy.
#pragma once

#include <kj/string.h>

namespace talos::install {

// The bytes before and behind those of a file "rootfs.sqsh" of this size: together they are a whole
// archive.
struct Wrapping {
  kj::Array<char> before, after;
};
// Throws InvalidArgument for a size that the format cannot have.
Wrapping wrapRootImage(uint64_t size);

}  // namespace talos::install
