// A pair of Ethernet links that are each other's cable, one end in this network namespace and one,
// "eth0", in another. The pair goes when either end does.
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

// Both ends are down. Throws kFailedPrecondition in the kernel's words.
void makeVeth(const Veth& veth);

// By the name of the end in the kernel's namespace. Absent is fine, also when it goes at this very
// moment: the kernel removes it by itself after the other end's namespace has ended.
void removeVeth(netlink::Kernel& kernel, kj::StringPtr name);

}  // namespace talos::cluster
