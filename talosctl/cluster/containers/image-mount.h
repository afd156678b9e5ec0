// Mounts a squashfs image read-only through a loop device that the kernel frees with the mount.
#pragma once

#include <kj/string.h>

namespace talos::container {

// Mounts the image in the mount namespace of the caller; the mount ends with the namespace. Throws
// kFailedPrecondition naming the feature that this host lacks.
void mountImage(kj::StringPtr image, kj::StringPtr folder);
// Mounts an open file in the same way; `name` is for messages.
void mountImage(int image, kj::StringPtr name, kj::StringPtr folder);

// Mounts an open image on `target` in the mount namespace of a process, for a container that has no
// loop devices. `place`: an empty folder of the caller, where the mount is for a moment. A child of
// the caller enters the namespace, for one call.
void mountImageFor(int pid, int image, kj::StringPtr place, kj::StringPtr target);

// Unmounts the image; users of the mount keep it until they end. No error if nothing is mounted.
void unmountImage(kj::StringPtr folder);

}  // namespace talos::container
