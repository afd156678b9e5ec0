// Reads the specs of the store into the values that plan() takes. Pure: a spec that is not valid
// becomes a problem that names it, and does not stop the others.
#pragma once

#include "networkd/plan/network-plan.h"
#include "rpc/config.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

// `id` and `version` belong to the resource.
void addLink(Wanted& wanted, kj::StringPtr id, uint64_t version, rpc::LinkSpecSpec::Reader spec);
// Call after adding the links: adds the private key to its link.
void addWireguardKey(Wanted& wanted, kj::StringPtr id, rpc::WireguardKeySpec::Reader spec);
void addAddress(Wanted& wanted, kj::StringPtr id, uint64_t version,
                rpc::AddressSpecSpec::Reader spec);
void addRoute(Wanted& wanted, kj::StringPtr id, uint64_t version, rpc::RouteSpecSpec::Reader spec);
void addRule(Wanted& wanted, kj::StringPtr id, uint64_t version,
             rpc::RoutingRuleSpecSpec::Reader spec);

constexpr kj::StringPtr k8021q = "802.1q"_kj, k8021ad = "802.1ad"_kj;

// Returns the text of resolv.conf: the first three servers that are addresses, then the search
// domains.
kj::String resolverFile(kj::ArrayPtr<const kj::String> servers,
                        kj::ArrayPtr<const kj::String> search);

}  // namespace talos::networkd
