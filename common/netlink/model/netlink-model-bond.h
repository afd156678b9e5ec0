// The options of a bond of the model kernel: what the driver refuses, and which options it changes
// with another one. Pure.
#pragma once

#include "common/netlink/netlink.h"

namespace talos::netlink {

// Returns the options of a new bond, as the kernel shows them.
BondOptions standardBond();

// A bond of which an option is set.
struct ModelBond {
  Link& link;
  unsigned& preferred;          // the primary, also while it is not a member
  size_t members;               // their number
  const Link* named = nullptr;  // the member whose index is the value
};

// Returns an errno, with the kernel's explanation in `message`.
int setBondNumber(ModelBond bond, const BondRule& rule, uint32_t value, const BondOptions& request,
                  kj::String& message);

}  // namespace talos::netlink
