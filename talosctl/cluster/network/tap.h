// A tap device: an Ethernet link whose other end is a file descriptor (a virtual machine's network
// card).
//
// The device exists as long as the descriptor (not persistent): when its owner crashes at any
// point, the kernel removes it. It is created in the network namespace of the calling thread, down.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

namespace talos::cluster {

// Creates a tap. Each frame is preceded by a virtio-net header, as QEMU requires. The descriptor is
// close-on-exec. Throws kFailedPrecondition naming the device and the kernel's error,
// kInvalidArgument for a name that is not 1 to 15 characters long.
kj::AutoCloseFd makeTap(kj::StringPtr name);

}  // namespace talos::cluster
