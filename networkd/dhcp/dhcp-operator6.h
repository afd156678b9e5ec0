// What a link's network tells by IPv6. Two kinds of operators:
//   kDhcp     asks a DHCPv6 server for an address (dhcp-client6.h); its lease is kept in
//             <directory>/dhcp6-<link>
//   kRouters  hears router advertisements for resolvers and search domains, and asks DHCPv6 for
//             what else there is when a router says that it knows (the flag O)
// Addresses by autoconfiguration, routes and the MTU of advertisements are the kernel's work: it
// solicits routers, and takes them down when their time is over. We solicit as well, because what
// the kernel asked for may have come before we listened.
//
// An operator that is no longer wanted gives its address back, which takes a moment (stop(),
// ended()). What the kernel says of the address, that it is gone or that another machine has it, is
// for the owner to tell, by see().
//
// Nothing is sent before the link has a link-local address that is no longer tentative: looked for
// every 100 ms for half a minute, then every second.
#pragma once

#include "common/netlink/netlink.h"
#include "networkd/dhcp/dhcp-client6.h"
#include "networkd/dhcp/dhcp-operator.h"
#include "networkd/dhcp/router-advertised.h"

namespace talos::networkd::dhcp {

class Operator6 final : public Operator {
 public:
  enum class Kind { kDhcp, kRouters };
  Operator6(Kind kind, Surroundings around, kj::StringPtr name, LinkState link,
            kj::Function<void()> changed);

  void setRunning(bool running);
  // Its lease is no longer wanted: over when it has ended().
  void stop();
  bool ended() const;
  // Whether the kernel's addresses are of interest, and what they are now.
  bool watches() const;
  void see(kj::ArrayPtr<const netlink::Address> addresses);
  // Its state in a word.
  kj::StringPtr word() const;
  // None: nobody has been asked.
  kj::Maybe<const Client6&> client() const;
  const Advertised& advertised() const { return routers; }

 private:
  Kind kind;
  kj::Maybe<kj::Own<Client6>> machine;
  Client6::State told = Client6::State::kDown;
  Advertised routers;
  kj::Maybe<kj::Own<Listener>> udp, icmp;
  kj::Maybe<kj::TimePoint> lookAt, solicitAt;
  unsigned looks = 0, solicitations = 0;
  kj::Promise<void> running = nullptr;

  kj::Vector<Listener*> sockets() override;
  bool drain() override;
  kj::Maybe<kj::TimePoint> deadline() const override;
  void timeout() override;
  bool asks() const;  // a server
  void look();
  void solicit();
  void listen();
  void perform(Client6::Actions actions);
  void perform(const Client6::Action& action);
  void startClient(bool address);
};

}  // namespace talos::networkd::dhcp
