// IP addresses and prefixes as values: parsed strictly, printed in the canonical text form (RFC
// 5952).
//
// IPv4 addresses sort before IPv6 ones, then by number. Pure; no name is ever resolved here.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <stdint.h>
#include <sys/socket.h>

#include <array>
#include <compare>

namespace talos {

class Ip {
 public:
  Ip() : Ip(AF_INET) {}
  // 0.0.0.0 or ::
  static Ip any(int family) { return Ip(family); }
  // Numeric text, no zone, no prefix length.
  static kj::Maybe<Ip> parse(kj::StringPtr text);
  // 4 or 16 octets, in network order.
  static kj::Maybe<Ip> fromBytes(kj::ArrayPtr<const kj::byte> bytes);

  int family() const { return size == 4 ? AF_INET : AF_INET6; }
  unsigned bits() const { return size * 8; }
  kj::ArrayPtr<const kj::byte> bytes() const { return kj::arrayPtr(octets.data(), size); }

  bool isAny() const;
  bool isLoopback() const;
  bool isLinkLocal() const;  // 169.254.0.0/16, fe80::/10
  bool isMulticast() const;

  Ip masked(unsigned length) const;  // the bits behind `length` are zero
  kj::String toString() const;
  auto operator<=>(const Ip&) const = default;

 private:
  friend struct Prefix;
  // Its text, in at least INET6_ADDRSTRLEN bytes, without a NUL behind it; where it ends.
  char* write(char* out) const;
  explicit Ip(int family) : size(family == AF_INET ? 4 : 16) {}
  uint8_t size;
  std::array<kj::byte, 16> octets{};
};

// An address with a prefix length; the bits behind it are kept ("10.5.0.2/24" is an interface's
// address).
struct Prefix {
  Ip address;
  unsigned length = 0;

  // "10.5.0.2/24"; a length that is missing or too large is an error.
  static kj::Maybe<Prefix> parse(kj::StringPtr text);
  static Prefix host(Ip address) { return {address, address.bits()}; }
  // 0.0.0.0/0 or ::/0
  static Prefix all(int family) { return {Ip::any(family), 0}; }

  Prefix masked() const { return {address.masked(length), length}; }
  bool contains(Ip other) const;
  // The IPv4 broadcast address; none for IPv6 and where there is no room for one (/31, /32).
  kj::Maybe<Ip> broadcast() const;
  kj::String toString() const;
  auto operator<=>(const Prefix&) const = default;
};

// 255.255.255.0 -> 24; none when it is not a contiguous IPv4 mask.
kj::Maybe<unsigned> maskLength(kj::StringPtr dotted);

}  // namespace talos
