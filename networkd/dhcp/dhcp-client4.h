// The DHCPv4 client of one link: the messages and pauses of the lease's life cycle
// (dhcp-lease-cycle.h). Pure.
//
// RFC 2131 §4.4, and with it:
//   * The first acceptable offer is taken. Requests name the server by its identifier (option 54),
//     never by siaddr; one transaction number for each exchange, and only answers with it, from the
//     server that was asked, to our hardware address count.
//   * Before an address is used it is probed for (RFC 5227), with shorter pauses than §1.1 says,
//     because a node waits for it: three probes in 200 ms and 100 ms of silence. A machine that
//     answers keeps it: the server is informed (DECLINE) and asked again after 10 s or more.
//     Afterwards the address is announced twice.
//   * A known lease is confirmed by INIT-REBOOT; when a server refuses it, it is lost.
//   * A lease that is no longer wanted is given back to the server that gave it (RELEASE, §4.4.6),
//     once: there is no answer to that. Without a carrier the server waits until its end.
//   * Pauses between messages are 4, 8, 16, 32, 64, 64 ... s, each +-1 s, those of renewals half of
//     the time that is left, at least a minute (a 20th of the lease when that is less).
// The client is known by its hardware address (option 61, type 1), so a machine that is installed
// anew, or network-booted, is the same; an identifier as in RFC 4361 would not match the
// reservations that administrators make by that address.
#pragma once

#include <kj/one-of.h>

#include "networkd/dhcp/dhcp-lease-cycle.h"
#include "networkd/dhcp/dhcp-lease4.h"
#include "networkd/dhcp/dhcp-packet4.h"

namespace talos::networkd::dhcp {

struct Settings4 {
  kj::Array<kj::byte> hardwareAddress;  // six octets
  kj::String hostname;                  // sent to the server; empty: none
  bool asksForMtu = true;  // false: there are servers that then do not answer (Azure's)
};

// --- actions
struct Broadcast {
  Message4 message;
};
struct Unicast {
  Message4 message;
  Ip from, to;  // from is ours
};
struct Release {  // to the server that gave it, while the address is perhaps gone already
  Message4 message;
  Ip from, to;
};
struct SendArp {
  Arp arp;
};
using Action4 = kj::OneOf<Broadcast, Unicast, Release, SendArp, Bound, Lost>;

class Client4 final : public LeaseCycle<Lease4, Action4> {
 public:
  // `kept`: a lease of this link from before.
  explicit Client4(Settings4 settings, kj::Maybe<Lease4> kept = nullptr);

  Actions linkUp(Moment now);
  Actions linkDown(Moment now);
  Actions hear(const Message4& message, Moment now);
  Actions hear(const Arp& arp, Moment now);
  // The end, because its lease is not wanted; only the destructor may follow. A process that exits
  // does without: its lease outlives it.
  Actions stop(Moment now);

  kj::Maybe<kj::TimePoint> deadline() const;
  // True while ARP packets are expected.
  bool probes() const { return current == State::kProbing; }

 private:
  Settings4 settings;
  kj::Maybe<Lease4> pending;  // offered, or being probed for
  kj::Maybe<Ip> hint;         // the last address, to be asked for again
  kj::Maybe<kj::TimePoint> announceAt;
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
