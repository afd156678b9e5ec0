// TCP connections of this host (sock_diag(7), linux/inet_diag.h): read, and ended.
//
// Who is connected to an address of its own host hears nothing when the address goes: no packet can
// be sent from it any more, so neither end is told, and both wait. Where the address comes up
// elsewhere, everybody else is told by the host that has it now.
#pragma once

#include <linux/inet_diag.h>

#include "common/net/ip.h"

struct nlmsghdr;

namespace talos::netlink {

// As the kernel lists it; of an IPv6 socket that speaks IPv4, the IPv4 addresses.
struct Connection {
  int family = AF_INET;  // of the socket
  Ip local = {}, remote = {};
  inet_diag_sockid id = {};  // names it to the kernel
};

// Those of a family that are neither listening nor over.
kj::Array<kj::byte> encodeConnectionDump(int family);
// The answer to it. None of other families.
kj::Maybe<Connection> decodeConnection(const nlmsghdr* message);
// Both ends get ECONNABORTED, what is connected is told by RST if it can be.
kj::Array<kj::byte> encodeConnectionEnd(const Connection& connection);

// --- edge

// Ends those of this thread's network namespace that have the address at both ends; how many. Needs
// CAP_NET_ADMIN. kFailedPrecondition in the kernel's words where it cannot (no INET_DIAG_DESTROY).
size_t endConnectionsToItself(const Ip& address);

}  // namespace talos::netlink
