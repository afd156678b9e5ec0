// DHCPv4 on one link: runs the client (dhcp-client4.h) with sockets, a timer and the lease's file,
// <directory>/dhcp4-<link>.
//
// The file is kept when the operator is dropped (the process exits) and removed by stop() (the
// lease is not wanted), which sends a RELEASE to the server. The RELEASE is a raw packet, because
// the kernel may have lost the address and the routes by then. It goes to the machine that sent the
// acknowledgement, or to all machines if an earlier process received the acknowledgement.
#pragma once

#include "networkd/dhcp/dhcp-client4.h"
#include "networkd/dhcp/dhcp-operator.h"

namespace talos::networkd::dhcp {

class Operator4 final : public Operator {
 public:
  // `link` has an Ethernet address. The operator calls `changed` when lease() or state() has
  // changed.
  Operator4(Dependencies deps, kj::StringPtr name, LinkState link, kj::StringPtr hostname,
            kj::Function<void()> changed);

  void setRunning(bool running) override;
  void stop() override;
  kj::StringPtr stateName() const override { return nameOf(machine.state()); }
  int family() const override { return AF_INET; }
  kj::Maybe<const Lease&> lease() const override;
  const Client4& client() const { return machine; }

 private:
  Client4 machine;
  kj::Maybe<kj::Own<Listener>> packets, arp;
  kj::Maybe<kj::AutoCloseFd> unicast;  // open so that the kernel does not refuse the answer
  kj::Array<kj::byte> serverHardware;  // sender of the acknowledgement; empty: unknown
  kj::Promise<void> running = nullptr;

  kj::Vector<Listener*> sockets() override;
  void openSockets() override;
  bool drain() override;
  kj::Maybe<kj::TimePoint> deadline() const override { return machine.deadline(); }
  void timeout() override;
  void handle(const Message4& message, Bytes sender);
  void perform(Client4::Actions actions);
  void send(const Broadcast& broadcast);
  void send(const Unicast& message);
  void send(const Release& release);
  void send(const SendArp& packet);
  kj::Maybe<Lease4> load();
};

}  // namespace talos::networkd::dhcp
