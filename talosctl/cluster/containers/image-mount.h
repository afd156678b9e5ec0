// Mounts a squashfs image read-only through a loop device that the kernel frees with the mount.
#pragma once

#include <kj/string.h>

namespace talos::container {

// In the mount namespace of the caller: whoever has one of its own leaves nothing behind. Throws
// kFailedPrecondition saying what this host lacks.
void mountImage(kj::StringPtr image, kj::StringPtr folder);

}  // namespace talos::container
