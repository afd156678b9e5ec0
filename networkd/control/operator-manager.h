// The operators of this machine: one DHCP client for each OperatorSpec of the store, and what they
// were given, as OperatorStatuses.
//
// An operator runs as long as its spec and its link are there, and begins anew when the link is
// another one (index or hardware address). It does not touch the kernel's addresses: machined makes
// specs of what is told here, and the planner carries them out, so a networkd that is killed
// changes nothing (the statuses stay in the store, leases in their files). Only the end of a lease
// does not wait for machined: lost() says so. `changed` is called whenever it may. Before the specs
// have arrived for the first time nothing is started, and nothing is told.
//
// A lease whose spec is taken away while its link is there is given back to its server (RELEASE);
// one of a process that ends is not. DHCPv6 does that in an exchange, for which its operator stays
// a while. What the kernel says of leased IPv6 addresses (another machine has it) reaches the
// operators from here.
#pragma once

#include <kj/map.h>

#include "common/base/signal.h"
#include "common/netlink/netlink.h"
#include "common/wire/store-client.h"
#include "networkd/dhcp/dhcp-operator4.h"
#include "networkd/dhcp/dhcp-operator6.h"
#include "networkd/plan/network-plan.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

class Operators {
 public:
  // `monitor` is this object's own.
  Operators(kj::UnixEventPort& port, kj::Timer& timer, StoreClient& store, netlink::Kernel& kernel,
            netlink::Monitor& monitor, kj::StringPtr directory, kj::Function<uint64_t()> random,
            kj::Function<void()> changed);
  ~Operators() noexcept(false);

  kj::Promise<void> run();
  // Whether what asks for addresses on this link has none that is this one (any more). Not where
  // nothing runs: then nobody here knows.
  bool lost(kj::StringPtr link, const Prefix& address) const;

 private:
  struct Running;
  kj::Timer& timer;
  StoreClient& store;
  netlink::Kernel& kernel;
  netlink::Monitor& monitor;
  kj::String directory;
  kj::Function<uint64_t()> random;
  kj::Function<void()> changed;
  dhcp::Surroundings around;
  Signal adjust, tell;
  Watched<rpc::OperatorSpecSpec> specs;
  kj::TreeMap<kj::String, kj::Own<Running>> running;          // by the spec's id
  kj::TreeMap<kj::String, kj::Own<dhcp::Operator6>> leaving;  // the same; giving their leases back

  kj::Promise<void> adjustLoop();
  kj::Promise<void> linkLoop();
  kj::Promise<void> publishLoop();
  void adjustAll();
  void end(kj::StringPtr id);
  void seeAddresses();
  void adjustOne(kj::StringPtr id, rpc::OperatorSpecSpec::Reader spec);
  StoreClient::Wanted statuses();
};

}  // namespace talos::networkd
