// The elections of shared addresses, as vipd stores them in etcd: each candidate has the key
// "<kAddressElections><address>/<lease in hex>", bound to its lease, with the name of its node as
// value. The node with the oldest key holds the address. vipd writes these keys
// (vipd/vip-candidate.h); etcd-supervisor only reads them. Pure.
#pragma once

#include <kj/vector.h>

#include "common/etcd/etcd.h"

namespace talos::etcd {

// The elections of Talos have the same keys.
constexpr kj::StringPtr kAddressElections = "talos:v1:vip:election:"_kj;
// Value of a key whose node has released the address. No node has this name.
constexpr kj::StringPtr kReleased = "talos:released"_kj;

// Returns the name of the node that holds each address, sorted by address, from all keys of the
// elections. A node that holds two addresses is in the list twice.
kj::Vector<kj::String> addressHolders(kj::ArrayPtr<const KeyValue> keys);

}  // namespace talos::etcd
