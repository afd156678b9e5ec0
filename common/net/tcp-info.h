// TCP_INFO of a connection: fields that the C library's header lacks.
#pragma once

namespace talos {

// Returns true if the peer has sent any byte on this connection, and for anything but a TCP
// connection.
bool peerHasSpoken(int socket);
// Returns the number of connections that wait to be accepted at a listening socket; 0 for any
// other.
unsigned waitingConnections(int listening);

}  // namespace talos
