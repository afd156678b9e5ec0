// TCP connections of this host (sock_diag(7), linux/inet_diag.h): read, and ended.
//
// Connections between an address of this host and the host itself stay open when the address is
// removed: no packet can be sent from it any more, so neither end is notified, and both wait. Where
// the address comes up elsewhere, everybody else gets an RST from the host that has it now.
#pragma once

#include <linux/inet_diag.h>

#include "common/net/ip.h"

struct nlmsghdr;

namespace talos::netlink {

// As the kernel lists it; of an IPv6 socket with an IPv4 connection, the IPv4 addresses.
struct Connection {
  int family = AF_INET;  // of the socket
  Ip local = {}, remote = {};
  inet_diag_sockid id = {};  // names it to the kernel
};

// The connections of a family that are open: neither listening nor closed.
kj::Array<kj::byte> encodeConnectionDump(int family);
// The answer to it. None of other families.
kj::Maybe<Connection> decodeConnection(const nlmsghdr* message);
// Both ends get ECONNABORTED, a connected peer gets an RST if it can be sent.
kj::Array<kj::byte> encodeConnectionEnd(const Connection& connection);

// --- edge

// Ends those of this thread's network namespace that have the address at both ends; how many. Needs
// CAP_NET_ADMIN. kFailedPrecondition with the kernel's error where it cannot (no
// INET_DIAG_DESTROY).
size_t endConnectionsToItself(const Ip& address);

}  // namespace talos::netlink
