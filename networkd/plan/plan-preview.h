// What would be done if other specs were wanted. Pure: tried on a model of the kernel
// (netlink-model.h) that begins as the kernel is, because what stands on a link that is yet to be
// made can only be planned when that is there. Where the model knows less than the kernel
// (hardware, what other programs do) the plan is what it would be without that.
#pragma once

#include "networkd/plan/network-plan.h"
#include "rpc/resources.capnp.h"

namespace talos::networkd {

struct Preview {
  kj::Vector<kj::String> steps;  // in order, in words (change-texts.h)
  kj::Vector<kj::String> problems;
};
Preview preview(const Wanted& wanted, const Observed& observed);

// Of resources of the types that say what links, addresses and routes there shall be; others do not
// count.
Wanted wantedOf(capnp::List<rpc::Resource>::Reader specs);

}  // namespace talos::networkd
