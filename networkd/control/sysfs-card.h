// Reads what predictable-names.h needs to know of a link from sysfs.
#pragma once

#include "common/netlink/netlink.h"
#include "networkd/plan/predictable-names.h"

namespace talos::networkd {

// `sys` is /sys. None: the link is not there any more, has no hardware, or its name was chosen: by
// the kernel, which calls it predictable then, or by a program.
kj::Maybe<CardFacts> readCard(kj::StringPtr sys, const netlink::Link& link);

}  // namespace talos::networkd
