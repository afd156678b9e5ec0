#include "common/net/ip.h"

#include <arpa/inet.h>
#include <kj/debug.h>
#include <string.h>

#include <algorithm>

#include "common/base/error.h"

namespace talos {

namespace {
// Writes a number up to 999 and returns the end of the text.
char* writeNumber(char* out, unsigned number) {
  if (number >= 100) *out++ = char('0' + number / 100);
  if (number >= 10) *out++ = char('0' + number / 10 % 10);
  *out++ = char('0' + number % 10);
  return out;
}
}  // namespace

kj::Maybe<Ip> Ip::parse(kj::StringPtr text) {
  for (int family : {AF_INET, AF_INET6}) {
    Ip ip(family);
    // A text with a NUL inside would be read only up to it.
    if (strlen(text.cStr()) == text.size() &&
        inet_pton(family, text.cStr(), ip.octets.data()) == 1) {
      return ip;
    }
  }
  return nullptr;
}

Ip Ip::require(kj::StringPtr text) {
  KJ_IF_MAYBE (ip, parse(text)) return *ip;
  fail(ErrorKind::kInvalidArgument, kj::str("\"", text, "\" is not an IPv4 or IPv6 address"));
}

kj::Maybe<Ip> Ip::fromBytes(kj::ArrayPtr<const kj::byte> bytes) {
  if (bytes.size() != 4 && bytes.size() != 16) return nullptr;
  Ip ip(bytes.size() == 4 ? AF_INET : AF_INET6);
  std::copy(bytes.begin(), bytes.end(), ip.octets.begin());
  return ip;
}

bool Ip::isAny() const {
  return std::all_of(octets.begin(), octets.end(), [](kj::byte b) { return b == 0; });
}

bool Ip::isLoopback() const {
  if (size == 4) return octets[0] == 127;
  Ip one(AF_INET6);
  one.octets[15] = 1;
  return *this == one;
}

bool Ip::isLinkLocal() const {
  if (size == 4) return octets[0] == 169 && octets[1] == 254;
  return octets[0] == 0xfe && (octets[1] & 0xc0) == 0x80;
}

bool Ip::isMulticast() const {
  return size == 4 ? (octets[0] & 0xf0) == 0xe0 : octets[0] == 0xff;
}

bool Ip::isMapped() const {
  return size == 16 && octets[10] == 0xff && octets[11] == 0xff &&
         std::all_of(octets.begin(), octets.begin() + 10, [](auto octet) { return octet == 0; });
}

bool Ip::isUnicast() const {
  if (size == 4) return octets[0] != 0 && octets[0] < 224;
  return !isMulticast() && !isAny();
}

Ip Ip::unmapped() const {
  if (!isMapped()) return *this;
  Ip four(AF_INET);
  std::copy_n(octets.begin() + 12, 4, four.octets.begin());
  return four;
}

Ip Ip::masked(unsigned length) const {
  Ip result = *this;
  for (unsigned bit = length; bit < bits(); ++bit) {
    result.octets[bit / 8] &= ~(0x80 >> (bit % 8));
  }
  return result;
}

// Does not use inet_ntop(), which prints IPv4 by a format and takes ten times as long.
char* Ip::write(char* out) const {
  if (size == 16) {
    inet_ntop(AF_INET6, octets.data(), out, INET6_ADDRSTRLEN);
    return out + strlen(out);
  }
  for (unsigned i = 0; i < 4; ++i) {
    if (i > 0) *out++ = '.';
    out = writeNumber(out, octets[i]);
  }
  return out;
}

kj::String Ip::toString() const {
  char text[INET6_ADDRSTRLEN];
  return kj::heapString(text, write(text) - text);
}

kj::Maybe<Prefix> Prefix::parse(kj::StringPtr text) {
  KJ_IF_MAYBE (slash, text.findFirst('/')) {
    auto digits = text.slice(*slash + 1);
    if (digits.size() < 1 || digits.size() > 3) return nullptr;
    unsigned length = 0;
    for (char c : digits) {
      if (c < '0' || c > '9') return nullptr;
      length = length * 10 + (c - '0');
    }
    KJ_IF_MAYBE (address, Ip::parse(kj::heapString(text.slice(0, *slash)))) {
      if (length > address->bits()) return nullptr;
      return Prefix{*address, length};
    }
  }
  return nullptr;
}

bool Prefix::contains(Ip other) const {
  return other.family() == address.family() && other.masked(length) == address.masked(length);
}

kj::Maybe<Ip> Prefix::broadcast() const {
  if (address.family() != AF_INET || length > 30) return nullptr;
  kj::byte octets[4];
  auto from = address.bytes();
  for (unsigned i = 0; i < 4; ++i) octets[i] = from[i];
  for (unsigned bit = length; bit < 32; ++bit) octets[bit / 8] |= 0x80 >> (bit % 8);
  return Ip::fromBytes(octets);
}

kj::String Prefix::toString() const {
  char text[INET6_ADDRSTRLEN + 4];
  auto end = address.write(text);
  *end++ = '/';
  return kj::heapString(text, writeNumber(end, length) - text);
}

kj::Maybe<Endpoint> Endpoint::parse(kj::StringPtr text) {
  KJ_IF_MAYBE (colon, text.findLast(':')) {
    auto host = kj::heapString(text.slice(0, *colon));
    bool bracketed = host.startsWith("[") && host.endsWith("]");
    if (bracketed) host = kj::heapString(host.slice(1, host.size() - 1));
    auto port = text.slice(*colon + 1).tryParseAs<uint16_t>().orDefault(0);
    KJ_IF_MAYBE (address, Ip::parse(host)) {
      if (port != 0) return Endpoint{*address, port};
    }
  }
  return nullptr;
}

kj::Maybe<Endpoint> Endpoint::fromBytes(kj::ArrayPtr<const kj::byte> name) {
  sa_family_t family = AF_UNSPEC;
  if (name.size() >= sizeof(family)) memcpy(&family, name.begin(), sizeof(family));
  auto read = [&](auto socketName, auto address, auto port) {
    memcpy(&socketName, name.begin(), sizeof(socketName));
    auto bytes = kj::arrayPtr(&(socketName.*address), 1).asBytes();
    return Endpoint{KJ_ASSERT_NONNULL(Ip::fromBytes(bytes)), ntohs(socketName.*port)};
  };
  if (family == AF_INET && name.size() >= sizeof(sockaddr_in)) {
    return read(sockaddr_in{}, &sockaddr_in::sin_addr, &sockaddr_in::sin_port);
  }
  if (family == AF_INET6 && name.size() >= sizeof(sockaddr_in6)) {
    return read(sockaddr_in6{}, &sockaddr_in6::sin6_addr, &sockaddr_in6::sin6_port);
  }
  return nullptr;
}

kj::Maybe<Endpoint> Endpoint::of(const sockaddr_storage& name) {
  return fromBytes(kj::arrayPtr(&name, 1).asBytes());
}

SocketName Endpoint::socketName(unsigned link) const {
  SocketName result;
  auto bytes = address.bytes();
  if (address.family() == AF_INET) {
    auto& name = reinterpret_cast<sockaddr_in&>(result.storage);
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    memcpy(&name.sin_addr, bytes.begin(), bytes.size());
  } else {
    auto& name = reinterpret_cast<sockaddr_in6&>(result.storage);
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(port);
    name.sin6_scope_id = link;
    memcpy(&name.sin6_addr, bytes.begin(), bytes.size());
  }
  return result;
}

kj::String Endpoint::toString() const {
  return address.family() == AF_INET ? kj::str(address, ":", port)
                                     : kj::str("[", address, "]:", port);
}

kj::String hostInUrl(kj::StringPtr host) {
  return host.findFirst(':') == nullptr ? kj::str(host) : kj::str("[", host, "]");
}

kj::String hostInUrl(kj::StringPtr host, uint16_t port) {
  return kj::str(hostInUrl(host), ":", port);
}

kj::Maybe<unsigned> maskLength(const Ip& mask) {
  if (mask.family() != AF_INET) return nullptr;
  uint32_t value = 0;
  for (kj::byte b : mask.bytes()) value = value << 8 | b;
  auto length = static_cast<unsigned>(__builtin_popcount(value));
  if (maskOf(length) != mask) return nullptr;
  return length;
}

Ip maskOf(unsigned length) {
  constexpr kj::byte kOnes[] = {255, 255, 255, 255};
  return KJ_ASSERT_NONNULL(Ip::fromBytes(kOnes)).masked(length);
}

bool isSameHost(kj::StringPtr a, kj::StringPtr b) {
  if (a == b) return true;
  auto one = Ip::parse(a), other = Ip::parse(b);
  KJ_IF_MAYBE (x, one) {
    KJ_IF_MAYBE (y, other) return x->unmapped() == y->unmapped();
  }
  return false;
}

}  // namespace talos
