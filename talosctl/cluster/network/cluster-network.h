// The network of a local cluster, in the network namespace of the calling thread: a bridge with the
// gateway's addresses, at most one of each family, a tap for each virtual machine, and a veth for
// each run of a container, whose other end is in the network namespace of this run. All of it ends
// with the namespace.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::cluster {

class Network {
 public:
  // Brings up loopback and the bridge. The bridge's hardware address is derived from the first
  // gateway and stays the same when nodes are added or removed. IPv6 addresses are usable at once,
  // because no other host is on the bridge.
  Network(kj::ArrayPtr<const Prefix> gateways, unsigned mtu);
  ~Network() noexcept(false);
  // Adds a tap to the bridge, up. QEMU reads and writes the returned descriptor, which stays owned
  // by this object.
  int addTap(kj::StringPtr name);

  // Creates a network namespace with loopback and eth0, both up, with the addresses and a default
  // route of each family, in the order of the gateways. First it removes a link of this name on the
  // bridge, left by the previous run, which the kernel may not have removed yet. The namespace has
  // no name and exists as long as the descriptor or a process in it.
  struct Inside {
    kj::ArrayPtr<const Ip> addresses;
    kj::StringPtr mac;
  };
  kj::AutoCloseFd addContainer(kj::StringPtr name, const Inside& inside);
  // Removes the link at the end of a run; the kernel would remove it some time after the namespace.
  void removeContainer(kj::StringPtr name);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::cluster
