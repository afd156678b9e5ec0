// The kernel's network parameters, each parsed by itself: `ip=` as in the kernel's nfsroot
// document, `bond=` and `vlan=` as in dracut. Pure. Text that cannot be understood is named in
// `problems`, beginning with the parameter, and as little as possible is dropped because of it.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/kernel/kernel-arguments.h"
#include "common/net/ip.h"
#include "machined/config/network/network-links.h"

namespace talos::machined {

// `ip=client:server:gateway:netmask:hostname:device:autoconf:dns0:dns1:ntp0`.
struct IpParameter {
  Prefix address;
  kj::Maybe<Ip> gateway;
  kj::String hostname, device;  // may be empty
  kj::Vector<Ip> resolvers;
};
// Returns nullptr if the parameter has fewer than four fields (as in ip=dhcp), which means ordinary
// discovery; also nullptr, with a problem, if the fields make no sense.
kj::Maybe<IpParameter> parseIpParameter(kj::StringPtr text, kj::Vector<kj::String>& problems);

// `bond=name[:links[:options[:mtu]]]`: links and options are separated by commas; options are those
// of the driver's module (mode=802.3ad or mode=4), several values of one option are separated by
// semicolons. Without links eth0 and eth1; `bond` alone is bond0.
struct BondParameter {
  kj::String name;
  OwnStruct<config::Bond> bond;
  unsigned mtu = 0;  // 0: the default
};
kj::Maybe<BondParameter> parseBondParameter(kj::StringPtr text, kj::Vector<kj::String>& problems);

// `vlan=name:link`, where the name is link.5, link.0005, vlan5 or vlan0005.
struct VlanParameter {
  kj::String name, parent;
  uint16_t id = 0;
};
kj::Maybe<VlanParameter> parseVlanParameter(kj::StringPtr text, kj::Vector<kj::String>& problems);

// Returns true for `net.ifnames=1`; the last one counts.
bool predictableNames(const KernelArguments& arguments);

kj::Vector<kj::String> splitFields(kj::StringPtr text, char by);

}  // namespace talos::machined
