// What the network of this node should be, from the kernel command line and the machine config.
// Pure.
//
// Layers, of which the later one wins:
//   default        what holds when nobody says anything
//   cmdline        the kernel command line
//   operator       what DHCP gave
//   configuration  the machine config
//
// * A link that gets an address or DHCP from the config ignores `ip=` of the command line.
// * Resolvers and time servers come from the highest layer that names any.
// * The host name is the first of: config, command line, DHCP (links in the order of their names),
//   and a name made of the first address.
// * DHCP runs on each hardware link that nothing else configures, even before there is a config,
//   and on each bond or VLAN of the command line that has no address. A bond or VLAN that both the
//   command line and the config name is as the config says.
// * A deviceSelector is resolved with the links that exist. While none or several match, its entry
//   is in `unresolved`; one with "ignore" holds for all links that match.
//
// Spec: network.md §3-§5, §7, §10, boot-and-services.md §1.2. What is not valid is left out and
// named in `problems`; the rest still counts, so that a mistake costs a node as little as possible.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/base/kernel-arguments.h"
#include "common/config/config.h"
#include "common/net/ip.h"
#include "machined/config/network/network-cmdline.h"
#include "machined/config/network/network-links.h"
#include "machined/config/network/network-selector.h"

namespace talos::machined {

constexpr kj::StringPtr kLayerDefault = "default"_kj;
constexpr kj::StringPtr kLayerCmdline = "cmdline"_kj;
constexpr kj::StringPtr kLayerOperator = "operator"_kj;
constexpr kj::StringPtr kLayerConfiguration = "configuration"_kj;
constexpr unsigned kStaticRouteMetric = 10, kOperatorRouteMetric = 1024;
constexpr kj::StringPtr kDhcp4 = "dhcp4"_kj, kDhcp6 = "dhcp6"_kj, kRouters = "ra"_kj;

// machine.network of the config, as far as it is carried out.
struct NetworkConfig {
  struct Route {
    kj::String network, gateway;
    unsigned metric = 0;  // 0: the default
    kj::String source = nullptr;
    unsigned mtu = 0;  // 0: that of the link
    bool onlink = false;
    config::RouteType type = config::RouteType::UNICAST;
  };
  struct Vip {
    kj::String address;
    kj::Duration lease = config::kDefaultVipLease;
  };
  struct Vlan {
    uint16_t id = 0;
    kj::Vector<kj::String> addresses;
    kj::Vector<Route> routes;
    unsigned mtu = 0;
    bool dhcp4 = false, dhcp6 = false;
    unsigned dhcpMetric = 0;  // 0: the default
    kj::Maybe<Vip> vip;
  };
  struct Device {
    kj::String interface;
    kj::Maybe<DeviceSelector> selector;  // instead of the name
    kj::Vector<kj::String> addresses;    // CIDR
    kj::Vector<Route> routes;
    unsigned mtu = 0;
    bool ignore = false;
    bool dhcp4 = false, dhcp6 = false;
    unsigned dhcpMetric = 0;  // 0: the default
    bool dummy = false;
    kj::Maybe<Vip> vip;
    kj::Vector<Vlan> vlans;
    std::shared_ptr<const BondConfig> bond;
    std::shared_ptr<const BridgeConfig> bridge;
    std::shared_ptr<const WireguardConfig> wireguard;
  };
  kj::String hostname;
  kj::Vector<kj::String> nameservers, timeServers;
  kj::Vector<Device> devices;
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
    unsigned order;  // among those of its link
  };
  struct Route {
    kj::String link;  // empty for one that goes nowhere
    Prefix destination;
    kj::Maybe<Ip> gateway;
    unsigned metric;
    kj::StringPtr layer;
    kj::Maybe<Ip> source = nullptr;
    unsigned mtu = 0;
    bool onlink = false;
    config::RouteType type = config::RouteType::UNICAST;
    bool operator==(const Route&) const = default;
  };
  // An entry of the config that means no link as things are.
  struct Unresolved {
    kj::String selector, problem;
  };
  struct Operator {
    kj::StringPtr kind;
    kj::String link;
    unsigned metric;
    kj::StringPtr layer;
  };
  // An address that the control-plane nodes share, on the link of this one.
  struct Vip {
    kj::String link;
    Ip address;
    kj::Duration lease;
  };
  kj::Vector<Link> links;
  kj::Vector<Vip> vips;
  kj::Vector<Unresolved> unresolved;
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

// Host name, resolvers, search domains and time servers of `plan`; for planNetwork(). `leases`:
// those that count, in the order of their links.
void chooseNames(const KernelArguments& arguments, kj::Maybe<const NetworkConfig&> config,
                 const kj::Maybe<IpParameter>& ip, kj::ArrayPtr<const Lease* const> leases,
                 NetworkPlan& plan);

// What is wrong with a host name; none when nothing is.
kj::Maybe<kj::String> hostnameProblem(kj::StringPtr name);

}  // namespace talos::machined
