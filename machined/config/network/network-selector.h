// Selects existing links by machine.network.interfaces[].deviceSelector. Pure.
//
// Only hardware links can be selected, and never loopback: a VLAN or a bond has the hardware
// address of the link below, and a link that a config creates must not change what the config
// selects. A member of a bond is selected by the member's permanent hardware address, not by the
// address that the bond gave it.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::machined {

// A link as the kernel describes it.
struct KnownLink {
  unsigned index = 0;
  kj::String name;
  bool loopback = false;
  bool hardware = false;  // an Ethernet card, or a device that looks like one; no virtual link
  bool made = false;      // created by networkd
  kj::String hardwareAddress = nullptr, permanentAddress = nullptr;
  kj::String driver = nullptr, busPath = nullptr, pciId = nullptr;
};

// Returns true if all fields of the selector match. In texts `*` stands for any characters; an
// empty field matches everything. Addresses and IDs are compared without case.
bool matches(config::DeviceSelector::Reader selector, const KnownLink& link);
kj::String describe(config::DeviceSelector::Reader selector);  // returns
                                                               // "driver=virtio_net,physical"

// Returns the name of the only link that the selector matches; else nullptr, with `problem`.
kj::Maybe<kj::StringPtr> choose(config::DeviceSelector::Reader selector,
                                kj::ArrayPtr<const KnownLink> links, kj::String& problem);

// Returns the names of the links that the alias selects.
kj::Vector<kj::StringPtr> selectedBy(config::LinkAlias::Reader alias,
                                     kj::ArrayPtr<const KnownLink> links);

// Returns the link with this name, or else the only hardware link that an alias of this name
// selects, or else the name. If the alias selects no link or several: nullptr, with `problem`;
// without it while no links are known.
kj::Maybe<kj::String> linkCalled(kj::StringPtr name, capnp::List<config::LinkAlias>::Reader aliases,
                                 kj::ArrayPtr<const KnownLink> links, kj::String& problem);

// Returns the name on this machine of a card that is called eth0, eth1 … in the order in which the
// kernel found them; the name itself for other names. A platform that states no hardware address
// numbers cards in this way, also where names are predictable.
kj::String cardOfKernel(kj::String name, kj::ArrayPtr<const KnownLink> links);

}  // namespace talos::machined
