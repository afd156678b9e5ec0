// The network of a local cluster, in the network namespace of the calling thread: a bridge that
// holds the gateway's address, and a tap for each guest. All of it goes with the namespace.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::cluster {

class Network {
 public:
  // Brings up loopback and the bridge with `gateway`/`prefix`.
  Network(kj::StringPtr gateway, unsigned prefix, unsigned mtu);
  ~Network() noexcept(false);
  // A tap on the bridge, up; the descriptor is what QEMU reads and writes, and stays owned by this
  // object.
  int addTap(kj::StringPtr name);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::cluster
