// The sockets of a DHCP client on one link: they send the messages of the state machines, and
// receive the answers. Thin; formats are in dhcp-packet4.h and the message headers.
//
// Needs CAP_NET_RAW, and CAP_NET_BIND_SERVICE for the client ports. All sockets are non-blocking
// and belong to one network interface by its index.
#pragma once

#include <kj/async-unix.h>
#include <kj/function.h>
#include <kj/io.h>

#include <optional>

#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dhcp {

// The facts about a link that DHCP needs.
struct LinkState {
  unsigned index = 0;
  bool running = false;                 // up, and with carrier
  kj::Array<kj::byte> hardwareAddress;  // empty if the link is not an Ethernet link
  bool operator==(const LinkState& other) const;
};
// Returns nullptr if the link does not exist.
kj::Maybe<LinkState> lookAtLink(kj::StringPtr name);

// A socket, and the promise that it is readable.
class Listener {
 public:
  Listener(kj::UnixEventPort& port, kj::AutoCloseFd fd);
  kj::Promise<void> readable() { return observer.whenBecomesReadable(); }
  int get() const { return fd; }

 private:
  kj::AutoCloseFd fd;
  kj::UnixEventPort::FdObserver observer;
};

// Receives IPv4 packets for port 68, broadcast or for our hardware address, even those that the
// kernel would drop as not ours. A filter in the kernel drops everything else.
kj::AutoCloseFd openPackets4(unsigned index);
// Receives ARP packets.
kj::AutoCloseFd openArp(unsigned index);
// Sends UDP from our address, port 68, to a server's port 67; receives nothing (openPackets4()
// does).
kj::AutoCloseFd openUnicast4(kj::StringPtr link, const Ip& from);
// Opens UDP port 546, without multicast groups.
kj::AutoCloseFd openUdp6(kj::StringPtr link);
// Opens ICMPv6, where the kernel passes only router advertisements from the link itself (hop limit
// 255).
kj::AutoCloseFd openAdvertisements(kj::StringPtr link, unsigned index);

// Returns true if the link has a source address that is not tentative for packets to its
// neighbours.
bool hasLinkLocal(kj::StringPtr link, unsigned index);

// Calls `each` for the packets that wait in the socket, at most 64. Returns true if more may wait:
// Listener::readable() does not report these, only packets that arrive.
struct Received {
  Bytes bytes;
  Ip from;       // UDP and ICMPv6 only
  bool checked;  // The checksum in the UDP header is filled in.
  int hopLimit;  // ICMPv6 only; -1: unknown
  Bytes sender;  // hardware address of the sender; raw packets only
};
bool receive(int fd, kj::Function<void(const Received&)> each);

// Sends to all machines of the link: an IPv4 or ARP packet, by the type of the socket.
void sendToAll(int fd, unsigned index, uint16_t protocol, Bytes packet);
// Sends to the machine with this hardware address (six octets).
void sendTo(int fd, Bytes hardwareAddress, unsigned index, uint16_t protocol, Bytes packet);
void sendTo(int fd, const Ip& to, uint16_t port, unsigned index, Bytes payload);

}  // namespace talos::networkd::dhcp
