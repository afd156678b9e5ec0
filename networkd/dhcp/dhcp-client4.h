// The DHCPv4 client of one link as a state machine: what to send and what holds, from what was
// heard and the time. Pure: no I/O, no clock, no randomness of its own.
//
// RFC 2131 §4.4, and with it:
//   * The first acceptable offer is taken. Requests name the server by its identifier (option 54),
//     never by siaddr; one transaction number for each exchange, and only answers with it, from the
//     server that was asked, to our hardware address count.
//   * Before an address is used it is probed for (RFC 5227), with shorter pauses than §1.1 says,
//     because a node waits for it: three probes in 200 ms and 100 ms of silence. Who answers keeps
//     it: the server is told (DECLINE) and asked again after 10 s or more. Afterwards it is
//     announced twice.
//   * A lease that is known already, because the cable was out or the process has been killed,
//     holds until it expires, while the server is asked to confirm it (INIT-REBOOT). When nobody
//     answers it is kept; when a server refuses it, it goes.
//   * A lease that is no longer wanted is given back to the server that gave it (RELEASE, §4.4.6),
//     once: nobody answers to that. Without a cable nobody is told, and the server waits until its
//     end.
//   * Nothing is given up: pauses between messages are 4, 8, 16, 32, 64, 64 ... s, each +-1 s,
//     those of renewals half of what is left, at least a minute (a 20th of the lease when that is
//     less).
// The client is known by its hardware address (option 61, type 1), so a machine that is installed
// anew, or network-booted, is the same; an identifier as in RFC 4361 would not match the
// reservations that administrators make by that address.
#pragma once

#include <kj/one-of.h>

#include "networkd/dhcp/dhcp-client.h"
#include "networkd/dhcp/dhcp-lease4.h"
#include "networkd/dhcp/dhcp-packet4.h"

namespace talos::networkd::dhcp {

struct Settings4 {
  kj::Array<kj::byte> hardwareAddress;  // six octets
  kj::String hostname;                  // told to the server; empty: none
};

// --- what shall be done
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
using Action = kj::OneOf<Broadcast, Unicast, Release, SendArp, Bound, Lost>;

class Client4 {
 public:
  using Actions = kj::Vector<Action>;
  enum class State {
    kDown,  // no carrier yet, or no more
    kInit,  // waits before it asks again
    kSelecting,
    kRequesting,
    kProbing,
    kBound,
    kRenewing,
    kRebinding,
    kRebooting,
  };

  // `kept`: a lease of this link from before.
  explicit Client4(Settings4 settings, kj::Maybe<Lease4> kept = nullptr);

  Actions linkUp(Moment now);
  Actions linkDown(Moment now);
  Actions hear(const Message4& message, Moment now);
  Actions hear(const Arp& arp, Moment now);
  // At deadline() or later.
  Actions timeout(Moment now);
  // The end, because nobody wants its lease; only the destructor may follow. A process that ends
  // does without: its lease outlives it.
  Actions stop(Moment now);

  State state() const { return current; }
  kj::Maybe<kj::TimePoint> deadline() const;
  kj::Maybe<const Lease4&> lease() const;
  // Whether messages, or ARP packets, are of interest: sockets need not be open without.
  bool listens() const;
  bool probes() const { return current == State::kProbing; }

 private:
  Settings4 settings;
  State current = State::kDown;
  kj::Maybe<Lease4> held;     // in force
  kj::Maybe<Lease4> pending;  // offered, or being probed for
  kj::Maybe<Ip> hint;         // what we had, to be asked for again
  uint32_t exchange = 0;
  kj::TimePoint began = kj::origin<kj::TimePoint>();  // of the exchange
  // The first request with this number: an answer may be to that.
  kj::TimePoint sent = kj::origin<kj::TimePoint>();
  kj::Maybe<kj::TimePoint> next;  // when to do something in this state
  kj::Maybe<kj::TimePoint> announceAt;
  unsigned tries = 0;     // messages of this state
  unsigned failures = 0;  // refusals and conflicts in a row
  unsigned announcements = 0;

  bool expire(Moment now, Actions& out);
  void announce(Moment now, Actions& out);
  void goOn(Moment now, Actions& out);
  void discover(Moment now, Actions& out);
  void startExchange(Moment now);
  void sendDiscover(Moment now, Actions& out);
  void sendRequest(Moment now, Actions& out);
  void renew(State state, Moment now, Actions& out);
  void sendRenewal(Moment now, Actions& out);
  void reboot(Moment now, Actions& out);
  void probeNext(Moment now, Actions& out);
  void bind(Lease4 lease, Moment now, Actions& out);
  void settle(Moment now);
  void pause(kj::Duration least, Moment now);
  void release(Moment now, Actions& out);
  void lose(kj::StringPtr why, Actions& out);
  void acknowledged(const Message4& message, Moment now, Actions& out);
  void refused(const Message4& message, Moment now, Actions& out);
  Message4 request(Message4::Type type, Moment now) const;
};

kj::StringPtr nameOf(Client4::State state);

}  // namespace talos::networkd::dhcp
