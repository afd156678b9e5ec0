// The packets that carry DHCPv4 before the link has an address: IPv4 and UDP headers (RFC 791, 768,
// 1071), and ARP (RFC 826, 5227), of Ethernet links. Pure; accepts any bytes.
#pragma once

#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dhcp {

// Builds the IPv4 packet with this payload. TTL 64, never fragmented.
kj::Array<kj::byte> wrap4(Ip from, uint16_t fromPort, Ip to, uint16_t toPort, Bytes payload);

struct Datagram4 {
  Ip from, to;
  Bytes payload;  // points into the packet
};
// Returns the whole UDP datagram for `port`; nullptr for any other packet. `checked`: the checksum
// of the UDP header is filled in (a packet that never left this machine may not have it yet).
kj::Maybe<Datagram4> unwrap4(Bytes packet, uint16_t port, bool checked);

struct Arp {
  enum class Operation : uint16_t { kRequest = 1, kReply = 2 };
  Operation operation = Operation::kRequest;
  kj::Array<kj::byte> sender;  // six octets
  Ip senderAddress;            // 0.0.0.0 in a probe
  kj::Array<kj::byte> target;
  Ip targetAddress;
};
kj::Array<kj::byte> encode(const Arp& arp);
kj::Maybe<Arp> parseArp(Bytes packet);

// Asks if a machine other than `own` has this address. The sender address is 0.0.0.0, because the
// sender does not have the address.
Arp probe(Bytes own, Ip address);
// Announces that we use the address from now on.
Arp announcement(Bytes own, Ip address);
// Returns true if the packet shows that another machine has the address or is about to take it (RFC
// 5227 §2.1.1).
bool conflicts(const Arp& arp, Bytes own, Ip address);

}  // namespace talos::networkd::dhcp
