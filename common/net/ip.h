// IP addresses, prefixes and socket addresses as values: parsed strictly, printed in the canonical
// text form (RFC 5952).
//
// IPv4 addresses sort before IPv6 ones, then by number. An IPv4-mapped IPv6 address
// (::ffff:10.0.0.1) differs from the IPv4 address until unmapped() converts it: code that takes
// addresses from a socket, or compares addresses that users wrote, must call unmapped(). Pure;
// never resolves names.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include <array>
#include <compare>

namespace talos {

class Ip {
 public:
  Ip() : Ip(AF_INET) {}
  // Returns 0.0.0.0 or ::.
  static Ip any(int family) { return Ip(family); }
  // Parses numeric text, without zone and prefix length.
  static kj::Maybe<Ip> parse(kj::StringPtr text);
  // Does the same; throws InvalidArgument that names the text if it is not an address.
  static Ip require(kj::StringPtr text);
  // Reads 4 or 16 octets, in network order.
  static kj::Maybe<Ip> fromBytes(kj::ArrayPtr<const kj::byte> bytes);

  int family() const { return size == 4 ? AF_INET : AF_INET6; }
  unsigned bits() const { return size * 8; }
  kj::ArrayPtr<const kj::byte> bytes() const { return kj::arrayPtr(octets.data(), size); }

  bool isAny() const;
  bool isLoopback() const;
  bool isLinkLocal() const;  // 169.254.0.0/16, fe80::/10
  bool isMulticast() const;
  bool isMapped() const;   // ::ffff:0:0/96
  bool isUnicast() const;  // a machine can have it: not unspecified, multicast or broadcast

  Ip unmapped() const;               // IPv4 address of a mapped address; others unchanged
  Ip masked(unsigned length) const;  // with the bits after `length` set to zero
  kj::String toString() const;
  auto operator<=>(const Ip&) const = default;

 private:
  friend struct Prefix;
  // Writes its text without a final NUL; `out` needs at least INET6_ADDRSTRLEN bytes. Returns the
  // end of the text.
  char* write(char* out) const;
  explicit Ip(int family) : size(family == AF_INET ? 4 : 16) {}
  uint8_t size;
  std::array<kj::byte, 16> octets{};
};

// An address with a prefix length; the bits after the prefix are kept ("10.5.0.2/24" is an
// interface's address).
struct Prefix {
  Ip address;
  unsigned length = 0;

  // Parses "10.5.0.2/24"; returns nullptr if the length is missing or too large.
  static kj::Maybe<Prefix> parse(kj::StringPtr text);
  static Prefix host(Ip address) { return {address, address.bits()}; }
  // Returns 0.0.0.0/0 or ::/0.
  static Prefix all(int family) { return {Ip::any(family), 0}; }

  Prefix masked() const { return {address.masked(length), length}; }
  bool contains(Ip other) const;
  // Returns true if they have addresses in common.
  bool overlaps(const Prefix& other) const {
    return contains(other.address) || other.contains(address);
  }
  // Returns the IPv4 broadcast address; nullptr for IPv6 and if the prefix is too long for one
  // (/31, /32).
  kj::Maybe<Ip> broadcast() const;
  kj::String toString() const;
  auto operator<=>(const Prefix&) const = default;
};

// An endpoint in the form for bind(), connect() and similar calls.
class SocketName {
 public:
  sa_family_t family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  socklen_t size() const {
    return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  }
  kj::ArrayPtr<const kj::byte> bytes() const {
    return kj::arrayPtr(reinterpret_cast<const kj::byte*>(&storage), size());
  }

 private:
  friend struct Endpoint;
  sockaddr_storage storage{};
};

// An address and a port.
struct Endpoint {
  Ip address;
  uint16_t port = 0;

  // Parses "10.0.0.1:51820", "[fd00::1]:51820", with a port from 1 to 65535.
  static kj::Maybe<Endpoint> parse(kj::StringPtr text);
  // Reads the name of a socket (sockaddr); nullptr for other families, or a truncated name.
  static kj::Maybe<Endpoint> fromBytes(kj::ArrayPtr<const kj::byte> name);
  static kj::Maybe<Endpoint> of(const sockaddr_storage& name);

  // `link`: index of the link of an address in fe80::/10 or ff02::/16.
  SocketName socketName(unsigned link = 0) const;
  kj::String toString() const;
  bool operator==(const Endpoint&) const = default;
};

// Returns true for the same text, or the same address in another form: fd00::1 and FD00:0::1,
// 10.0.0.1 and ::ffff:10.0.0.1.
bool isSameHost(kj::StringPtr a, kj::StringPtr b);

// Returns a host as it stands in a URL and in the Host header: IPv6 addresses are in brackets.
kj::String hostInUrl(kj::StringPtr host);
kj::String hostInUrl(kj::StringPtr host, uint16_t port);

// Returns 24 for 255.255.255.0; nullptr if it is not a contiguous IPv4 mask.
kj::Maybe<unsigned> maskLength(const Ip& mask);
Ip maskOf(unsigned length);

}  // namespace talos
