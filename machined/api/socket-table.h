// The sockets of a network namespace, as /proc/net has them, and whose they are.
//
// parseSockets() is pure; readSockets() blocks (a folder for each process): it is for the pool for
// reads. Nothing is kept. A socket that closes, or a process that ends, while it is read is left
// out or has no owner.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

struct SocketFacts {
  kj::String protocol;  // tcp, tcp6 ...
  kj::String localAddress, remoteAddress;
  uint16_t localPort = 0, remotePort = 0;
  kj::StringPtr state;  // empty: it has none
  uint64_t receiveQueue = 0, sendQueue = 0;
  uint32_t uid = 0;
  uint64_t inode = 0;  // 0: of the kernel alone, as in TIME_WAIT
  int pid = 0;
  kj::String program;
};

// A file of /proc/net; `protocol` is its name. Lines that are not understood are left out.
kj::Vector<SocketFacts> parseSockets(kj::StringPtr protocol, kj::ArrayPtr<const char> text);

struct Sockets {
  kj::Vector<SocketFacts> sockets;
  uint64_t leftOut = 0;
};
// Of the process's network namespace; 0: of this one. NotFound when there is no such process.
// `socketHolder` is a process that has, like process 1, the sockets on which others listen: it is
// named only for those that nobody else has open.
Sockets readSockets(kj::StringPtr proc, int process, int socketHolder, size_t most);

}  // namespace talos::machined
