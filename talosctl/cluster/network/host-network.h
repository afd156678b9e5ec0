// The host's network, for a process whose thread has left it for the namespace of a cluster.
//
// A socket belongs for ever to the network namespace in which it was made. So sockets of the host
// are made by a thread that enters its namespace and ends; the calling thread stays where it is,
// and /proc/<pid>/ns/net, through which others find the cluster's network, never shows the host's.
// Nothing of the host's network is changed: its sockets are opened, its addresses are read.
#pragma once

#include <kj/function.h>
#include <kj/io.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::cluster {

class HostNetwork {
 public:
  // Keeps the namespace of the calling thread; constructed before the thread leaves it.
  HostNetwork();
  // For a child process that enters it.
  int fd() const { return network; }
  // True if the calling thread is in it.
  bool isCurrent() const;
  // Runs `work` in it, on a thread that ends before this returns; an exception is passed on.
  void inside(kj::Function<void()> work) const;
  // Non-blocking.
  kj::AutoCloseFd tcpSocket(int family) const;
  // Of all links that are up.
  kj::Vector<Ip> addresses() const;

 private:
  kj::AutoCloseFd network;
};

// True if the host's kernel can create WireGuard links: tries it in a temporary network namespace.
// A kernel that has them as a module loads it for that, and keeps it.
bool wireguardWorks();

// The addresses on which a server of the host may listen, in the order in which they are tried:
// 127.0.0.1 and ::1, which servers on all addresses (0.0.0.0, ::) answer as well, then the
// addresses of the links, IPv4 first. Other addresses of 127.0.0.0/8 are left out, because the APIs
// of local clusters listen there, and so are link-local ones. At most 16: a host with more has them
// for its containers. Pure.
kj::Vector<Ip> dialOrder(kj::ArrayPtr<const Ip> addresses);

}  // namespace talos::cluster
