// Messages of DHCPv4 as values: parsed from any bytes, and encoded. Pure.
//
// RFC 2131 (format), 2132 (options), 3396 (one option in several pieces, and in the fields `file`
// and `sname`), 3397 (domain search), 3442 (classless routes). A message that breaks the format, or
// lacks a part that every message has, is refused as a whole; an option with invalid content is
// ignored.
#pragma once

#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dhcp {

constexpr uint16_t kServerPort4 = 67, kClientPort4 = 68;

struct Route4 {
  Prefix destination;  // host bits zero
  Ip gateway;          // 0.0.0.0: on the link
  bool operator==(const Route4&) const = default;
};

struct Message4 {
  enum class Type : uint8_t {
    kDiscover = 1,
    kOffer,
    kRequest,
    kDecline,
    kAck,
    kNak,
    kRelease,
    kInform,
  };

  bool reply = false;        // sent by a server
  uint8_t hardwareType = 1;  // ARPHRD_ETHER
  kj::Array<kj::byte> hardwareAddress;
  uint32_t exchange = 0;  // xid
  uint16_t seconds = 0;
  bool broadcast = false;         // requests a broadcast answer
  Ip client, yours, next, relay;  // ciaddr, yiaddr, siaddr, giaddr

  Type type = Type::kDiscover;
  kj::Maybe<Ip> server, requested;
  kj::Maybe<uint32_t> lease, renewal, rebinding;  // seconds; 0xffffffff: for ever
  kj::Maybe<unsigned> prefixLength;
  kj::Vector<Ip> routers, resolvers, timeServers;
  kj::Maybe<kj::Vector<Route4>> classlessRoutes;  // set, and perhaps empty, if the message has
                                                  // option 121
  kj::Vector<kj::String> search;
  kj::String hostname, domain;  // empty: not given
  kj::Maybe<uint16_t> mtu, maximumSize;
  kj::Array<kj::byte> clientIdentifier;
  kj::Array<kj::byte> parameters;  // numbers of the requested options
  kj::String text;                 // the server's text, made printable

  bool operator==(const Message4& other) const;
};

struct Parsed4 {
  kj::Maybe<Message4> message;
  kj::StringPtr problem;  // the error if there is no message
};
Parsed4 parse4(Bytes bytes);

// At least 300 octets, as BOOTP relays require.
kj::Array<kj::byte> encode(const Message4& message);

}  // namespace talos::networkd::dhcp
