// IP addresses as values: numeric text in, canonical text out, no resolver anywhere.
#pragma once

#include <kj/string.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace talos {

class Address {
 public:
  // IPv4 dotted quad or IPv6; an IPv4-mapped IPv6 address is the IPv4 address. InvalidArgument
  // otherwise.
  static Address parse(kj::StringPtr text);
  static kj::Maybe<Address> tryParse(kj::StringPtr text);
  // From what the kernel says; "unknown" families give 0.0.0.0.
  static Address of(const sockaddr& name);

  bool isIpv4() const { return ipv4; }
  bool isLoopback() const;
  // Not the unspecified address, multicast or broadcast: one that a machine can have.
  bool isUnicast() const;
  kj::String toString() const;
  bool operator==(const Address& other) const;

  // For bind and connect.
  class SocketName {
   public:
    sa_family_t family() const { return storage.ss_family; }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
    socklen_t size() const;

   private:
    sockaddr_storage storage{};
    friend class Address;
  };
  SocketName withPort(uint16_t port) const;

 private:
  bool ipv4 = true;
  kj::byte bytes[16] = {};  // IPv4: the first four
};

}  // namespace talos
