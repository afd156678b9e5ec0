// A veth pair: two Ethernet links that are connected to each other, one in this network namespace
// and one, "eth0", in another. The pair is removed with either end.
#pragma once

#include <kj/string.h>

#include "common/netlink/netlink.h"

namespace talos::cluster {

struct Veth {
  kj::StringPtr name;  // of the end in this namespace
  kj::StringPtr mac;  // of eth0, "52:54:00:00:00:02": a fixed one, or peers remember the one before
  unsigned mtu;
  int peerNamespace;  // descriptor of the network namespace that eth0 is made in
};

// Both ends are down. Throws kFailedPrecondition with the kernel's error.
void makeVeth(const Veth& veth);

// By the name of the end in this kernel's namespace. Absent is fine, also when it disappears at
// this very moment: the kernel removes it by itself after the other end's namespace has ended.
void removeVeth(netlink::Kernel& kernel, kj::StringPtr name);

}  // namespace talos::cluster
