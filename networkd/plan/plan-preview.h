// Previews the changes for other specs: the steps of one plan after the other, each made for the
// network as the steps before leave it (planned-network.h), because links on top of a new link can
// be planned only once it exists. Pure. The preview does not show effects that only the kernel
// knows (hardware, other programs).
#pragma once

#include "networkd/plan/network-plan.h"
#include "rpc/resources.capnp.h"

namespace talos::networkd {

struct Preview {
  kj::Vector<kj::String> steps;  // in order, in words (describe() of network-plan.h)
  kj::Vector<kj::String> problems;
};
Preview preview(const Wanted& wanted, const Observed& observed);

// Reads the resources that specify links, addresses, routes and rules; ignores other types.
Wanted wantedOf(capnp::List<rpc::Resource>::Reader specs);

}  // namespace talos::networkd
