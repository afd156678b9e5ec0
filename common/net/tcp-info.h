// What the kernel knows of a TCP connection, and its C library's header does not.
#pragma once

namespace talos {

// Whether the peer has sent any byte on this connection; true for what is no TCP connection.
bool peerHasSpoken(int socket);
// How many connections wait to be accepted at a listening socket; 0 for what is none.
unsigned waitingConnections(int listening);

}  // namespace talos
