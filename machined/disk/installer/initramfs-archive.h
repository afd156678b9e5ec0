// An initramfs that contains the root image: archives in the kernel's format newc, which are
// unpacked one after the other. Pure; the caller copies the image's bytes.
#pragma once

#include <kj/string.h>

namespace talos::install {

// The bytes before and after the content of a file "rootfs.sqsh" of this size; with the content,
// they are a complete archive.
struct Wrapping {
  kj::Array<char> before, after;
};
// Throws InvalidArgument for a size that the format cannot have.
Wrapping wrapRootImage(uint64_t size);

}  // namespace talos::install
