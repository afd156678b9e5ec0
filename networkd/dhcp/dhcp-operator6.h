// IPv6 on one link: runs the DHCPv6 client, and reads router advertisements. Two kinds of
// operators:
//
//   kDhcp     requests an address from a DHCPv6 server (dhcp-client6.h); its lease is kept in
//             <directory>/dhcp6-<link>
//   kRouters  reads resolvers and search domains from router advertisements, and requests further
//             settings through DHCPv6 when a router says that there are some (the flag O)
//
// The kernel handles autoconfigured addresses, routes and the MTU of advertisements: it solicits
// routers, and drops them when their lifetime ends. The operator solicits too, because the answers
// to the kernel may have arrived before its socket was open.
//
// An operator whose lease is not wanted releases its address, which takes a moment (stop(),
// ended()). Its owner passes on the kernel's addresses by see(), so that the operator learns that
// its address was removed or that another machine has it.
//
// The operator sends nothing before the link has a link-local address that is no longer tentative.
// It checks every 100 ms for half a minute, then every second.
//
// `identifier` is the DUID of the client; if it is empty, the client makes one of its hardware
// address. A lease that another DUID got is not used.
#pragma once

#include "networkd/dhcp/dhcp-client6.h"
#include "networkd/dhcp/dhcp-operator.h"

namespace talos::networkd::dhcp {

class Operator6 final : public Operator {
 public:
  enum class Kind { kDhcp, kRouters };
  Operator6(Kind kind, Dependencies deps, kj::StringPtr name, LinkState link,
            kj::Function<void()> changed, kj::Array<kj::byte> identifier = nullptr);

  void setRunning(bool running) override;
  void stop() override;
  bool ended() const override;
  bool watches() const override;
  void see(kj::ArrayPtr<const netlink::Address> addresses) override;
  kj::StringPtr stateName() const override;
  int family() const override { return kind == Kind::kDhcp ? AF_INET6 : AF_UNSPEC; }
  kj::Maybe<const Lease&> lease() const override;
  kj::Maybe<const Advertised&> advertised() const override;
  // nullptr: no server has been asked.
  kj::Maybe<const Client6&> client() const;

 private:
  Kind kind;
  kj::Array<kj::byte> identifier;
  kj::Maybe<kj::Own<Client6>> machine;
  Advertised routers;
  kj::Maybe<kj::Own<Listener>> udp, icmp;
  kj::Maybe<kj::TimePoint> lookAt, solicitAt;
  unsigned looks = 0, solicitations = 0;
  kj::Promise<void> running = nullptr;

  kj::Vector<Listener*> sockets() override;
  void openSockets() override;
  bool drain() override;
  kj::Maybe<kj::TimePoint> deadline() const override;
  void timeout() override;
  bool usesServer() const;  // True if a DHCPv6 server is in use.
  void look();
  void solicit();
  void perform(Client6::Actions actions);
  void startClient(bool address);
};

}  // namespace talos::networkd::dhcp
