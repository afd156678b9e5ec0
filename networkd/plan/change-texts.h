// Changes of the kernel's network as text for people: links by their names. Pure.
#pragma once

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

// "add address 10.5.0.2/24 to link eth0", which netlink::describe() calls link 2. A link that
// `observed` does not have keeps its number.
kj::String describe(const netlink::Change& change, const Observed& observed);

// The name of the link that the change is about; empty when that is gone.
kj::String linkOf(const netlink::Change& change, const Observed& observed);

}  // namespace talos::networkd
