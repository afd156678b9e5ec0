// The host's network, for a process whose thread has left it for the namespace of a cluster.
//
// A socket belongs forever to the network namespace in which it was created. So a thread that
// enters the host's namespace and then ends creates the host's sockets. The calling thread stays
// where it is, and /proc/<pid>/ns/net, by which other programs find the cluster's network, never
// shows the host's. Nothing of the host's network is changed: only its sockets are opened and its
// addresses are read.
#pragma once

#include <kj/function.h>
#include <kj/io.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::cluster {

class HostNetwork {
 public:
  // Keeps the namespace of the calling thread; must be constructed before the thread leaves it.
  HostNetwork();
  // for a child process that enters the namespace
  int fd() const { return network; }
  // Returns true if the calling thread is in the host's namespace.
  bool isCurrent() const;
  // Runs `work` in the host's namespace, on a thread that ends before this returns; passes on an
  // exception.
  void inside(kj::Function<void()> work) const;
  // Creates a non-blocking socket.
  kj::AutoCloseFd tcpSocket(int family) const;
  // Returns the addresses of all links that are up.
  kj::Vector<Ip> addresses() const;

 private:
  kj::AutoCloseFd network;
};

// Returns true if the host's kernel can create WireGuard links, which it tries in a temporary
// network namespace. A kernel with WireGuard as a module loads the module, and keeps it.
bool wireguardWorks();

// Returns the addresses where a server of the host may listen, in the order of the attempts:
// 127.0.0.1 and ::1, where servers on all addresses (0.0.0.0, ::) answer as well, then the
// addresses of the links, IPv4 first. Leaves out link-local addresses, and other addresses of
// 127.0.0.0/8, where the APIs of local clusters listen. At most 16: a host with more has them for
// its containers. Pure.
kj::Vector<Ip> dialOrder(kj::ArrayPtr<const Ip> addresses);

}  // namespace talos::cluster
