// DHCPv4 on one link: runs the state machine (dhcp-client4.h) with sockets, a timer and the lease's
// file, <directory>/dhcp4-<link>.
//
// The file is kept when the operator is dropped (the process ends) and removed by stop() (it is no
// longer wanted), which tells the server that gave it. That goes out as a packet of our own to the
// machine that its acknowledgement came from, or, when that was heard by a process that has ended,
// to all: the kernel may have lost the address and the routes by then.
#pragma once

#include "networkd/dhcp/dhcp-client4.h"
#include "networkd/dhcp/dhcp-operator.h"

namespace talos::networkd::dhcp {

class Operator4 final : public Operator {
 public:
  // `link` has an Ethernet address. `changed` is called when lease() or state() has changed.
  Operator4(Surroundings around, kj::StringPtr name, LinkState link, kj::StringPtr hostname,
            kj::Function<void()> changed);

  // The same link in another state: the index and the hardware address stay.
  void setRunning(bool running);
  void stop();
  // Its state in a word.
  kj::StringPtr word() const { return nameOf(machine.state()); }
  const Client4& client() const { return machine; }

 private:
  Client4 machine;
  Client4::State told = Client4::State::kDown;
  kj::Maybe<kj::Own<Listener>> packets, arp;
  kj::Maybe<kj::AutoCloseFd> unicast;  // kept open so that the kernel does not refuse the answer
  kj::Array<kj::byte> server;  // hardware address of who acknowledged the lease; empty: not known
  kj::Promise<void> running = nullptr;

  kj::Vector<Listener*> sockets() override;
  bool drain() override;
  kj::Maybe<kj::TimePoint> deadline() const override { return machine.deadline(); }
  void timeout() override;
  void hear(const Message4& message, Bytes sender);
  void perform(Client4::Actions actions);
  void perform(const Action& action);
  void openSockets();
  kj::Maybe<Lease4> load();
};

}  // namespace talos::networkd::dhcp
