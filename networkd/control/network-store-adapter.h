// Connects networkd to the store: receives specs, publishes statuses. Thin; rules are in
// wanted-specs.h and network-status.h.
#pragma once

#include "common/wire/store-adapter.h"
#include "networkd/control/network-reconciler.h"
#include "networkd/control/rule-neighbour-reporter.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

// machined accepts 16 384 records of one type from networkd, and 7 MiB (machined/resources/
// resource-access.h). Beyond this limit it would refuse the records written after them, too.
constexpr size_t kMostStatuses = 12'000;
// Keeps the first `most`; returns the number of dropped specs.
size_t cutTo(StoreClient::Wanted& wanted, size_t most = kMostStatuses);

class StoreAdapter final : public NetworkStore {
 public:
  // The adapter calls `changed` for every change of a spec, but only after this constructor has
  // returned. `lost` returns true if networkd knows that the machine has lost an address of a
  // lease, before machined has updated the specs.
  using Lost = kj::Function<bool(kj::StringPtr link, const Prefix& address)>;
  StoreAdapter(StoreClient& store, kj::Function<void()> changed, Lost lost);
  ~StoreAdapter() noexcept(false);

  kj::Maybe<Intent> intent() override;
  kj::Promise<void> publish(Report report) override;

 private:
  StoreClient& store;
  bool hasRepairs = false;  // The previous networkd's repairs have arrived.
  bool hasProbes = false;   // Specs and statuses of probes have arrived.
  kj::Maybe<bool> probesSucceed;
  size_t loggedCut = 0;
  StoreInputs inputs;
  Lost lost;
  Watched<rpc::LinkSpecSpec> links;
  Watched<rpc::WireguardKeySpec> wireguardKeys;
  Watched<rpc::AddressSpecSpec> addresses;
  Watched<rpc::RouteSpecSpec> routes;
  Watched<rpc::RoutingRuleSpecSpec> rules;
  Watched<rpc::HostnameSpecSpec> hostnames;
  Watched<rpc::ResolverSpecSpec> resolvers;
  Watched<rpc::NodeAddressSpec> nodeAddresses;
  Watched<rpc::NetworkStatusSpec> networkStatuses;
  Watched<rpc::ProbeSpecSpec> probes;
  Watched<rpc::ProbeStatusSpec> probeStatuses;

  void compareProbes();
};

// Publishes the report of RuleNeighbourReporter.
kj::Promise<void> publish(StoreClient& store, RuleNeighbourReporter::Report report);

}  // namespace talos::networkd
