// Manages the operators of this machine: one DHCP client for each OperatorSpec of the store, whose
// leases it reports as OperatorStatuses.
//
// An operator runs as long as its spec and its link exist, and is replaced when the link is another
// one (index or hardware address). It does not touch the kernel's addresses: machined makes specs
// of the reported leases, and the planner carries them out, so a networkd that is killed changes
// nothing (the statuses stay in the store, leases in their files). Only the end of a lease does not
// wait for machined: lost() reports it. `changed` is called whenever it may. Before the specs have
// arrived for the first time nothing is started, and nothing is reported.
//
// A lease whose spec is removed while its link exists is given back to its server (RELEASE); one of
// a process that exits is not. DHCPv6 does that in an exchange, for which its operator stays a
// while. The kernel's state of leased IPv6 addresses (another machine has it) reaches the operators
// from here.
#pragma once

#include <kj/map.h>

#include "common/base/signal.h"
#include "common/netlink/netlink.h"
#include "common/wire/store-adapter.h"
#include "networkd/dhcp/dhcp-operator4.h"
#include "networkd/dhcp/dhcp-operator6.h"
#include "networkd/plan/network-plan.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

class OperatorManager {
 public:
  // `monitor` is this object's own.
  OperatorManager(kj::UnixEventPort& port, kj::Timer& timer, StoreClient& store,
                  netlink::Kernel& kernel, netlink::Monitor& monitor, kj::StringPtr directory,
                  bool asksForMtu, kj::Function<uint64_t()> random, kj::Function<void()> changed);
  ~OperatorManager() noexcept(false);

  kj::Promise<void> run();
  // True if the operators that ask for addresses on this link do not hold this one (any more).
  // False where no operator runs: then nothing is known here.
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
  dhcp::Dependencies deps;
  Signal adjust, statusChanged;
  Watched<rpc::OperatorSpecSpec> specs;
  kj::TreeMap<kj::String, kj::Own<Running>> running;         // by the spec's id
  kj::TreeMap<kj::String, kj::Own<dhcp::Operator>> leaving;  // the same; giving their leases back

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
