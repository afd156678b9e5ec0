// network.HostDnsController: publishes HostDNSConfigs/config, the resolver of the node that
// networkd runs, from machine.features.hostDNS, the host entries of the config, the node's names
// and, if the config wants that, the members of the cluster. Without a config the resolver is off.
// While a restarted brain does not know the config, its predecessor's spec stays.
#pragma once

#include "common/net/ip.h"
#include "machined/resources/controller-runtime.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kHostDnsId = "config"_kj;

// The resolver of the node as the config wants it.
struct HostDns {
  bool enabled = false;
  kj::Vector<Ip> serviceAddresses;  // at which pods reach it; networkd gives them to lo
};
HostDns hostDnsOf(config::Config::Reader config);

}  // namespace talos::machined
