// Plans the network of this node from the kernel command line, the machine config and DHCP. Pure.
//
// A later layer overrides the earlier ones:
//   default        the built-in settings
//   cmdline        the kernel command line
//   platform       the metadata service of the cloud (machined/platforms)
//   operator       DHCP and router advertisements
//   configuration  the machine config
//
// * A link that gets an address or DHCP from the config ignores `ip=` of the command line.
// * Resolvers and time servers come from the highest layer that names any.
// * The host name is the first of: config, platform, command line, DHCP (links in the order of
//   their names), and a name made of the first address.
// * A link that the config names takes nothing from the platform. A link for which the platform
//   states neither addresses nor DHCP keeps DHCP.
// * DHCP runs on each hardware link that no other layer configures, even before there is a config,
//   unless the config describes links in documents (common/config/documents/documents.h), and on
//   each bond or VLAN of the command line that has no address. If both the command line and the
//   config name a bond or VLAN, the config counts.
// * A deviceSelector is resolved with the existing links. While it matches no link or several, its
//   entry is in `unresolved`; a selector with "ignore" applies to all links that match. The alias
//   of a LinkAliasConfig is resolved in the same way, wherever the name of a link can stand.
//
// An invalid value is left out and named in `problems`; the other values still count, so that a
// mistake has as little effect as possible.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/config/config.h"
#include "common/kernel/kernel-arguments.h"
#include "common/net/ip.h"
#include "machined/config/network/network-cmdline.h"
#include "machined/config/network/network-links.h"
#include "machined/config/network/network-selector.h"

namespace talos::machined {

constexpr kj::StringPtr kLayerDefault = "default"_kj;
constexpr kj::StringPtr kLayerCmdline = "cmdline"_kj;
constexpr kj::StringPtr kLayerPlatform = "platform"_kj;
constexpr kj::StringPtr kLayerOperator = "operator"_kj;
constexpr kj::StringPtr kLayerConfiguration = "configuration"_kj;
constexpr unsigned kStaticRouteMetric = 10, kOperatorRouteMetric = 1024;
constexpr kj::StringPtr kDhcp4 = "dhcp4"_kj, kDhcp6 = "dhcp6"_kj, kRouters = "ra"_kj;

// The lease of an operator (OperatorStatuses).
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

// The network that the platform states (PlatformConfigs), in the shape of machine.network.
struct PlatformNetwork {
  config::Network::Reader network;
  kj::Vector<kj::String> timeServers;
};

struct NetworkPlan {
  using Link = PlannedLink;
  struct Address {
    kj::String link;
    Prefix prefix;
    kj::StringPtr layer;
    unsigned order;  // position among the leases of its link
  };
  struct Route {
    kj::String link;  // empty for blackhole, unreachable and prohibit
    Prefix destination;
    kj::Maybe<Ip> gateway;
    unsigned metric;
    kj::StringPtr layer;
    kj::Maybe<Ip> source = nullptr;
    unsigned mtu = 0;
    bool onlink = false;
    config::RouteType type = config::RouteType::UNICAST;
    uint32_t table = 0;  // 0: main
    bool operator==(const Route&) const = default;
  };
  // An entry of the config whose selector matches no link, or several.
  struct Unresolved {
    kj::String selector, problem;
  };
  struct Operator {
    kj::StringPtr kind;
    kj::String link;
    unsigned metric;
    kj::StringPtr layer;
    bool ignoreHostname = false;         // the host name of its lease does not count
    kj::Array<kj::byte> duid = nullptr;  // for servers of DHCPv6; empty: that of the link
  };
  // An address that the control-plane nodes share, on the link of this node.
  struct Vip {
    kj::String link;
    Ip address;
    kj::Duration lease;
    kj::String hcloudToken;  // of Hetzner's API; empty: only the link's network knows the address
  };
  kj::Vector<Link> links;
  kj::Vector<Vip> vips;
  kj::Vector<Unresolved> unresolved;
  kj::Vector<Operator> operators;
  kj::Vector<Address> addresses;
  kj::Vector<Route> routes;
  kj::Vector<OwnStruct<rpc::RoutingRuleSpecSpec>> rules;
  kj::String hostname, domain;  // empty while not known
  kj::StringPtr hostnameLayer;
  kj::Vector<Ip> resolvers;
  kj::StringPtr resolversLayer;
  kj::Vector<kj::String> search;  // search domains
  kj::Vector<kj::String> timeServers;
  kj::StringPtr timeServersLayer;
  kj::Vector<kj::String> problems;
  // Addresses of lo, at which pods reach the node's resolver; planNetwork() leaves them to its
  // callers, because they depend on the cluster.
  kj::Vector<Ip> resolverAddresses;

  kj::Maybe<const Link&> find(kj::StringPtr link) const;
};

// `machine` is nullptr before there is a machine config. `known` is empty before networkd has
// published the links. Leases of operators that are not wanted (any more) do not count.
NetworkPlan planNetwork(const KernelArguments& arguments,
                        kj::Maybe<config::Machine::Reader> machine,
                        kj::ArrayPtr<const KnownLink> known,
                        kj::ArrayPtr<const Lease> leases = nullptr,
                        kj::Maybe<const PlatformNetwork&> platform = nullptr);

// Parts of planNetwork(). A member of a bond or bridge has no addresses: the bond or bridge has
// them.
void dropAddressesOfMembers(NetworkPlan& plan);
// Returns true if another link has a route in the main table to this destination with this metric.
bool isTaken(const NetworkPlan& plan, const Prefix& destination, unsigned metric,
             kj::StringPtr link);
// A rule without a network is one for each family.
void planRules(NetworkPlan& plan, config::Network::Reader network);

// Chooses host name, resolvers, search domains and time servers of `plan`; for planNetwork().
// `leases` are those that count, in the order of their links.
void chooseNames(const KernelArguments& arguments, kj::Maybe<config::Machine::Reader> machine,
                 kj::Maybe<const PlatformNetwork&> platform, const kj::Maybe<IpParameter>& ip,
                 kj::ArrayPtr<const Lease* const> leases, NetworkPlan& plan);

}  // namespace talos::machined
