// Reads the kernel's tables below /proc/net: addresses, routes and sockets of a node. Pure.
#pragma once

#include <string>

namespace talos::published {

struct Route {
  std::string destination;  // CIDR, or "default"
  std::string gateway, link;
  std::string metric;  // empty: any
};

// Returns true if the address is local in fib_trie.
bool isLocal4(const std::string& fibTrie, const std::string& address);

// Returns true if the address is local and the link has the route to its network, which an address
// with a prefix of 32 bits does not have.
bool hasAddress4(const std::string& fibTrie, const std::string& routes, const std::string& link,
                 const std::string& cidr);
bool hasAddress6(const std::string& ifInet6, const std::string& link, const std::string& cidr);

bool hasRoute4(const std::string& routes, const Route& wanted);
bool hasRoute6(const std::string& ipv6Routes, const Route& wanted);
// Returns the routes of /proc/net/route as people write them, in one line.
std::string shownRoutes(const std::string& routes);

enum class Protocol { kTcp, kUdp };
// Returns true if a socket of IPv4 listens (TCP), or is bound (UDP).
bool hasSocket(const std::string& sockets, Protocol protocol, const std::string& address, int port);

}  // namespace talos::published
