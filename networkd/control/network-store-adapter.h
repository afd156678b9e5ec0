// The store as networkd's board: specs in, statuses out. Thin; rules are in wanted-specs.h and
// network-status.h.
#pragma once

#include "common/wire/store-client.h"
#include "networkd/control/network-reconciler.h"
#include "networkd/control/rule-neighbour-reporter.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

// machined takes 16 384 records of one type from networkd, and 7 MiB (machined/resources/
// resource-access.h). Beyond that it would refuse what is told after them, too.
constexpr size_t kMostStatuses = 12'000;
// Leaves the first `most`; how many were cut off.
size_t cutTo(StoreClient::Wanted& wanted, size_t most = kMostStatuses);

class StoreBoard final : public Board {
 public:
  // `changed` is called for every change of a spec; not before this constructor has returned.
  // `lost`: this machine knows that an address of a lease is no longer its own, which the specs
  // will say as soon as machined has heard of it.
  using Lost = kj::Function<bool(kj::StringPtr link, const Prefix& address)>;
  StoreBoard(StoreClient& store, kj::Function<void()> changed, Lost lost);
  ~StoreBoard() noexcept(false);

  kj::Maybe<Intent> intent() override;
  kj::Promise<void> publish(Report report) override;

 private:
  StoreClient& store;
  bool heardOfRepairs = false;
  size_t toldCut = 0;
  kj::Function<void()> changed;
  Lost lost;
  Watched<rpc::LinkSpecSpec> links;
  Watched<rpc::WireguardKeySpec> wireguardKeys;
  Watched<rpc::AddressSpecSpec> addresses;
  Watched<rpc::RouteSpecSpec> routes;
  Watched<rpc::HostnameSpecSpec> hostnames;
  Watched<rpc::ResolverSpecSpec> resolvers;
  Watched<rpc::NodeAddressSpec> nodeAddresses;
  Watched<rpc::NetworkStatusSpec> networkStatuses;

  bool synced() const;
};

// What Bystanders tell.
kj::Promise<void> publish(StoreClient& store, Bystanders::Report report);

}  // namespace talos::networkd
