// The sockets of a DHCP client: what the state machines ask to be sent, on one link, and what is
// heard there. Thin; formats are in dhcp-packet4.h and the message headers.
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

// A link as DHCP needs it.
struct LinkState {
  unsigned index = 0;
  bool running = false;                 // up, and with carrier
  kj::Array<kj::byte> hardwareAddress;  // empty when it is not an Ethernet link
  bool operator==(const LinkState& other) const;
};
// None when there is no such link.
kj::Maybe<LinkState> lookAtLink(kj::StringPtr name);

// A socket, and the promise that it has something.
class Listener {
 public:
  Listener(kj::UnixEventPort& port, kj::AutoCloseFd fd);
  kj::Promise<void> readable() { return observer.whenBecomesReadable(); }
  int get() const { return fd; }

 private:
  kj::AutoCloseFd fd;
  kj::UnixEventPort::FdObserver observer;
};

// Packets of IPv4 for port 68, broadcast or for our hardware address; those that the kernel would
// drop as not ours as well. A filter in the kernel passes nothing else.
kj::AutoCloseFd openPackets4(unsigned index);
// ARP packets.
kj::AutoCloseFd openArp(unsigned index);
// UDP from our address, port 68, to a server's port 67; receives nothing (openPackets4() does).
kj::AutoCloseFd openUnicast4(kj::StringPtr link, const Ip& from);
// UDP, port 546, and a member of no group.
kj::AutoCloseFd openUdp6(kj::StringPtr link);
// ICMPv6, of which only router advertisements from the link itself (hop limit 255) pass.
kj::AutoCloseFd openAdvertisements(kj::StringPtr link, unsigned index);

// True if the link has a source address for packets to its neighbours: one that is not tentative.
bool hasLinkLocal(kj::StringPtr link, unsigned index);

// Calls `each` for what waits in the socket, at most 64 packets, and returns: whether there may be
// more, which Listener::readable() does not report (it reports packets that come).
struct Heard {
  Bytes bytes;
  Ip from;       // of UDP and ICMPv6
  bool checked;  // the sum in its UDP header is filled in
  int hopLimit;  // of ICMPv6; -1: not known
  Bytes sender;  // of packets: its hardware address
};
bool receive(int fd, kj::Function<void(const Heard&)> each);

// To all machines of the link: an IPv4 or ARP packet, by the type of the socket.
void sendToAll(int fd, unsigned index, uint16_t protocol, Bytes packet);
// The same, to the machine with this hardware address (six octets).
void sendTo(int fd, Bytes hardwareAddress, unsigned index, uint16_t protocol, Bytes packet);
void sendTo(int fd, const Ip& to, uint16_t port, unsigned index, Bytes payload);

}  // namespace talos::networkd::dhcp
