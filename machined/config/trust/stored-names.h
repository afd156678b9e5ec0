// The names and addresses of the machine, and of its cluster, in the store.
#pragma once

#include "common/tls/node-certificate.h"
#include "machined/resources/store.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {

// Returns all addresses that the node has had since its boot, without prefix lengths, so that an
// address that comes and goes needs no new certificate, and the external addresses that lead to the
// node. A controller that calls this has NodeAddresses and PlatformConfigs as inputs.
kj::Vector<kj::String> storedAddresses(Store& store);

// Returns the names for a certificate of this machine.
NodeNames storedNames(Store& store, kj::ArrayPtr<const kj::String> certSans);

bool isControlPlaneMember(rpc::MemberSpec::Reader member);

}  // namespace talos::machined
