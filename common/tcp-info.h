// What the kernel knows of a TCP connection, and its C library's header does not.
#pragma once

namespace talos {

// Whether the peer has sent any byte on this connection; true for what is no TCP connection.
bool peerHasSpoken(int socket);

}  // namespace talos
