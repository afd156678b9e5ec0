// The specs of the store as what plan() wants. Pure: a spec that cannot be read becomes a problem
// that names it, and does not stop the others.
#pragma once

#include "networkd/plan.h"
#include "rpc/types.capnp.h"

namespace talos::networkd {

// `id` and `version` are those of the resource.
void addLink(Wanted& wanted, kj::StringPtr id, uint64_t version, rpc::LinkSpecSpec::Reader spec);
void addAddress(Wanted& wanted, kj::StringPtr id, uint64_t version,
                rpc::AddressSpecSpec::Reader spec);
void addRoute(Wanted& wanted, kj::StringPtr id, uint64_t version, rpc::RouteSpecSpec::Reader spec);

// The text of resolv.conf: the first three servers that are addresses, then the search domain.
kj::String resolverFile(kj::ArrayPtr<const kj::String> servers, kj::StringPtr domain);

}  // namespace talos::networkd
