#include "machined/config/network/network-config-plan.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "machined/config/network/test-network-config.h"

namespace talos::machined {
namespace {

// Returns "eth0 mtu 1400 (configuration); eth0 10.0.0.2/24 (cmdline); ...".
kj::String shown(const NetworkPlan& plan) {
  kj::Vector<kj::String> parts;
  for (auto& l : plan.links) {
    parts.add(
        kj::str(l.name, l.mtu == 0 ? kj::str() : kj::str(" mtu ", l.mtu), " (", l.layer, ")"));
  }
  for (auto& a : plan.addresses) parts.add(kj::str(a.link, " ", a.prefix, " (", a.layer, ")"));
  for (auto& r : plan.routes) {
    auto via = kj::str();
    KJ_IF_MAYBE (g, r.gateway) {
      via = kj::str(" via ", *g);
    }
    parts.add(
        kj::str(r.link, " to ", r.destination, via, " metric ", r.metric, " (", r.layer, ")"));
  }
  return kj::strArray(parts, "; ");
}

kj::Vector<KnownLink> threeLinks() {
  kj::Vector<KnownLink> links;
  links.add(KnownLink{3, kj::str("eth1"), false});
  links.add(KnownLink{1, kj::str("lo"), true});
  links.add(KnownLink{2, kj::str("eth0"), false});
  return links;
}

NetworkPlan plan(kj::StringPtr cmdline, kj::Maybe<const MachineText&> machine = nullptr,
                 kj::ArrayPtr<const KnownLink> known = nullptr) {
  return planNetwork(KernelArguments(cmdline.asArray()),
                     machine.map([](auto& text) { return text.get(); }), known);
}

TEST(IpParameterTest, AllFieldsOfTheSpecsExample) {
  auto p =
      plan("ip=1.1.1.1:2.2.2.2:3.3.3.3:255.255.255.0:hostname:eth0:none:4.4.4.4:5.5.5.5:6.6.6.6");
  EXPECT_EQ(shown(p),
            "eth0 (cmdline); eth0 1.1.1.1/24 (cmdline); eth0 to 0.0.0.0/0 via 3.3.3.3 metric 10 "
            "(cmdline)");
  EXPECT_EQ(p.hostname, "hostname");
  EXPECT_EQ(kj::strArray(p.resolvers, " "), "4.4.4.4 5.5.5.5");
  EXPECT_EQ(p.resolversLayer, kLayerCmdline);
  EXPECT_EQ(p.problems.size(), 0u);
}

TEST(IpParameterTest, WhatItIsOrWhyItIsNot) {
  struct Row {
    kj::StringPtr text;
    kj::StringPtr address;  // "": no address
    size_t problems;
  } rows[] = {
      {"dhcp", "", 0},
      {"off", "", 0},
      {"10.0.0.2:::", "", 1},
      {"10.0.0.2:::255.255.255.0", "10.0.0.2/24", 0},
      {"10.0.0.2::10.0.0.1:255.255.255.128::eth0", "10.0.0.2/25", 0},
      {"10.0.0.2::10.0.0.1:255.0.255.0", "", 1},
      {"10.0.0.2::nowhere:255.255.255.0", "10.0.0.2/24", 1},
      {"::10.0.0.1:255.255.255.0", "", 1},
      {"::::host:eth0:dhcp", "", 1},
      {"0.0.0.0:::255.255.255.0", "", 1},
      {"224.0.0.1:::255.255.255.0", "", 1},
      {"10.0.0.2:::255.255.255.0:::::bad:8.8.8.8", "10.0.0.2/24", 0},
  };
  for (auto& row : rows) {
    kj::Vector<kj::String> problems;
    auto parameter = parseIpParameter(row.text, problems);
    KJ_IF_MAYBE (p, parameter) {
      EXPECT_EQ(kj::str(p->address), row.address) << row.text.cStr();
    } else {
      EXPECT_EQ(row.address, "") << row.text.cStr();
    }
    EXPECT_EQ(problems.size(), row.problems) << row.text.cStr();
  }
}

// An address on the wrong link makes a machine unreachable: the first known link that is not
// loopback is taken, never a guess.
TEST(IpParameterTest, ItsDeviceIsTheNamedOneOrTheFirst) {
  auto links = threeLinks();
  auto linkOf = [&](kj::StringPtr cmdline, kj::ArrayPtr<const KnownLink> known) {
    auto p = plan(cmdline, nullptr, known);
    return p.addresses.size() == 0 ? kj::str("none") : kj::str(p.addresses[0].link);
  };
  EXPECT_EQ(linkOf("ip=10.0.0.2:::255.255.255.0::eth1", links), "eth1");
  EXPECT_EQ(linkOf("ip=10.0.0.2:::255.255.255.0::eth7", links), "eth0");
  EXPECT_EQ(linkOf("ip=10.0.0.2:::255.255.255.0", links), "eth0");
  EXPECT_EQ(linkOf("ip=10.0.0.2:::255.255.255.0", nullptr), "none");
  EXPECT_EQ(linkOf("ip=10.0.0.2:::255.255.255.0::eth7", nullptr), "eth7");
  EXPECT_EQ(linkOf("ip=10.0.0.2:::255.255.255.0 talos.network.interface.ignore=eth0", links),
            "eth1");
  EXPECT_EQ(linkOf("ip=10.0.0.2:::255.255.255.0::eth0 talos.network.interface.ignore=eth0", links),
            "none");
}

TEST(NetworkPlanTest, TheConfigWinsOverTheCommandLineOnItsLinkOnly) {
  MachineText config(
      "interfaces: [{interface: eth0, cidr: 192.168.1.5/24, mtu: 1400,"
      " routes: [{network: 0.0.0.0/0, gateway: 192.168.1.1}]}]");
  EXPECT_EQ(shown(plan("ip=10.0.0.2::10.0.0.1:255.255.255.0::eth0", config)),
            "eth0 mtu 1400 (configuration); eth0 192.168.1.5/24 (configuration); "
            "eth0 to 0.0.0.0/0 via 192.168.1.1 metric 10 (configuration)");
  EXPECT_EQ(
      shown(plan("ip=10.0.0.2:::255.255.255.0::eth1", config)),
      "eth0 mtu 1400 (configuration); eth1 (cmdline); eth0 192.168.1.5/24 (configuration); "
      "eth1 10.0.0.2/24 (cmdline); eth0 to 0.0.0.0/0 via 192.168.1.1 metric 10 (configuration)");
}

// A device for which the config has only an MTU keeps the address of the command line; otherwise
// the node becomes unreachable.
TEST(NetworkPlanTest, AnEntryWithoutAddressAddsToTheCommandLine) {
  MachineText config("interfaces: [{interface: eth0, mtu: 9000}]");
  EXPECT_EQ(shown(plan("ip=10.0.0.2::10.0.0.1:255.255.255.0::eth0", config)),
            "eth0 mtu 9000 (configuration); eth0 10.0.0.2/24 (cmdline); "
            "eth0 to 0.0.0.0/0 via 10.0.0.1 metric 10 (cmdline)");
}

TEST(NetworkPlanTest, EntriesOfOneLinkAddUpAndIgnoredOnesDoNot) {
  MachineText config(
      "interfaces: [{interface: eth0, cidr: 10.0.0.2/24}, {interface: eth0, cidr: 'fd00::2/64'},"
      " {interface: eth1, cidr: 10.1.0.2/24, ignore: true}, {interface: eth2, cidr: 10.2.0.2/24}]");
  EXPECT_EQ(
      shown(plan("talos.network.interface.ignore=eth2", config)),
      "eth0 (configuration); eth0 10.0.0.2/24 (configuration); eth0 fd00::2/64 (configuration)");
}

TEST(NetworkPlanTest, AMistakeCostsOnlyItself) {
  MachineText config(
      "interfaces: [{interface: eth0, cidr: 10.0.0.300/24, addresses: [10.0.0.3/24], routes:"
      " [{network: default, gateway: 10.0.0.1}, {network: 10.9.0.7/16, gateway: 0.0.0.0, metric: "
      "77},"
      " {network: '::/0', gateway: 10.0.0.1}]}, {interface: ''}],"
      " nameservers: [dns.example, 9.9.9.9]");
  auto p = plan("", config);
  EXPECT_EQ(shown(p),
            "eth0 (configuration); eth0 10.0.0.3/24 (configuration); eth0 to 10.9.0.0/16 metric 77 "
            "(configuration)");
  EXPECT_EQ(p.problems.size(), 5u);
  EXPECT_EQ(kj::strArray(p.resolvers, " "), "9.9.9.9");
}

// Catches: a VLAN without an address that gets no router advertisements, and a VLAN with an address
// that gets them.
TEST(NetworkPlanTest, AVlanIsAskedForAsALinkIs) {
  MachineText config(
      "interfaces: [{interface: eth0, cidr: 10.0.0.2/24, vlans: [{vlanId: 5},"
      " {vlanId: 6, cidr: 10.6.0.2/24}, {vlanId: 7, dhcp: true}]}]");
  auto p = plan("", config);
  auto asked = KJ_MAP(o, p.operators) {
    return kj::str(o.kind, "/", o.link);
  };
  EXPECT_EQ(std::string(kj::strArray(asked, " ").cStr()), "ra/eth0.5 dhcp4/eth0.7 ra/eth0.7");
}

// Catches: a shared address that is on two links of one node.
TEST(NetworkPlanTest, ASharedAddressIsOnOneLink) {
  MachineText config(
      "interfaces: [{interface: eth0, cidr: 10.0.0.2/24, vip: {ip: 10.0.0.9, leaseTTL: 5s},"
      " vlans: [{vlanId: 7, vip: {ip: 'fd00::9'}}]}, {interface: eth1, vip: {ip: 10.0.0.9}}]");
  auto p = plan("", config);
  ASSERT_EQ(2u, p.vips.size());
  EXPECT_EQ("eth0 10.0.0.9", kj::str(p.vips[0].link, " ", p.vips[0].address));
  EXPECT_EQ(5 * kj::SECONDS, p.vips[0].lease);
  EXPECT_EQ("eth0.7 fd00::9", kj::str(p.vips[1].link, " ", p.vips[1].address));
  EXPECT_EQ(config::kDefaultVipLease, p.vips[1].lease);
  EXPECT_EQ("eth1: the shared address 10.0.0.9 is on eth0 already", kj::strArray(p.problems, "; "));

  MachineText other("interfaces: [{interface: eth0, ignore: true, vip: {ip: 10.0.0.9}}]");
  p = plan("", other);
  ASSERT_EQ(1u, p.vips.size()) << "a link that another program configures";
  EXPECT_EQ(0u, p.links.size());
}

// Catches: a route that is dropped in silence because another route has its destination and metric.
TEST(NetworkPlanTest, TwoRoutesOfOnePlaceAreAProblem) {
  auto with = [](kj::StringPtr routes) {
    return MachineText(
        kj::str("interfaces: [{interface: eth0, cidr: 10.0.0.2/24, routes: [", routes, "]}]"));
  };
  auto good =
      "{network: 0.0.0.0/0, gateway: 10.0.0.1}, {network: 0.0.0.0/0, gateway: 10.0.0.1, metric: "
      "10},"
      " {network: 0.0.0.0/0, gateway: 10.0.0.9, metric: 11}"_kj;
  EXPECT_EQ(plan("", with(good)).problems.size(), 0u);
  auto p = plan("", with(kj::str(good,
                                 ", {network: 0.0.0.0/0, gateway: 10.0.0.9},"
                                 " {network: 0.0.0.0/0, metric: 20, type: blackhole},"
                                 " {network: 0.0.0.0/0, metric: 20, type: prohibit}")));
  EXPECT_EQ(std::string(kj::strArray(p.problems, "\n").cStr()),
            "eth0: the route to 0.0.0.0/0 is ignored: another route of metric 10 has the same "
            "network; set another metric\n"
            "eth0: the route to 0.0.0.0/0 is ignored: another route of metric 20 has the same "
            "network; set another metric");
  EXPECT_EQ(p.routes.size(), 3u);
}

// Catches: a node that loses its default route because the route has no `network`; a route of the
// wrong family, or on the wrong link; a route without a destination that is planned.
TEST(NetworkPlanTest, AGatewayAloneIsTheDefaultRouteOfItsFamily) {
  auto routesOf = [](kj::StringPtr entry) {
    auto p = plan("", MachineText(kj::str("interfaces: [{", entry, "}]")));
    auto routes = KJ_MAP(r, p.routes) {
      auto via = r.gateway.map([](auto& ip) { return kj::str(" via ", ip); }).orDefault(kj::str());
      return kj::str(r.link, " ", r.destination, via, " ", r.metric);
    };
    return std::string(kj::str(kj::strArray(routes, "; "), p.problems.size() > 0 ? " ! " : "",
                               kj::strArray(p.problems, "; "))
                           .cStr());
  };
  EXPECT_EQ("eth0 0.0.0.0/0 via 10.0.0.1 10",
            routesOf("interface: eth0, routes: [{gateway: 10.0.0.1}]"));
  EXPECT_EQ("eth0 0.0.0.0/0 via 10.0.0.1 7",
            routesOf("interface: eth0, routes: [{network: '', gateway: 10.0.0.1, metric: 7}]"));
  EXPECT_EQ("eth0 ::/0 via fe80::1 10; eth0 0.0.0.0/0 via 10.0.0.1 10",
            routesOf("interface: eth0, routes: [{gateway: 'fe80::1'}, {gateway: 10.0.0.1}]"));
  EXPECT_EQ("eth0.5 0.0.0.0/0 via 10.0.0.1 10",
            routesOf("interface: eth0, vlans: [{vlanId: 5, routes: [{gateway: 10.0.0.1}]}]"));
  EXPECT_EQ(
      "bond0 ::/0 via fd00::1 10",
      routesOf("interface: bond0, bond: {interfaces: [eth0]}, routes: [{gateway: 'fd00::1'}]"));
  EXPECT_EQ("eth0 0.0.0.0/0 10", routesOf("interface: eth0, routes: [{gateway: 0.0.0.0}]"))
      << "on the link, as with a network";
  EXPECT_EQ(
      " ! eth0: a route is ignored: network \"\" and gateway \"\" give no destination; "
      "eth0: a route is ignored: network \"\" and gateway \"x\" give no destination; "
      "eth0: a route is ignored: network \"default\" and gateway \"10.0.0.1\" give no destination",
      routesOf("interface: eth0, routes: [{metric: 5}, {gateway: x},"
               " {network: default, gateway: 10.0.0.1}]"));
  EXPECT_EQ(
      "eth0 0.0.0.0/0 via 10.0.0.1 10 ! eth0: the route to ::/0 is ignored: 10.0.0.2 and its "
      "network are not both IPv4 or both IPv6; eth0: the route to 0.0.0.0/0 is ignored: another "
      "route of metric 10 has the same network; set another metric",
      routesOf("interface: eth0, routes: [{gateway: 10.0.0.1}, {gateway: 'fd00::1', source: "
               "10.0.0.2}, {network: 0.0.0.0/0, gateway: 10.0.0.9}]"));
}

TEST(NetworkPlanTest, TheHostNameComesFromTheFirstThatHasAGoodOne) {
  struct Row {
    kj::StringPtr cmdline, config, hostname, domain, layer;
  } rows[] = {
      {"talos.hostname=k", "dadjokes.biz.dev", "dadjokes", "biz.dev", kLayerConfiguration},
      {"talos.hostname=k ip=10.0.0.2:::255.255.255.0:i:eth0", "", "k", "", kLayerCmdline},
      {"ip=10.0.0.2:::255.255.255.0:i.example:eth0", "", "i", "example", kLayerCmdline},
      {"ip=10.0.0.2:::255.255.255.0::eth0", "", "talos-10-0-0-2", "", kLayerDefault},
      {"talos.hostname=k", "under_score", "k", "", kLayerCmdline},
      {"", "", "talos-127-0-1-1", "", kLayerDefault},
  };
  for (auto& row : rows) {
    auto p = plan(row.cmdline, MachineText(kj::str("hostname: '", row.config, "'")));
    EXPECT_EQ(p.hostname, row.hostname);
    EXPECT_EQ(p.domain, row.domain);
    EXPECT_EQ(p.hostnameLayer, row.layer);
  }
  EXPECT_EQ(plan("").hostname, "") << "no name before there is a config or an address";
}

// Catches: IPv6-only nodes that all have the same name, a name that ends with a hyphen, a name from
// an address that every link has.
TEST(NetworkPlanTest, TheHostNameIsThatOfAnIpv6AddressWhereThereIsNoOther) {
  struct Row {
    kj::StringPtr cidr, hostname;
  } rows[] = {
      {"fd00:1::5/64", "talos-fd00-1--5"},
      {"fd00::/64", "talos-fd00"},
      {"10.0.0.7/24", "talos-10-0-0-7"},
      {"fe80::5/64", "talos-127-0-1-1"},
  };
  for (auto& row : rows) {
    auto p =
        plan("", MachineText(kj::str("interfaces: [{interface: eth0, cidr: '", row.cidr, "'}]")));
    EXPECT_EQ(p.hostname, row.hostname);
  }
}

kj::Vector<KnownLink> cards() {
  kj::Vector<KnownLink> links;
  links.add(KnownLink{1, kj::str("lo"), true});
  for (auto name : {"eth0"_kj, "eth1"_kj, "enp3s0"_kj, "wlan0"_kj}) {
    links.add(KnownLink{2, kj::str(name), false, true});
  }
  links.add(KnownLink{9, kj::str("eni5a"), false, false});  // a container's link
  return links;
}
kj::String operators(const NetworkPlan& plan) {
  auto shown = KJ_MAP(o, plan.operators) {
    return kj::str(o.kind, "/", o.link, " ", o.metric, " (", o.layer, ")");
  };
  return kj::strArray(shown, "; ");
}

// Catches: DHCP on a link that another layer configures, or on a container's end of a veth pair; no
// DHCP on a machine without a config.
TEST(NetworkPlanTest, CardsThatNobodyConfiguresAskByDhcp) {
  auto links = cards();
  EXPECT_EQ(operators(plan("", nullptr, links)),
            "dhcp4/eth0 1024 (default); ra/eth0 1024 (default); dhcp4/eth1 1024 (default); "
            "ra/eth1 1024 (default); dhcp4/enp3s0 1024 (default); ra/enp3s0 1024 (default)");
  EXPECT_EQ(shown(plan("", nullptr, links)), "eth0 (default); eth1 (default); enp3s0 (default)");
  EXPECT_EQ(operators(plan("ip=10.0.0.2:::255.255.255.0::eth0 talos.network.interface.ignore=eth1",
                           nullptr, links)),
            "dhcp4/enp3s0 1024 (default); ra/enp3s0 1024 (default)");
  // enp3s0 has only an MTU, for example: its addresses come from router advertisements.
  MachineText config(
      "interfaces: [{interface: eth0, cidr: 10.0.0.2/24}, {interface: eth1, ignore: true},"
      " {interface: enp3s0}]");
  EXPECT_EQ(operators(plan("", config, links)), "ra/enp3s0 1024 (configuration)");
}

TEST(NetworkPlanTest, DhcpOfTheConfigTakesThePlaceOfTheCommandLine) {
  MachineText config(
      "interfaces: [{interface: eth0, dhcp: true, dhcpOptions: {ipv6: true, routeMetric: 77},"
      " routes: [{network: 10.9.0.0/16, gateway: 10.0.0.1, metric: 55}]}]");
  auto p = plan("ip=10.0.0.2::10.0.0.1:255.255.255.0::eth0", config, threeLinks());
  EXPECT_EQ(
      operators(p),
      "dhcp4/eth0 77 (configuration); dhcp6/eth0 77 (configuration); ra/eth0 77 (configuration)");
  EXPECT_EQ(shown(p),
            "eth0 (configuration); eth0 to 10.9.0.0/16 via 10.0.0.1 metric 55 (configuration)");
}

Lease lease(kj::StringPtr link, kj::StringPtr prefix, kj::StringPtr gateway) {
  Lease lease;
  lease.kind = kj::str(kDhcp4);
  lease.link = kj::str(link);
  lease.addresses.add(KJ_ASSERT_NONNULL(Prefix::parse(prefix)));
  lease.routes.add(Lease::Route{Prefix::all(AF_INET), Ip::parse(gateway)});
  return lease;
}
NetworkPlan leased(kj::StringPtr cmdline, kj::Maybe<const MachineText&> machine,
                   kj::Vector<Lease> leases) {
  auto links = cards();
  return planNetwork(KernelArguments(cmdline.asArray()),
                     machine.map([](auto& text) { return text.get(); }), links, leases);
}

// Catches: two default routes with the same metric, of which the kernel takes only one; a lease
// that stays when its operator is removed; a server's MTU that overrides the config's.
TEST(NetworkPlanTest, LeasesAreTheLayerBelowTheConfig) {
  MachineText config(
      "interfaces: [{interface: eth1, dhcp: true, mtu: 1400},"
      " {interface: enp3s0, cidr: 192.168.0.2/24}]");
  kj::Vector<Lease> leases;
  leases.add(lease("eth1", "10.1.0.9/24", "10.1.0.1"));
  leases.add(lease("eth0", "10.0.0.9/24", "10.0.0.1"));
  leases.add(lease("enp3s0", "192.168.0.9/24", "192.168.0.1"));
  leases[0].mtu = 9000;
  leases[1].mtu = 8000;
  EXPECT_EQ(shown(leased("", config, kj::mv(leases))),
            "eth1 mtu 1400 (configuration); enp3s0 (configuration); eth0 mtu 8000 (default); "
            "enp3s0 192.168.0.2/24 (configuration); eth0 10.0.0.9/24 (operator); "
            "eth1 10.1.0.9/24 (operator); eth0 to 0.0.0.0/0 via 10.0.0.1 metric 1024 (operator); "
            "eth1 to 0.0.0.0/0 via 10.1.0.1 metric 1025 (operator)");
}

TEST(NetworkPlanTest, NamesOfLeases) {
  struct Row {
    kj::StringPtr cmdline, config, hostname, domain, name, layer;
  } rows[] = {
      {"", "", "node", "example.org", "node.example.org", kLayerOperator},
      {"", "", "node.other", "example.org", "node.other", kLayerOperator},
      {"", "", "node", "", "node.", kLayerOperator},
      {"", "", "", "example.org", "talos-10-0-0-9.", kLayerDefault},
      {"", "", "under_score", "", "talos-10-0-0-9.", kLayerDefault},
      {"talos.hostname=k", "", "node", "", "k.", kLayerCmdline},
      {"talos.hostname=k", "c.org", "node", "", "c.org", kLayerConfiguration},
  };
  for (auto& row : rows) {
    MachineText config(kj::str("hostname: '", row.config, "'"));
    kj::Vector<Lease> leases;
    leases.add(lease("eth1", "10.1.0.9/24", "10.1.0.1"));
    leases.add(lease("eth0", "10.0.0.9/24", "10.0.0.1"));
    leases[1].hostname = kj::str(row.hostname);
    leases[1].domain = kj::str(row.domain);
    auto p = leased(row.cmdline, config, kj::mv(leases));
    EXPECT_EQ(kj::str(p.hostname, ".", p.domain), row.name);
    EXPECT_EQ(p.hostnameLayer, row.layer);
  }
}

// Catches: an order that depends on which lease came first.
TEST(NetworkPlanTest, ResolversAndTimeServersOfLeasesInTheOrderOfLinks) {
  auto make = [](kj::StringPtr cmdline, kj::Maybe<const MachineText&> config) {
    kj::Vector<Lease> leases;
    for (auto link : {"eth1"_kj, "enp3s0"_kj, "eth0"_kj}) {
      leases.add(lease(link, "10.0.0.9/24", "10.0.0.1"));
      auto number = leases.size();
      for (auto i : {1, 2}) {
        leases.back().resolvers.add(KJ_ASSERT_NONNULL(Ip::parse(kj::str("10.0.", number, ".", i))));
      }
      leases.back().timeServers.add(kj::str("10.1.", number, ".1"));
      leases.back().domain = kj::str(link, ".org");
    }
    leases[0].search.add(kj::str("s.org"));
    auto p = leased(cmdline, config, kj::mv(leases));
    return kj::str(kj::strArray(p.resolvers, " "), " (", p.resolversLayer, "); ",
                   kj::strArray(p.timeServers, " "), " (", p.timeServersLayer, "); ",
                   kj::strArray(p.search, " "));
  };
  EXPECT_EQ(make("", nullptr),
            "10.0.2.1 10.0.2.2 10.0.3.1 (operator); 10.1.2.1 10.1.3.1 10.1.1.1 (operator); "
            "enp3s0.org eth0.org s.org");
  MachineText config("hostname: a.b.org, nameservers: [9.9.9.9]", "servers: [time.example]");
  EXPECT_EQ(
      make("", config),
      "9.9.9.9 (configuration); time.example (configuration); b.org enp3s0.org eth0.org s.org");
  EXPECT_EQ(kj::strArray(plan("").timeServers, " "), "pool.ntp.org");
}

TEST(NetworkPlanTest, ResolversAreAtMostThreeOfOneLayer) {
  MachineText config("nameservers: [1.0.0.1, 1.0.0.2, 'fd00::53', 1.0.0.4]");
  EXPECT_EQ(kj::strArray(plan("", config).resolvers, " "), "1.0.0.1 1.0.0.2 fd00::53");
  EXPECT_EQ(kj::strArray(plan("").resolvers, " "), "1.1.1.1 8.8.8.8");
}

// The network as a platform states it, in the shape of machine.network, over three links.
struct Stated {
  MachineText text;
  PlatformNetwork network;
  explicit Stated(kj::StringPtr yaml, kj::StringPtr timeServer = "") : text(yaml) {
    network.network = text.get().getNetwork();
    if (timeServer.size() > 0) network.timeServers.add(kj::str(timeServer));
  }
  NetworkPlan plan(kj::StringPtr cmdline, kj::Maybe<const MachineText&> machine = nullptr,
                   kj::ArrayPtr<const Lease> leases = nullptr) const {
    auto known = threeLinks();
    return planNetwork(KernelArguments(cmdline.asArray()),
                       machine.map([](auto& given) { return given.get(); }), known, leases,
                       network);
  }
};

// Catches: a platform whose network is left out, or overrides the config; a machine that loses
// DHCP, and with it the platform, because the platform states only an MTU for its link.
TEST(NetworkPlatform, BetweenCommandLineAndConfig) {
  Stated platform(
      "interfaces: [{interface: eth0, addresses: [198.51.100.9/24], routes: [{network: 0.0.0.0/0, "
      "gateway: 198.51.100.1, metric: 1024}]}, {interface: eth1, mtu: 1450}]");
  auto p = platform.plan("ip=10.0.0.2::10.0.0.1:255.255.255.0::eth0");
  EXPECT_EQ(shown(p),
            "eth0 (platform); eth1 mtu 1450 (platform); eth0 198.51.100.9/24 (platform); eth0 to "
            "0.0.0.0/0 via 198.51.100.1 metric 1024 (platform)");
  auto operators = KJ_MAP(o, p.operators) {
    return kj::str(o.kind, "/", o.link, " ", o.layer);
  };
  EXPECT_EQ(kj::strArray(operators, ", "), "ra/eth1 platform, dhcp4/eth1 platform");

  MachineText config(
      "interfaces: [{interface: eth0, cidr: 10.5.0.2/24}, {interface: eth1, ignore: true}]");
  EXPECT_EQ(shown(platform.plan("", config)),
            "eth0 (configuration); eth0 10.5.0.2/24 (configuration)");
  EXPECT_EQ(shown(platform.plan("talos.network.interface.ignore=eth0")),
            "eth1 mtu 1450 (platform)");
}

// Catches: a platform's addresses on no link, because the platform calls the only card eth0; an
// entry for an existing card that is applied to another one.
TEST(NetworkPlatform, NumbersOfCardsWithPredictableNames) {
  Stated platform(
      "interfaces: [{interface: eth0, addresses: [198.51.100.9/24]}, {interface: eth1, addresses: "
      "[198.51.100.10/24]}, {interface: eth7, addresses: [198.51.100.11/24]}]");
  kj::Vector<KnownLink> links;
  links.add(KnownLink{.index = 4, .name = kj::str("enp0s2"), .hardware = true});
  links.add(KnownLink{.index = 1, .name = kj::str("lo"), .loopback = true});
  links.add(KnownLink{.index = 2, .name = kj::str("enp0s3"), .hardware = true});
  links.add(KnownLink{.index = 3, .name = kj::str("veth1")});
  auto addresses = [&](kj::StringPtr arguments) {
    auto p = planNetwork(KernelArguments(arguments.asArray()), nullptr, links, nullptr,
                         platform.network);
    auto texts = KJ_MAP(a, p.addresses) {
      return kj::str(a.link, " ", a.prefix);
    };
    return kj::strArray(texts, ", ");
  };
  EXPECT_EQ(addresses("net.ifnames=1"),
            "enp0s3 198.51.100.9/24, enp0s2 198.51.100.10/24, eth7 198.51.100.11/24");
  auto usual = "eth0 198.51.100.9/24, eth1 198.51.100.10/24, eth7 198.51.100.11/24"_kj;
  EXPECT_EQ(addresses(""), usual);
  EXPECT_EQ(addresses("net.ifnames=1 net.ifnames=0"), usual);
  links.add(KnownLink{.index = 5, .name = kj::str("eth0"), .hardware = true});
  EXPECT_EQ(addresses("net.ifnames=1"),
            "eth0 198.51.100.9/24, enp0s2 198.51.100.10/24, eth7 198.51.100.11/24");
}

// Catches: members of a bond that have DHCP, or a problem about it.
TEST(NetworkPlatform, MembersOfItsBond) {
  Stated platform(
      "interfaces: [{interface: eth0, mtu: 9000}, {interface: bond0, addresses: [10.0.0.2/24], "
      "bond: {interfaces: [eth0, eth1]}}]");
  auto p = platform.plan("");
  EXPECT_EQ(p.operators.size(), 0u);
  EXPECT_EQ(p.problems.size(), 0u);
  EXPECT_EQ(shown(p),
            "eth0 mtu 9000 (platform); bond0 (platform); eth1 (platform); bond0 10.0.0.2/24 "
            "(platform)");
}

// Catches: a wrong choice between two names or servers that are both valid.
TEST(NetworkPlatform, Names) {
  Stated platform("hostname: n1.cloud, nameservers: [192.0.2.53]", "time.cloud");
  auto names = [](const NetworkPlan& p) {
    return kj::str(p.hostname, " ", p.hostnameLayer, " ", kj::strArray(p.resolvers, ","), " ",
                   kj::strArray(p.timeServers, ","));
  };
  EXPECT_EQ(names(platform.plan("talos.hostname=n2")), "n1 platform 192.0.2.53 time.cloud");
  MachineText config("hostname: n3, nameservers: [192.0.2.54]", "servers: [time.config]");
  EXPECT_EQ(names(platform.plan("", config)), "n3 configuration 192.0.2.54 time.config");
  Lease lease;
  lease.kind = kj::str(kDhcp4);
  lease.link = kj::str("eth0");
  lease.hostname = kj::str("dhcp");
  lease.resolvers.add(Ip::require("192.0.2.55"));
  lease.timeServers.add(kj::str("time.dhcp"));
  auto known = threeLinks();
  for (auto& link : known) link.hardware = !link.loopback;
  auto p = planNetwork(KernelArguments(""_kj.asArray()), nullptr, known, kj::arrayPtr(&lease, 1),
                       platform.network);
  EXPECT_EQ(names(p), "n1 platform 192.0.2.55 time.dhcp");
}

}  // namespace
}  // namespace talos::machined
