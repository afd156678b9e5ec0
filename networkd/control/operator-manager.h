// Manages the operators of this machine: one DHCP client for each OperatorSpec of the store, whose
// leases it reports as OperatorStatuses.
//
// An operator runs as long as its spec and its link exist; if the link is replaced (another index
// or hardware address), so is the operator. It does not touch the kernel's addresses: machined
// makes specs of the reported leases, and the planner applies them, so a killed networkd changes
// nothing (the statuses stay in the store, leases in their files). Only the end of a lease does not
// wait for machined: lost() reports it. The manager calls `changed` when the result of lost() may
// have changed. Before the first specs have arrived, it starts no operator and reports nothing.
//
// A lease whose spec is removed while its link exists is released (RELEASE); when the process
// exits, leases are kept. DHCPv6 releases in an exchange, so its operator stays for a while. The
// manager passes the kernel's state of leased IPv6 addresses (another machine has the address) to
// the operators.
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
  // `monitor` must not be shared.
  OperatorManager(kj::UnixEventPort& port, kj::Timer& timer, StoreClient& store,
                  netlink::Kernel& kernel, netlink::Monitor& monitor, kj::StringPtr directory,
                  bool asksForMtu, kj::Function<uint64_t()> random, kj::Function<void()> changed);
  ~OperatorManager() noexcept(false);

  kj::Promise<void> run();
  // Returns true if none of the operators that request addresses on this link holds this address
  // (any more). Returns false if no such operator runs, because then nothing is known.
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
  kj::TreeMap<kj::String, kj::Own<dhcp::Operator>> leaving;  // by the spec's id; releasing their
                                                             // leases

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
