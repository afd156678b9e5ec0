// The sockets of a network namespace, as in /proc/net, and their processes.
//
// parseSockets() is pure; readSockets() blocks (a folder for each process): it is for the pool for
// reads. They keep no state. A socket that closes, or a process that exits, while it is read is
// left out or has no owner.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

struct SocketFacts {
  kj::String protocol;  // tcp, tcp6 ...
  kj::String localAddress, remoteAddress;
  uint16_t localPort = 0, remotePort = 0;
  kj::StringPtr state;  // empty without a state
  uint64_t receiveQueue = 0, sendQueue = 0;
  uint32_t uid = 0;
  uint64_t inode = 0;  // 0 if only the kernel has it, as in TIME_WAIT
  int pid = 0;
  kj::String program;
};

// Parses a file of /proc/net; `protocol` is its name. Lines that are not understood are left out.
kj::Vector<SocketFacts> parseSockets(kj::StringPtr protocol, kj::ArrayPtr<const char> text);

struct Sockets {
  kj::Vector<SocketFacts> sockets;
  uint64_t leftOut = 0;
};
// Reads the sockets of the process's network namespace; 0: of this process's. Throws NotFound if
// the process does not exist. `socketHolder` is a process that has, like process 1, the sockets on
// which other processes listen: it is named only for sockets that no other process has open.
Sockets readSockets(kj::StringPtr proc, int process, int socketHolder, size_t most);

}  // namespace talos::machined
