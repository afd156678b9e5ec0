// TCP connections of this host (sock_diag(7), linux/inet_diag.h): reads and ends them.
//
// Connections between an address of this host and the host itself stay open when the address is
// removed: no packet can be sent from the address any more, so neither end is notified, and both
// wait. If the address moves to another host, all other peers get an RST from that host.
//
// A connection whose path was cut for a time is slow to continue: Linux doubles the pause after
// each retransmission (RFC 6298), so after a cut of 4 s it may wait for another 2 s, and a program
// sees no error meanwhile. A program that connects again at once is better off without it.
#pragma once

#include <linux/inet_diag.h>

#include "common/net/ip.h"

struct nlmsghdr;

namespace talos::netlink {

// A connection as the kernel lists it; for an IPv6 socket with an IPv4 connection, with the IPv4
// addresses.
struct Connection {
  int family = AF_INET;  // family of the socket
  Ip local = {}, remote = {};
  inet_diag_sockid id = {};  // identifies it to the kernel
  // Retransmissions, one after the other, of data that the peer has not acknowledged. 0 for data
  // that waits because the peer's program does not read.
  unsigned retransmissions = 0;
};

// Requests the open connections of a family, neither listening nor closed, with these ports; 0:
// any.
kj::Array<kj::byte> encodeConnectionDump(int family, uint16_t localPort = 0,
                                         uint16_t remotePort = 0);
// Decodes the answer; nullptr for other families.
kj::Maybe<Connection> decodeConnection(const nlmsghdr* message);
// Ends a connection: both ends get ECONNABORTED, a connected peer gets an RST if it can be sent.
kj::Array<kj::byte> encodeConnectionEnd(const Connection& connection);

// --- edge

// Returns the open connections in this thread's network namespace to a port of this host, whose
// handshake is complete. Throws if the kernel cannot list them (no INET_DIAG).
kj::Vector<Connection> connectionsTo(uint16_t port);
// Ends these connections, and returns how many of them were still open. Needs CAP_NET_ADMIN. Throws
// kFailedPrecondition with the kernel's error if the kernel cannot end them (no INET_DIAG_DESTROY).
size_t endConnections(kj::ArrayPtr<const Connection> connections);
// Ends the connections in this thread's network namespace that have the address at both ends, and
// returns their number. Needs and throws the same.
size_t endConnectionsToItself(const Ip& address);
// Ends the connections in this thread's network namespace that have the port at one end and whose
// data was retransmitted kStalled times without an answer, which is 1.4 s or more. Returns their
// number. Needs and throws the same.
constexpr unsigned kStalled = 3;
size_t endStalledConnections(uint16_t port);

}  // namespace talos::netlink
