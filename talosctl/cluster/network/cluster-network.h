// The network of a local cluster, in the network namespace of the calling thread: a bridge that
// holds the gateway's addresses, at most one of each family, a tap for each virtual machine, and a
// veth for each run of a container, whose other end is in a network namespace of that run. All of
// it ends with the namespace.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::cluster {

class Network {
 public:
  // Brings up loopback and the bridge, whose hardware address follows from the first gateway and
  // stays, whichever nodes come and go. Addresses of IPv6 are usable at once: nobody else is on it.
  Network(kj::ArrayPtr<const Prefix> gateways, unsigned mtu);
  ~Network() noexcept(false);
  // A tap on the bridge, up; the descriptor is what QEMU reads and writes, and stays owned by this
  // object.
  int addTap(kj::StringPtr name);

  // Creates a network namespace with loopback and eth0, both up, with the addresses and a default
  // route of each family; they are in the order of the gateways. First it removes a link of this
  // name on the bridge: that of the run before, which the kernel may not have removed yet. The
  // namespace has no name and exists as long as the descriptor or a process in it.
  struct Inside {
    kj::ArrayPtr<const Ip> addresses;
    kj::StringPtr mac;
  };
  kj::AutoCloseFd addContainer(kj::StringPtr name, const Inside& inside);
  // Called at the end of a run: the kernel would remove the link a while after the namespace.
  void removeContainer(kj::StringPtr name);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::cluster
