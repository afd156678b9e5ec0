// The store's part of host DNS: the wanted resolver from HostDNSConfigs and ResolverSpecs, and its
// status. Thin; holds no state that a crash could lose.
#pragma once

#include "common/wire/store-adapter.h"
#include "networkd/control/host-dns.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

// Reads a spec with the addresses of upstreams. A text that is no address is left out and a
// problem, and so is an upstream that is the resolver itself.
WantedHostDns wantedHostDns(const ResourceOf<rpc::HostDnsConfigSpec>& spec,
                            kj::ArrayPtr<const kj::String> upstreams);

class HostDnsStore {
 public:
  explicit HostDnsStore(StoreClient& store);
  KJ_DISALLOW_COPY_AND_MOVE(HostDnsStore);

  // Raised at each change of a spec, and when specs and status have arrived.
  Signal changed;

  // Returns inputs that are valid as long as this object.
  HostDnsInputs inputs();

 private:
  StoreClient& store;
  StoreInputs watches;
  bool known = false;  // The status of the previous networkd has arrived.
  Watched<rpc::HostDnsConfigSpec> configs;
  Watched<rpc::ResolverSpecSpec> resolvers;
  Watched<rpc::HostDnsStatusSpec> statuses;

  kj::Maybe<WantedHostDns> read();
};

}  // namespace talos::networkd
