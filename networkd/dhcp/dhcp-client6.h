// The DHCPv6 client of one link: the messages and pauses of the lease's life cycle
// (dhcp-lease-cycle.h). Pure.
//
// RFC 8415 §15 (pauses), §18.2. With `address` it asks for one (IA_NA, and takes a rapid commit);
// without, only for other settings of the network (INFORMATION-REQUEST). The client's identifier is
// made of its hardware address, and so is the number of the association: the same after every boot
// without anything kept. An address is a /128: the networks on the link, and the routes, are the
// routers' part. CONFIRM asks if a lease from before still belongs to the link.
//
// The kernel finds out if another machine has the address, and then does not use it; the client is
// informed (duplicated()), declines it (DECLINE) and asks for another one, the first time at once,
// then at growing intervals. An address that is no longer wanted is given back (RELEASE). Both are
// sent once the address has been removed from the link (removed()): §18.2.7 wants that order, and a
// server may offer a declined address once more, which the kernel tries only when it is added anew.
// Where that takes more than 5 s, because another program wants the same address on the link, a
// DECLINE is sent all the same, and instead of a RELEASE the server waits for the lease's end. Both
// are sent four times at most, in 15 s.
#pragma once

#include <kj/one-of.h>

#include "networkd/dhcp/dhcp-lease-cycle.h"
#include "networkd/dhcp/dhcp-lease6.h"

namespace talos::networkd::dhcp {

struct Settings6 {
  kj::Array<kj::byte> hardwareAddress;  // six octets
  bool address = true;
};

struct Send6 {  // to all servers of the link
  Message6 message;
};
using Action6 = kj::OneOf<Send6, Bound, Lost>;

class Client6 final : public LeaseCycle<Lease6, Action6> {
 public:
  using Send = Send6;
  explicit Client6(Settings6 settings, kj::Maybe<Lease6> kept = nullptr);

  // linkUp(): and there is a link-local address.
  Actions linkDown();
  Actions hear(const Message6& message, Moment now);
  // The kernel says that another machine has the address that is held.
  Actions duplicated(Moment now);
  // The lease is no longer wanted. The exchange with the server is over when it has ended().
  Actions release(Moment now);
  // The address that is to be released or declined is not on the link any more.
  Actions removed(Moment now);
  bool ended() const { return released && current == State::kDown; }

  // The address that is to be released or declined.
  kj::Maybe<const Ip&> leaving() const;
  bool listens() const { return !onLink && LeaseCycle::listens(); }
  uint32_t association() const { return number; }

 private:
  Settings6 settings;
  kj::Array<kj::byte> identifier;
  uint32_t number;
  kj::Maybe<Message6> best;  // advertisement
  struct Past {
    Ip address;
    kj::Array<kj::byte> server;
  };
  kj::Maybe<Past> past;  // in kReleasing and kDeclining
  bool onLink = false;   // still, the address of `past`
  kj::Duration lastPause = 0 * kj::SECONDS;
  kj::Duration longest = 3600 * kj::SECONDS;  // SOL_MAX_RT or INF_MAX_RT
  unsigned conflicts = 0;                     // addresses in a row that other machines have

  void send(Moment now, Actions& out) override;
  unsigned mostTries() const override;
  kj::Duration refusalPause(unsigned count, Moment now) const override;
  bool hasOffer() const override { return best != nullptr; }
  void dropOffers() override { best = nullptr; }
  bool ownTimeout(Moment now, Actions& out) override;
  void left(Moment now, Actions& out) override;
  void down() override;

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
  void leave(State how, Moment now);
  bool partFrom(kj::StringPtr cause, Actions& out);
  bool acceptable(const Message6& message) const;
};

}  // namespace talos::networkd::dhcp
