// The addresses of the node's links as networkd reports them (AddressStatuses), with or without a
// carrier. etcd and the kubelet keep these addresses while a cable is unplugged. Also the addresses
// that are not the node's own, because they belong to its pods or to a tunnel.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/resources/store.h"

namespace talos::machined {

struct AssignedAddresses {
  kj::Vector<kj::String> all;      // without shared addresses
  kj::Vector<kj::String> pods;     // of links of pods
  kj::Vector<kj::String> tunnels;  // of WireGuard
};
// Reads AddressStatuses, LinkStatuses and VipSpecs.
AssignedAddresses assignedAddresses(Store& store);

// Returns the addresses that the node has now, the default one first, without prefix lengths. Reads
// NodeAddresses.
kj::Vector<kj::String> currentAddresses(Store& store);

// Returns "10.5.0.2" for "10.5.0.2/24".
kj::String withoutLength(kj::StringPtr address);

}  // namespace talos::machined
