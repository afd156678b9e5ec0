#include "machined/controllers/network-plan.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

namespace talos::machined {
namespace {

// "eth0 mtu 1400 (configuration); eth0 10.0.0.2/24 (cmdline); ..."
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

NetworkPlan plan(kj::StringPtr cmdline, kj::Maybe<const NetworkConfig&> config = nullptr,
                 kj::ArrayPtr<const KnownLink> known = nullptr) {
  return planNetwork(KernelArguments(cmdline.asArray()), config, known);
}

NetworkConfig::Device device(kj::StringPtr name, kj::StringPtr cidr = "") {
  NetworkConfig::Device device;
  device.interface = kj::str(name);
  if (cidr.size() > 0) device.addresses.add(kj::str(cidr));
  return device;
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
    kj::StringPtr address;  // "" : none
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

// An address on the wrong link cuts a machine off: first known, first non-loopback, never a guess.
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
  NetworkConfig config;
  config.devices.add(device("eth0", "192.168.1.5/24"));
  config.devices[0].mtu = 1400;
  config.devices[0].routes.add(
      NetworkConfig::Route{kj::str("0.0.0.0/0"), kj::str("192.168.1.1"), 0});
  EXPECT_EQ(shown(plan("ip=10.0.0.2::10.0.0.1:255.255.255.0::eth0", config)),
            "eth0 mtu 1400 (configuration); eth0 192.168.1.5/24 (configuration); "
            "eth0 to 0.0.0.0/0 via 192.168.1.1 metric 10 (configuration)");
  EXPECT_EQ(
      shown(plan("ip=10.0.0.2:::255.255.255.0::eth1", config)),
      "eth0 mtu 1400 (configuration); eth1 (cmdline); eth0 192.168.1.5/24 (configuration); "
      "eth1 10.0.0.2/24 (cmdline); eth0 to 0.0.0.0/0 via 192.168.1.1 metric 10 (configuration)");
}

// A device that the config only gives an MTU keeps the address of the command line, or the node is
// gone.
TEST(NetworkPlanTest, AnEntryWithoutAddressAddsToTheCommandLine) {
  NetworkConfig config;
  config.devices.add(device("eth0"));
  config.devices[0].mtu = 9000;
  EXPECT_EQ(shown(plan("ip=10.0.0.2::10.0.0.1:255.255.255.0::eth0", config)),
            "eth0 mtu 9000 (configuration); eth0 10.0.0.2/24 (cmdline); "
            "eth0 to 0.0.0.0/0 via 10.0.0.1 metric 10 (cmdline)");
}

TEST(NetworkPlanTest, EntriesOfOneLinkAddUpAndIgnoredOnesDoNot) {
  NetworkConfig config;
  config.devices.add(device("eth0", "10.0.0.2/24"));
  config.devices.add(device("eth0", "fd00::2/64"));
  config.devices.add(device("eth1", "10.1.0.2/24"));
  config.devices[2].ignore = true;
  config.devices.add(device("eth2", "10.2.0.2/24"));
  EXPECT_EQ(
      shown(plan("talos.network.interface.ignore=eth2", config)),
      "eth0 (configuration); eth0 10.0.0.2/24 (configuration); eth0 fd00::2/64 (configuration)");
}

TEST(NetworkPlanTest, AMistakeCostsOnlyItself) {
  NetworkConfig config;
  config.devices.add(device("eth0", "10.0.0.300/24"));
  config.devices[0].addresses.add(kj::str("10.0.0.3/24"));
  config.devices[0].routes.add(NetworkConfig::Route{kj::str("default"), kj::str("10.0.0.1"), 0});
  config.devices[0].routes.add(
      NetworkConfig::Route{kj::str("10.9.0.7/16"), kj::str("0.0.0.0"), 77});
  config.devices[0].routes.add(NetworkConfig::Route{kj::str("::/0"), kj::str("10.0.0.1"), 0});
  config.devices.add(device(""));
  config.nameservers.add(kj::str("dns.example"));
  config.nameservers.add(kj::str("9.9.9.9"));
  auto p = plan("", config);
  EXPECT_EQ(shown(p),
            "eth0 (configuration); eth0 10.0.0.3/24 (configuration); eth0 to 10.9.0.0/16 metric 77 "
            "(configuration)");
  EXPECT_EQ(p.problems.size(), 5u);
  EXPECT_EQ(kj::strArray(p.resolvers, " "), "9.9.9.9");
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
    NetworkConfig config;
    config.hostname = kj::str(row.config);
    auto p = plan(row.cmdline, config);
    EXPECT_EQ(p.hostname, row.hostname);
    EXPECT_EQ(p.domain, row.domain);
    EXPECT_EQ(p.hostnameLayer, row.layer);
  }
  EXPECT_EQ(plan("").hostname, "") << "no name before there is a config or an address";
}

TEST(NetworkPlanTest, HostNamesThatAreNone) {
  auto label = [](size_t n) {
    auto text = kj::heapString(n);
    memset(text.begin(), 'a', n);
    return text;
  };
  EXPECT_TRUE(hostnameProblem("a") == nullptr);
  EXPECT_TRUE(hostnameProblem(label(63)) == nullptr);
  EXPECT_TRUE(hostnameProblem(label(64)) != nullptr);
  EXPECT_TRUE(hostnameProblem(kj::str(label(63), ".", label(63), ".", label(63), ".", label(61))) ==
              nullptr);
  EXPECT_TRUE(hostnameProblem(kj::str(label(63), ".", label(63), ".", label(63), ".", label(62))) !=
              nullptr);
  for (auto bad :
       {"a..b"_kj, ".a"_kj, "a."_kj, "-a"_kj, "a-"_kj, "a b"_kj, "a/b"_kj, "\xc3\xa4"_kj}) {
    EXPECT_TRUE(hostnameProblem(bad) != nullptr) << bad.cStr();
  }
}

TEST(NetworkPlanTest, ResolversAreAtMostThreeOfOneLayer) {
  NetworkConfig config;
  for (auto text : {"1.0.0.1"_kj, "1.0.0.2"_kj, "fd00::53"_kj, "1.0.0.4"_kj})
    config.nameservers.add(kj::str(text));
  EXPECT_EQ(kj::strArray(plan("", config).resolvers, " "), "1.0.0.1 1.0.0.2 fd00::53");
  EXPECT_EQ(kj::strArray(plan("").resolvers, " "), "1.1.1.1 8.8.8.8");
}

}  // namespace
}  // namespace talos::machined
