// The links of nodes: tap devices of virtual machines, and veth pairs of containers.
//
// A tap device is an Ethernet link whose other end is a file descriptor: the network card of a
// virtual machine.
// The device exists as long as the descriptor (not persistent): when its owner crashes at any
// point, the kernel removes it. It is created in the network namespace of the calling thread, down.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

#include "common/netlink/netlink.h"

namespace talos::cluster {

// Creates a tap. Each frame is preceded by a virtio-net header, as QEMU requires. The descriptor is
// close-on-exec. Throws kFailedPrecondition naming the device and the kernel's error,
// kInvalidArgument for a name that is not 1 to 15 characters long.
kj::AutoCloseFd makeTap(kj::StringPtr name);

// A veth pair: two Ethernet links that are connected to each other, one in this network namespace
// and one, "eth0", in another. The pair is removed with either end.
struct Veth {
  kj::StringPtr name;  // name of the end in this namespace
  // Address of eth0, "52:54:00:00:00:02": fixed, because peers remember the previous one.
  kj::StringPtr mac;
  unsigned mtu;
  int peerNamespace;  // descriptor of the network namespace of eth0
};

// Creates the pair, both ends down. Throws kFailedPrecondition with the kernel's error.
void makeVeth(const Veth& veth);

// Removes a pair by the name of its end in this kernel's namespace. No error if the pair does not
// exist, or disappears during the call: the kernel removes it after the other end's namespace has
// ended.
void removeVeth(netlink::Kernel& kernel, kj::StringPtr name);

}  // namespace talos::cluster
