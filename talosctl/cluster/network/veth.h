// A veth pair: two Ethernet links that are connected to each other, one in this network namespace
// and one, "eth0", in another. The pair is removed with either end.
#pragma once

#include <kj/string.h>

#include "common/netlink/netlink.h"

namespace talos::cluster {

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
