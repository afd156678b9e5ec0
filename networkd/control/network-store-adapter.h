// The store as networkd sees it: specs in, statuses out. Thin; rules are in wanted-specs.h and
// network-status.h.
#pragma once

#include "common/wire/store-adapter.h"
#include "networkd/control/metadata-block.h"
#include "networkd/control/network-reconciler.h"
#include "networkd/control/rule-neighbour-reporter.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

// machined accepts 16 384 records of one type from networkd, and 7 MiB (machined/resources/
// resource-access.h). Beyond that it would refuse the records written after them, too.
constexpr size_t kMostStatuses = 12'000;
// Keeps the first `most`; returns the number of those that were cut off.
size_t cutTo(StoreClient::Wanted& wanted, size_t most = kMostStatuses);

class StoreAdapter final : public NetworkStore {
 public:
  // `changed` is called for every change of a spec; not before this constructor has returned.
  // `lost`: this machine knows that an address of a lease is no longer its own, which the specs
  // will say as soon as machined knows.
  using Lost = kj::Function<bool(kj::StringPtr link, const Prefix& address)>;
  StoreAdapter(StoreClient& store, kj::Function<void()> changed, Lost lost);
  ~StoreAdapter() noexcept(false);

  kj::Maybe<Intent> intent() override;
  kj::Promise<void> publish(Report report) override;

 private:
  StoreClient& store;
  bool hasRepairs = false;  // those of the networkd before
  size_t loggedCut = 0;
  StoreInputs inputs;
  Lost lost;
  Watched<rpc::LinkSpecSpec> links;
  Watched<rpc::WireguardKeySpec> wireguardKeys;
  Watched<rpc::AddressSpecSpec> addresses;
  Watched<rpc::RouteSpecSpec> routes;
  Watched<rpc::HostnameSpecSpec> hostnames;
  Watched<rpc::ResolverSpecSpec> resolvers;
  Watched<rpc::NodeAddressSpec> nodeAddresses;
  Watched<rpc::NetworkStatusSpec> networkStatuses;
};

// Publishes the report of RuleNeighbourReporter.
kj::Promise<void> publish(StoreClient& store, RuleNeighbourReporter::Report report);

// The inputs of MetadataBlock. `changed` is called for every change of a spec; not before this
// constructor has returned.
class MetadataBlockInputs {
 public:
  MetadataBlockInputs(StoreClient& store, kj::Function<void()> changed);
  kj::Maybe<MetadataBlock::State> state();

 private:
  StoreInputs inputs;
  bool known = false;  // what the networkd before has reported
  Watched<rpc::MetadataBlockSpecSpec> specs;
  Watched<rpc::MetadataBlockStatusSpec> statuses;
};

}  // namespace talos::networkd
