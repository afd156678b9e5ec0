// Selects existing links by machine.network.interfaces[].deviceSelector. Pure.
//
// Only hardware links can be selected, and never loopback: a VLAN or a bond has the hardware
// address of the link below it, and what a config creates must not change what it selects. A member
// of a bond is known by its own hardware address, not by the one that the bond gave it.
#pragma once

#include <kj/string.h>

#include "rpc/config.capnp.h"

namespace talos::machined {

// A link as the kernel has it.
struct KnownLink {
  unsigned index = 0;
  kj::String name;
  bool loopback = false;
  bool hardware = false;  // an Ethernet card, or what passes for one; no virtual link
  bool made = false;      // by networkd
  kj::String hardwareAddress = nullptr, permanentAddress = nullptr;
  kj::String driver = nullptr, busPath = nullptr, pciId = nullptr;
};

// In texts `*` stands for any characters; empty: does not matter. Addresses and ids are compared
// without case.
bool matches(config::DeviceSelector::Reader selector, const KnownLink& link);
kj::String describe(config::DeviceSelector::Reader selector);  // "driver=virtio_net,physical"

// The name of the one link that it selects; else none, with `problem`.
kj::Maybe<kj::StringPtr> choose(config::DeviceSelector::Reader selector,
                                kj::ArrayPtr<const KnownLink> links, kj::String& problem);

}  // namespace talos::machined
