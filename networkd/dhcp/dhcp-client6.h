// The DHCPv6 client of one link as a state machine: what to send and what holds, from what was
// heard and the time. Pure, as dhcp-client4.h.
//
// RFC 8415 §15 (pauses), §18.2. With `address` it asks for one (IA_NA, and takes a rapid commit);
// without, only for what else the network tells (INFORMATION-REQUEST). The client's identifier is
// made of its hardware address, and so is the number of the association: the same after every boot
// without anything kept. An address is a /128: which networks are on the link, and the routes, are
// the routers' part. A lease from before holds until it expires, while the server is asked whether
// the link is still the same (CONFIRM).
//
// Whether another machine has the address is found out by the kernel, which then does not use it;
// told of that (duplicated()), the client refuses it (DECLINE) and asks for another one, the first
// time at once, then at growing intervals. What is no longer wanted is given back (RELEASE). Both
// are said once the address has been removed from the link (removed()): §18.2.7 wants that order,
// and a server may offer what was refused once more, which the kernel tries only when it is added
// anew. Where that takes more than 5 s, because somebody else wants the same address on the link,
// a refusal is said all the same, and else the server is left to wait for the lease's end. Both are
// said four times at most, in 15 s.
#pragma once

#include <kj/one-of.h>
#include <kj/time.h>

#include "networkd/dhcp/dhcp-client.h"
#include "networkd/dhcp/dhcp-message6.h"

namespace talos::networkd::dhcp {

struct Settings6 {
  kj::Array<kj::byte> hardwareAddress;  // six octets
  bool address = true;
};

struct Lease6 {
  kj::Array<kj::byte> server;  // its identifier
  kj::Maybe<Ip> address;       // none: of an INFORMATION-REQUEST
  uint32_t seconds = 0;        // valid
  kj::Vector<Ip> resolvers, timeServers;
  kj::Vector<kj::String> search;
  kj::String hostname;
  kj::TimePoint obtained = kj::origin<kj::TimePoint>();
  // None: never. Without address `renew` is when to ask again.
  kj::Maybe<kj::TimePoint> renew, rebind, expires;
  kj::Array<kj::byte> message;

  bool expired(kj::TimePoint now) const;
};
// Of a reply. None when it has no address for `association`, or one that cannot be used.
kj::Maybe<Lease6> leaseOf(const Message6& message, uint32_t association, kj::TimePoint obtained);
// Of the answer to an INFORMATION-REQUEST.
Lease6 informationOf(const Message6& message, kj::TimePoint obtained);

// The file (dhcp-lease-file.h).
kj::Array<kj::byte> encode(const Lease6& lease);
kj::Maybe<Lease6> decodeLease6(Bytes file, uint32_t association, kj::TimePoint now);

class Client6 {
 public:
  enum class State {
    kDown,  // no carrier, or no link-local address yet
    kInit,  // waits before it asks again
    kSoliciting,
    kRequesting,
    kBound,
    kRenewing,
    kRebinding,
    kConfirming,
    kAsking,  // for information
    kInformed,
    kReleasing,
    kDeclining,
  };
  struct Send {  // to all servers of the link
    Message6 message;
  };
  using Action = kj::OneOf<Send, Bound, Lost>;
  using Actions = kj::Vector<Action>;

  explicit Client6(Settings6 settings, kj::Maybe<Lease6> kept = nullptr);

  Actions linkUp(Moment now);  // and there is a link-local address
  Actions linkDown();
  Actions hear(const Message6& message, Moment now);
  Actions timeout(Moment now);
  // The kernel says that another machine has the address that is held.
  Actions duplicated(Moment now);
  // It is no longer wanted. What follows is over when it has ended().
  Actions release(Moment now);
  // The address that is to be given back, or is refused, is not on the link any more.
  Actions removed(Moment now);
  bool ended() const { return released && current == State::kDown; }

  State state() const { return current; }
  kj::Maybe<kj::TimePoint> deadline() const;
  // Lost tells the end only of one with an address.
  kj::Maybe<const Lease6&> lease() const;
  // What is to be given back, or is refused.
  kj::Maybe<const Ip&> leaving() const;
  bool listens() const;
  uint32_t association() const { return number; }

 private:
  Settings6 settings;
  kj::Array<kj::byte> identifier;
  uint32_t number;
  State current = State::kDown;
  kj::Maybe<Lease6> held;
  kj::Maybe<Message6> best;  // advertisement
  struct Past {
    Ip address;
    kj::Array<kj::byte> server;
  };
  kj::Maybe<Past> past;   // in kReleasing and kDeclining
  bool onLink = false;    // still, the address of `past`
  bool released = false;  // nothing more is asked for
  uint32_t exchange = 0;
  kj::TimePoint began = kj::origin<kj::TimePoint>();  // of the exchange
  // The last message of it: lifetimes count from there, because hours may lie before it.
  kj::TimePoint sent = kj::origin<kj::TimePoint>();
  kj::Maybe<kj::TimePoint> next;
  kj::Duration pause = 0 * kj::SECONDS, longest;  // SOL_MAX_RT or INF_MAX_RT
  unsigned tries = 0;
  unsigned failures = 0;   // refusals in a row
  unsigned conflicts = 0;  // addresses in a row that others have

  void enter(State state, Moment now, Actions& out);
  bool expire(Moment now, Actions& out);
  void stillOnLink(Moment now, Actions& out);
  void giveUp(Moment now, Actions& out);
  void goOn(Moment now, Actions& out);
  void send(Moment now, Actions& out);
  // Of the state.
  Message6 message(Moment now) const;
  // The address that it is about, and the only server that is meant.
  struct Subject {
    kj::Maybe<Ip> address;
    Bytes server;
  };
  Subject subject(Moment now) const;
  void advertised(const Message6& message, Moment now, Actions& out);
  void replied(const Message6& message, Moment now, Actions& out);
  void bind(Lease6 lease, Moment now, Actions& out);
  void leave(State how, Moment now);
  void askAnew(unsigned& reasons, Moment now, Actions& out);
  bool partFrom(kj::StringPtr why, Actions& out);
  void settle();
  void lose(kj::StringPtr why, Actions& out);
  bool acceptable(const Message6& message) const;
};

kj::StringPtr nameOf(Client6::State state);

}  // namespace talos::networkd::dhcp
