// machine.network.interfaces[].deviceSelector: which of the existing links it selects. Pure.
//
// Only hardware links can be selected, and never loopback: a VLAN or a bond has the hardware
// address of the link below it, and what a config creates must not change what it selects. A member
// of a bond is known by its own hardware address, not by the one that the bond gave it.
#pragma once

#include <kj/string.h>

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

// In texts `*` stands for any characters; empty: does not matter. Letters of addresses and ids may
// be large or small.
struct DeviceSelector {
  kj::String busPath, hardwareAddress, permanentAddress, pciId, driver;
  bool physical = false;

  bool matches(const KnownLink& link) const;
  // "driver=virtio_net,physical"
  kj::String describe() const;
};

// The name of the one link that it chooses; `problem` says why there is none.
kj::Maybe<kj::StringPtr> choose(const DeviceSelector& selector, kj::ArrayPtr<const KnownLink> links,
                                kj::String& problem);

}  // namespace talos::machined
