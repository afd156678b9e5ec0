// A tap device: an Ethernet link whose other end is a file descriptor (a virtual machine's network
// card).
//
// The device lives as long as the descriptor (not persistent): after a crash of its owner at any
// line the kernel removes it. It is made in the network namespace of the calling thread, down.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

namespace talos::cluster {

// Each frame has a virtio-net header in front, as QEMU wants it. Close-on-exec. Throws
// kFailedPrecondition naming the device and the kernel's reason, kInvalidArgument for a name that
// is not 1 to 15 characters.
kj::AutoCloseFd makeTap(kj::StringPtr name);

}  // namespace talos::cluster
