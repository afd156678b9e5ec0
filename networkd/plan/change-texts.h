// Describes changes of the kernel's network for readers: links by their names. Pure.
#pragma once

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

// Returns, for example, "add address 10.5.0.2/24 to link eth0", where netlink::describe() says link
// 2. A link that `observed` lacks keeps its number.
kj::String describe(const netlink::Change& change, const Observed& observed);

// Returns the name of the changed link; empty if the link is gone.
kj::String linkOf(const netlink::Change& change, const Observed& observed);

}  // namespace talos::networkd
