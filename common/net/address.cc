#include "common/net/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "common/base/error.h"

namespace talos {

kj::Maybe<Address> Address::tryParse(kj::StringPtr text) {
  Address result;
  if (text.findFirst('\0') != nullptr) return nullptr;
  if (inet_pton(AF_INET, text.cStr(), result.bytes) == 1) return result;
  in6_addr six;
  if (inet_pton(AF_INET6, text.cStr(), &six) != 1) return nullptr;
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_addr = six;
  return of(reinterpret_cast<sockaddr&>(name));
}

Address Address::parse(kj::StringPtr text) {
  KJ_IF_MAYBE (address, tryParse(text)) {
    return *address;
  }
  fail(ErrorKind::kInvalidArgument, kj::str("\"", text, "\" is not an IPv4 or IPv6 address"));
}

Address Address::of(const sockaddr& name) {
  Address result;
  if (name.sa_family == AF_INET) {
    memcpy(result.bytes, &reinterpret_cast<const sockaddr_in&>(name).sin_addr, 4);
  } else if (name.sa_family == AF_INET6) {
    auto& six = reinterpret_cast<const sockaddr_in6&>(name).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&six)) {
      memcpy(result.bytes, six.s6_addr + 12, 4);
    } else {
      result.ipv4 = false;
      memcpy(result.bytes, six.s6_addr, 16);
    }
  }
  return result;
}

bool Address::isLoopback() const {
  if (ipv4) return bytes[0] == 127;
  constexpr kj::byte kOne[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return memcmp(bytes, kOne, 16) == 0;
}

bool Address::isUnicast() const {
  if (ipv4) return bytes[0] != 0 && bytes[0] < 224;
  constexpr kj::byte kUnspecified[16] = {};
  return bytes[0] != 0xff && memcmp(bytes, kUnspecified, 16) != 0;
}

kj::String Address::toString() const {
  char text[INET6_ADDRSTRLEN];
  inet_ntop(ipv4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
  return kj::str(text);
}

bool Address::operator==(const Address& other) const {
  return ipv4 == other.ipv4 && memcmp(bytes, other.bytes, ipv4 ? 4 : 16) == 0;
}

socklen_t Address::SocketName::size() const {
  return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

Address::SocketName Address::withPort(uint16_t port) const {
  SocketName result;
  if (ipv4) {
    auto& name = reinterpret_cast<sockaddr_in&>(result.storage);
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    memcpy(&name.sin_addr, bytes, 4);
  } else {
    auto& name = reinterpret_cast<sockaddr_in6&>(result.storage);
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(port);
    memcpy(&name.sin6_addr, bytes, 16);
  }
  return result;
}

}  // namespace talos
