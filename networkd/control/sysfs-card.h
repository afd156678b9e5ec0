// Reads the facts for predictable-names.h about a link from sysfs.
#pragma once

#include "common/netlink/netlink.h"
#include "networkd/plan/predictable-names.h"

namespace talos::networkd {

// `sys` is /sys. Returns nullptr if the link does not exist any more, has no hardware, or has a
// chosen name: from the kernel, which then calls it predictable, or from a program.
kj::Maybe<CardFacts> readCard(kj::StringPtr sys, const netlink::Link& link);

}  // namespace talos::networkd
