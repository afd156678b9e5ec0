// Previews the changes for other specs. Pure: applies them to a model of the kernel
// (netlink-model.h) that starts as the kernel is, because the links on top of a new link can only
// be planned when that exists. Where the model knows less than the kernel (hardware, other
// programs) the preview does not show it.
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
