// What the network of this machine should be: from the kernel's command line and the machine
// config, pure.
//
// Layers, the later one wins: default, cmdline, operator (what DHCP gave), configuration. A link to
// which the configuration gives an address, or DHCP, keeps nothing of the command line's `ip=`;
// resolvers and time servers come from the highest layer that names one, the host name from the
// first of the configuration, the command line, DHCP (links in the order of their names) and the
// first address. A link of hardware that nothing else configures is asked for by DHCP, also before
// there is a config. Spec: network.md §3-§5, §7, §10, boot-and-services.md §1.2. What cannot be
// understood is left out and named in `problems`; the rest still counts, so a mistake costs a
// machine as little as possible.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/ip.h"
#include "common/kernel-arguments.h"
#include "machined/controllers/network-links.h"

namespace talos::machined {

constexpr kj::StringPtr kLayerDefault = "default"_kj;
constexpr kj::StringPtr kLayerCmdline = "cmdline"_kj;
constexpr kj::StringPtr kLayerOperator = "operator"_kj;
constexpr kj::StringPtr kLayerConfiguration = "configuration"_kj;
constexpr unsigned kStaticRouteMetric = 10, kOperatorRouteMetric = 1024;
constexpr kj::StringPtr kDhcp4 = "dhcp4"_kj, kDhcp6 = "dhcp6"_kj, kRouters = "ra"_kj;

// The kernel's parameter
// `ip=client:server:gateway:netmask:hostname:device:autoconf:dns0:dns1:ntp0`.
struct IpParameter {
  Prefix address;
  kj::Maybe<Ip> gateway;
  kj::String hostname, device;  // may be empty
  kj::Vector<Ip> resolvers;
};
// None when it has fewer than four fields (as in ip=dhcp), which asks for ordinary discovery; also
// none, with a problem, when it has them and they make no sense.
kj::Maybe<IpParameter> parseIpParameter(kj::StringPtr text, kj::Vector<kj::String>& problems);

// machine.network of the config, as far as it is carried out.
struct NetworkConfig {
  struct Route {
    kj::String network, gateway;
    unsigned metric = 0;  // 0: the default
  };
  struct Vlan {
    uint16_t id = 0;
    kj::Vector<kj::String> addresses;
    kj::Vector<Route> routes;
    bool dhcp4 = false;
  };
  struct Device {
    kj::String interface;
    kj::Vector<kj::String> addresses;  // CIDR
    kj::Vector<Route> routes;
    unsigned mtu = 0;
    bool ignore = false;
    bool dhcp4 = false, dhcp6 = false;
    unsigned dhcpMetric = 0;  // 0: the default
    bool dummy = false;
    kj::Vector<Vlan> vlans;
    std::shared_ptr<const BondConfig> bond;
    std::shared_ptr<const WireguardConfig> wireguard;
  };
  kj::String hostname;
  kj::Vector<kj::String> nameservers, timeServers;
  kj::Vector<Device> devices;
};

// A link as the kernel has it.
struct KnownLink {
  unsigned index;
  kj::String name;
  bool loopback;
  bool hardware = false;  // an Ethernet card, or what passes for one; no virtual link
};

// What an operator was given (OperatorStatuses).
struct Lease {
  struct Route {
    Prefix destination;
    kj::Maybe<Ip> gateway;
  };
  kj::String kind, link;
  kj::Vector<Prefix> addresses;
  kj::Vector<Route> routes;
  unsigned mtu = 0;
  kj::Vector<Ip> resolvers;
  kj::Vector<kj::String> search, timeServers;
  kj::String hostname, domain;
};

struct NetworkPlan {
  struct Link {
    kj::String name;
    unsigned mtu;
    kj::StringPtr layer;
    LinkMaking making = {};
  };
  struct Address {
    kj::String link;
    Prefix prefix;
    kj::StringPtr layer;
  };
  struct Route {
    kj::String link;
    Prefix destination;
    kj::Maybe<Ip> gateway;
    unsigned metric;
    kj::StringPtr layer;
  };
  struct Operator {
    kj::StringPtr kind;
    kj::String link;
    unsigned metric;
    kj::StringPtr layer;
  };
  kj::Vector<Link> links;
  kj::Vector<Operator> operators;
  kj::Vector<Address> addresses;
  kj::Vector<Route> routes;
  kj::String hostname, domain;  // empty: not known yet
  kj::StringPtr hostnameLayer;
  kj::Vector<Ip> resolvers;
  kj::StringPtr resolversLayer;
  kj::Vector<kj::String> search;  // domains
  kj::Vector<kj::String> timeServers;
  kj::StringPtr timeServersLayer;
  kj::Vector<kj::String> problems;
};

// `config` is none before there is a machine config. `known` is empty before networkd has told of
// the links. Leases of operators that are not wanted (any more) do not count.
NetworkPlan planNetwork(const KernelArguments& arguments, kj::Maybe<const NetworkConfig&> config,
                        kj::ArrayPtr<const KnownLink> known,
                        kj::ArrayPtr<const Lease> leases = nullptr);

// What is wrong with a host name; none when nothing is.
kj::Maybe<kj::String> hostnameProblem(kj::StringPtr name);

}  // namespace talos::machined
