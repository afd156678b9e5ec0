// The DHCPv4 client of one link: the messages and pauses of the lease's life cycle
// (dhcp-lease-cycle.h). Pure.
//
// RFC 2131 §4.4, and with it:
//   * The first acceptable offer is taken. Requests name the server by its identifier (option 54),
//     never by siaddr; one transaction number for each exchange, and only answers with it, from the
//     server that the request named, to our hardware address, are accepted.
//   * Before an address is used, the client probes for it (RFC 5227), with shorter pauses than
//     those of §1.1, because the node waits for its address: three probes in 200 ms and 100 ms of
//     silence. If another machine answers, the client declines the address (DECLINE) and starts
//     again after 10 s or more. Otherwise it announces the address twice.
//   * A known lease is confirmed by INIT-REBOOT; when a server refuses it, it is lost.
//   * A lease that is no longer wanted is released once to its server (RELEASE, §4.4.6), because a
//     RELEASE has no answer. Without a carrier nothing is sent, and the server waits for the
//     lease's end.
//   * Pauses between messages are 4, 8, 16, 32, 64, 64 ... s, each +-1 s, those of renewals half of
//     the time that is left, at least a minute (a 20th of the lease when that is less).
// The client identifies itself by its hardware address (option 61, type 1), so the server
// recognizes a machine that was reinstalled or network-booted; an identifier of RFC 4361 would not
// match the reservations that administrators make by hardware address.
#pragma once

#include <kj/one-of.h>

#include "networkd/dhcp/dhcp-lease-cycle.h"
#include "networkd/dhcp/dhcp-lease.h"
#include "networkd/dhcp/dhcp-packet4.h"

namespace talos::networkd::dhcp {

struct Settings4 {
  kj::Array<kj::byte> hardwareAddress;  // six octets
  kj::String hostname;                  // sent to the server; empty: not sent
  bool asksForMtu = true;  // false for servers that do not answer a request with this option
                           // (Azure's)
};

// --- actions
struct Broadcast {
  Message4 message;
};
struct Unicast {
  Message4 message;
  Ip from, to;  // `from` is our address
};
struct Release {  // Sent to the server of the lease; the address may have left the link already.
  Message4 message;
  Ip from, to;
};
struct SendArp {
  Arp arp;
};
using Action4 = kj::OneOf<Broadcast, Unicast, Release, SendArp, Bound, Lost>;

class Client4 final : public LeaseCycle<Lease4, Action4> {
 public:
  // `kept`: an earlier lease of this link.
  explicit Client4(Settings4 settings, kj::Maybe<Lease4> kept = nullptr);

  Actions linkUp(Moment now);
  Actions linkDown(Moment now);
  Actions handle(const Message4& message, Moment now);
  Actions handle(const Arp& arp, Moment now);
  // Ends the client because its lease is not wanted; only the destructor may follow. A process that
  // exits does not call this: its lease outlives the process.
  Actions stop(Moment now);

  kj::Maybe<kj::TimePoint> deadline() const;
  // Returns true while ARP packets are expected.
  bool probes() const { return current == State::kProbing; }

 private:
  Settings4 settings;
  kj::Maybe<Lease4> pending;  // offered, or being probed for
  kj::Maybe<Ip> hint;         // last address, requested again
  kj::Maybe<kj::TimePoint> nextAnnouncement;
  unsigned announcements = 0;

  void send(Moment now, Actions& out) override;
  unsigned mostTries() const override;
  kj::Duration refusalPause(unsigned count, Moment now) const override;
  void dropOffers() override { pending = nullptr; }
  bool ownTimeout(Moment now, Actions& out) override;
  void settle() override;

  void sendRequest(Moment now, Actions& out);
  void sendRenewal(const Lease4& lease, Moment now, Actions& out);
  void probeNext(Moment now, Actions& out);
  void release(Moment now, Actions& out);
  bool isAnswerOf(const Message4& message, const Lease4& lease) const;
  void acknowledged(const Message4& message, Moment now, Actions& out);
  void refused(const Message4& message, Moment now, Actions& out);
  Message4 request(Message4::Type type, Moment now) const;
};

}  // namespace talos::networkd::dhcp
