// Mounts a squashfs image read-only through a loop device that the kernel frees with the mount.
#pragma once

#include <kj/string.h>

namespace talos::container {

// Mounts it in the mount namespace of the caller; with the namespace the mount ends. Throws
// kFailedPrecondition naming the feature that this host lacks.
void mountImage(kj::StringPtr image, kj::StringPtr folder);
// The same of a file that is open; `name` is for messages.
void mountImage(int image, kj::StringPtr name, kj::StringPtr folder);

// Whatever uses it keeps it until it ends. Nothing mounted is fine.
void unmountImage(kj::StringPtr folder);

}  // namespace talos::container
