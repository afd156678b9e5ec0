// The DHCPv6 client of one link: the messages and pauses of the lease's life cycle
// (dhcp-lease-cycle.h). Pure.
//
// RFC 8415 §15 (pauses), §18.2. With `address` the client requests an address (IA_NA, with rapid
// commit); without, only other settings of the network (INFORMATION-REQUEST). The client's
// identifier, unless it is given, and the number of the association are made of its hardware
// address: both are the same after every boot, without a file. An address is a /128: the on-link
// prefixes and the routes come from routers. CONFIRM asks if an earlier lease still belongs to the
// link.
//
// The kernel detects that another machine has the address, and then does not use it. The client is
// informed (duplicated()), declines the address (DECLINE) and requests another: the first time at
// once, then at growing intervals. An address that is no longer wanted is released (RELEASE).
// RELEASE and DECLINE are sent once the address has been removed from the link (removed()): §18.2.7
// requires this order, and a server may offer a declined address again, which the kernel tries only
// if it is added again. If the removal takes more than 5 s, because another program wants the same
// address on the link, DECLINE is sent all the same; RELEASE is not, and the server waits for the
// lease's end. Each is sent four times at most, in 15 s.
#pragma once

#include <kj/one-of.h>

#include "networkd/dhcp/dhcp-lease-cycle.h"
#include "networkd/dhcp/dhcp-lease.h"

namespace talos::networkd::dhcp {

struct Settings6 {
  kj::Array<kj::byte> hardwareAddress;  // six octets
  bool address = true;
  kj::Array<kj::byte> identifier = nullptr;  // DUID; empty: made of the hardware address
};

struct Send6 {  // A message to all servers of the link.
  Message6 message;
};
using Action6 = kj::OneOf<Send6, Bound, Lost>;

class Client6 final : public LeaseCycle<Lease6, Action6> {
 public:
  using Send = Send6;
  explicit Client6(Settings6 settings, kj::Maybe<Lease6> kept = nullptr);

  // linkUp() also means that the link has a link-local address.
  Actions linkDown();
  Actions handle(const Message6& message, Moment now);
  // The kernel reports that another machine has our address.
  Actions duplicated(Moment now);
  // Ends the use of the lease. The exchange with the server is complete when the client has
  // ended().
  Actions release(Moment now);
  // The address to release or decline has left the link.
  Actions removed(Moment now);
  bool ended() const { return released && current == State::kDown; }

  // Returns the address to release or decline.
  kj::Maybe<const Ip&> leaving() const;
  bool listens() const { return !onLink && LeaseCycle::listens(); }
  uint32_t association() const { return number; }
  Bytes duid() const { return identifier; }

 private:
  Settings6 settings;
  kj::Array<kj::byte> identifier;
  uint32_t number;
  kj::Maybe<Message6> best;  // advertisement
  struct Past {
    Ip address;
    kj::Array<kj::byte> server;
  };
  kj::Maybe<Past> past;  // used in kReleasing and kDeclining
  bool onLink = false;   // The link still has the address of `past`.
  kj::Duration lastPause = 0 * kj::SECONDS;
  kj::Duration longest = 3600 * kj::SECONDS;  // SOL_MAX_RT or INF_MAX_RT
  unsigned conflicts = 0;                     // successive addresses that other machines have

  void send(Moment now, Actions& out) override;
  unsigned mostTries() const override;
  kj::Duration refusalPause(unsigned count, Moment now) const override;
  bool hasOffer() const override { return best != nullptr; }
  void dropOffers() override { best = nullptr; }
  bool ownTimeout(Moment now, Actions& out) override;
  void left(Moment now, Actions& out) override;
  void down() override;

  // Builds the message of the current state.
  Message6 message(Moment now) const;
  // The address and the only server that the exchange concerns.
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
