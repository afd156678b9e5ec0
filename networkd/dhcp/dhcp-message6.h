// Messages between DHCPv6 clients and servers as values: parsed from any bytes, and encoded. Pure.
//
// RFC 8415; 3646 (resolvers, search list), 4704 (host name), 5908 (time servers). A message that
// breaks the format is refused as a whole; an option with invalid content is ignored. Relayed
// messages are not meant for clients and are refused.
#pragma once

#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dhcp {

constexpr uint16_t kServerPort6 = 547, kClientPort6 = 546;

struct Status6 {
  enum : uint16_t {
    kSuccess = 0,
    kUnspecified,
    kNoAddresses,
    kNoBinding,
    kNotOnLink,
    kUseMulticast,
  };
  uint16_t code = kSuccess;
  kj::String text;  // the server's text, made printable
};

struct Address6 {
  Ip address = Ip::any(AF_INET6);
  uint32_t preferred = 0, valid = 0;  // seconds
  kj::Maybe<Status6> status = nullptr;
};

// IA_NA
struct Association6 {
  uint32_t id = 0;
  uint32_t renewal = 0, rebinding = 0;  // seconds; 0: the client chooses
  kj::Vector<Address6> addresses;
  kj::Maybe<Status6> status;
};

struct Message6 {
  enum class Type : uint8_t {
    kSolicit = 1,
    kAdvertise,
    kRequest,
    kConfirm,
    kRenew,
    kRebind,
    kReply,
    kRelease,
    kDecline,
    kReconfigure,
    kInformationRequest,
  };

  Type type = Type::kSolicit;
  uint32_t exchange = 0;               // 24 bits
  kj::Array<kj::byte> client, server;  // DUIDs; empty: not given
  kj::Vector<Association6> associations;
  kj::Vector<uint16_t> wanted;  // numbers of the requested options
  kj::Maybe<uint16_t> elapsed;  // hundredths of a second
  kj::Maybe<uint8_t> preference;
  kj::Maybe<Status6> status;
  bool rapidCommit = false;
  kj::Vector<Ip> resolvers, timeServers;
  kj::Vector<kj::String> search;
  kj::String hostname;                                              // FQDN option; empty: not given
  kj::Maybe<uint32_t> refresh, longestSolicit, longestInformation;  // seconds
};

struct Parsed6 {
  kj::Maybe<Message6> message;
  kj::StringPtr problem;  // the error if there is no message
};
Parsed6 parse6(Bytes bytes);
kj::Array<kj::byte> encode(const Message6& message);

// Makes an identifier of a hardware address (RFC 8415 §11.4): the same after every boot, without a
// file.
kj::Array<kj::byte> linkLayerIdentifier(uint16_t hardwareType, Bytes hardwareAddress);

}  // namespace talos::networkd::dhcp
