// Previews the changes for other specs. Pure: applies them to a model of the kernel
// (netlink-model.h) that starts with the kernel's state, because links on top of a new link can be
// planned only once it exists. The preview does not show effects that only the kernel knows
// (hardware, other programs).
#pragma once

#include "networkd/plan/network-plan.h"
#include "rpc/resources.capnp.h"

namespace talos::networkd {

struct Preview {
  kj::Vector<kj::String> steps;  // in order, in words (describe() of network-plan.h)
  kj::Vector<kj::String> problems;
};
Preview preview(const Wanted& wanted, const Observed& observed);

// Reads the resources that specify links, addresses and routes; ignores other types.
Wanted wantedOf(capnp::List<rpc::Resource>::Reader specs);

}  // namespace talos::networkd
