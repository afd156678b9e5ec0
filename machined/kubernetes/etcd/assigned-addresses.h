// The addresses of the node's links as networkd reports them (AddressStatuses), with or without a
// carrier: what etcd and the kubelet keep while a cable is out, and what is not the node's own
// because it belongs to its pods or to a tunnel.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/resources/store.h"

namespace talos::machined {

struct AssignedAddresses {
  kj::Vector<kj::String> all;      // without shared addresses
  kj::Vector<kj::String> pods;     // of their links
  kj::Vector<kj::String> tunnels;  // of WireGuard
};
// Reads AddressStatuses, LinkStatuses and VipSpecs.
AssignedAddresses assignedAddresses(Store& store);

// "10.5.0.2/24" -> "10.5.0.2".
kj::String withoutLength(kj::StringPtr address);

}  // namespace talos::machined
