// Finds values of machine.network that the plan of the network does not have, because another entry
// or document of the same link sets another value, and aliases that are hidden by a link with their
// name. Part of network-config-plan.h. Pure.
//
// The entries of a link add up, but a link has one MTU, for example. The config's checks cannot
// compare the entries: a deviceSelector, an alias or a VLAN may be another name of a link.
#pragma once

#include "machined/config/network/network-config-plan.h"

namespace talos::machined {

// Returns a problem for each hidden value or alias. `plan` is that of the config alone, with all
// its entries.
kj::Vector<kj::String> hiddenValues(config::Network::Reader network,
                                    kj::ArrayPtr<const KnownLink> known, const NetworkPlan& plan);

}  // namespace talos::machined
