// networkd's DHCP client as a process, through machined's own controller to the kernel and back,
// against the servers that people run: dnsmasq and isc-dhcp-server, in another network namespace.
#include <linux/if_addr.h>

#include "common/netlink/test-netlink.h"
#include "common/testing/test-namespace.h"
#include "machined/system/kernel-parameters.h"
#include "tests/network/cable.h"

namespace talos {
namespace {

template <typename F>
void onCable(F&& body) {
  onThread([&] {
    Cable cable;
    body(cable);
  });
}

kj::String texts(capnp::List<capnp::Text>::Reader list) {
  return kj::strArray(list, " ");
}

// Catches: a requested option that is lost on its way, or rights that the confined process lacks.
TEST(Dhcp, EverythingThatDnsmasqGivesReachesTheKernelAndTheStore) {
  onCable([](Cable& cable) {
    cable.dnsmasq("10.7.0.100,10.7.0.100,255.255.255.0,2m", "--dhcp-option=26,1400");
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] { return cable.has("10.7.0.100/24") && node.hasDefault(); });
    auto lease = KJ_ASSERT_NONNULL(cable.lease());
    EXPECT_EQ(lease.getServer(), "10.7.0.1");
    EXPECT_EQ(lease.getLease(), "120s");
    EXPECT_EQ(texts(lease.getDnsServers()), "10.7.0.3 10.7.0.4");
    EXPECT_EQ(texts(lease.getSearchDomains()), "a.example b.a.example");
    EXPECT_EQ(lease.getDomainname(), "example.org");
    EXPECT_EQ(lease.getHostname(), "asks") << "dnsmasq gives back the name that it was told";
    node.until("the MTU", [&] {
      return KJ_ASSERT_NONNULL(netlink::findLink(*node.kernel, "eth0")).mtu == 1400;
    });
    node.until("the resolver file", [&] {
      return tryReadFile(node.path("state/resolv.conf")).orDefault(nullptr) ==
             "nameserver 10.7.0.3\nnameserver 10.7.0.4\nsearch a.example b.a.example\n";
    });
    auto address = KJ_ASSERT_NONNULL(node.store.tryGet<rpc::AddressSpecSpec>("eth0/10.7.0.100/24"));
    EXPECT_EQ(address.getLayer(), "operator");
    auto route =
        KJ_ASSERT_NONNULL(node.store.tryGet<rpc::RouteSpecSpec>("eth0/inet4/10.7.0.1//1024"));
    EXPECT_EQ(route.getLayer(), "operator");
  });
}

// Catches: a lease, an address or a route that a killed networkd loses or touches.
TEST(Dhcp, AKilledNetworkdKeepsTheLease) {
  onCable([](Cable& cable) {
    cable.dnsmasq("10.7.0.100,10.7.0.150,255.255.255.0,2m");
    auto& node = cable.node;
    node.start();
    node.until("an address",
               [&] { return cable.address().size() > 0 && node.has(cable.address()); });
    node.until("the default route", [&] { return node.hasDefault(); });
    auto address = cable.address();
    auto monitor = netlink::openMonitor(node.io.unixEventPort);
    for (unsigned i = 0; i < 3; ++i) {
      auto before = readFile(cable.file());
      node.kill();
      if (i == 2) cable.server.end();  // no server confirms it: it is kept
      node.start();
      node.awaitReady();
      if (i < 2) {
        node.until("the confirmation", [&] { return readFile(cable.file()) != before; });
      } else {
        node.until("the question", [&] { return cable.state() == "confirming"; });
      }
      EXPECT_EQ(cable.address(), address);
    }
    auto changed = monitor->next();
    EXPECT_FALSE(changed.poll(node.io.waitScope)) << "nothing was taken away or made again";
    EXPECT_TRUE(node.has(address) && node.hasDefault());
    EXPECT_TRUE(cable.said("DHCPREQUEST(peer)")) << "the log is the server's";
    EXPECT_FALSE(cable.said("DHCPRELEASE")) << "a lease outlives the process";
  });
}

// Catches: renewals that do not reach the server or whose answers do not arrive; an address that
// stays when it is no longer ours.
TEST(Dhcp, DhcpdRenewsAndComesBack) {
  onCable([](Cable& cable) {
    cable.dhcpd("10.7.0.20 10.7.0.30", Cable::kLong, Cable::kRenewOften);
    auto& node = cable.node;
    node.start();
    node.until("an address",
               [&] { return cable.address().size() > 0 && node.has(cable.address()); });
    auto address = cable.address();
    node.until("the default route", [&] { return node.hasDefault(); });
    // By the file: the state "renewing" lasts a millisecond, and a busy machine does not see it.
    unsigned renewals = 0;
    node.until("two renewals", [&, before = readFile(cable.file())]() mutable {
      auto now = readFile(cable.file());
      if (now != before) ++renewals;
      before = kj::mv(now);
      return renewals == 2;
    });
    EXPECT_EQ(cable.address(), address);
    cable.server.end();
    // The next renewal gives a short one, which may end and be given again before it is seen here.
    cable.dhcpd("10.7.0.20 10.7.0.30", 4, "dhcp-cache-threshold 0;");
    node.until("a lease that ends soon", [&] {
      KJ_IF_MAYBE (status, cable.lease()) return status->getLease() == "4s";
      return false;
    });
    cable.server.end();
    node.until("the end of the lease",
               [&] { return cable.address() == "" && !node.has(address) && !node.hasDefault(); });
    cable.dhcpd("10.7.0.20 10.7.0.30", Cable::kLong);
    node.until("the address again", [&] { return cable.has(address) && node.hasDefault(); });
  });
}

// Catches: an address that is used beyond its time because machined, which makes the specs, is
// away.
TEST(Dhcp, ALeaseEndsAlsoWhileMachinedIsAway) {
  onCable([](Cable& cable) {
    cable.dhcpd("10.7.0.20 10.7.0.20", 4);
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] { return cable.has("10.7.0.20/24"); });
    cable.server.end();
    node.machinedGoesAway();
    node.until("its end", [&] { return !node.has("10.7.0.20/24"); });
    node.serve();
    node.until("that the change is reported", [&] { return cable.address() == ""; });
  });
}

// The cable now ends in another network: the lease that is known is refused, at once, long before
// it would have to be renewed.
TEST(Dhcp, ARefusalGetsANewAddressAndTheOldOneGoes) {
  onCable([](Cable& cable) {
    cable.dnsmasq("10.7.0.20,10.7.0.20,255.255.255.0,2m");
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] { return cable.has("10.7.0.20/24"); });
    removeTree(node.path("dnsmasq.leases"));
    cable.dnsmasq("10.7.0.40,10.7.0.40,255.255.255.0,2m");
    auto& there = cable.server.there();
    auto peer = netlink::indexOf(there, "peer");
    netlink::setUp(there, peer, false);
    node.until("no carrier", [&] { return cable.state() == "no carrier"; });
    EXPECT_TRUE(node.has("10.7.0.20/24")) << "a cable that is out changes nothing";
    netlink::setUp(there, peer);
    node.until("the other address", [&] { return cable.has("10.7.0.40/24"); });
    node.until("the old one's end", [&] { return !node.has("10.7.0.20/24"); });
  });
}

// Catches: a client that works on cards only, or there gets an address and never renews it. In a
// guest (guest.sh), for its drivers.
TEST(DhcpInGuest, VlansAndBondsAskAndRenewToo) {
  for (auto asked : {"eth0.5"_kj, "bond0"_kj}) {
    onCable([&](Cable& cable) {
      auto& node = cable.node;
      auto& kernel = *node.kernel;
      cable.asked = asked;
      if (asked == "eth0.5") {
        netlink::setUp(kernel, node.eth0);
        netlink::addLink(kernel, asked, netlink::Vlan{node.eth0, 5});
        auto& there = cable.server.there();
        auto peer = netlink::indexOf(there, "peer");
        auto network = KJ_ASSERT_NONNULL(Prefix::parse("10.7.0.1/24"));
        netlink::change(there, netlink::DeleteAddress{{.link = peer, .prefix = network}});
        auto vlan = netlink::addLink(there, "peer.5", netlink::Vlan{peer, 5});
        netlink::addAddress(there, vlan, network);
        netlink::setUp(there, vlan);
        cable.serverLink = "peer.5";
      } else {
        auto bond = netlink::addLink(kernel, asked, netlink::Bond{});
        netlink::setMaster(kernel, node.eth0, bond);
      }
      cable.dhcpd("10.7.0.20 10.7.0.30", Cable::kLong, Cable::kRenewOften);
      node.start();
      node.until("an address", [&] { return cable.has("10.7.0.20/24"); });
      auto index = netlink::indexOf(kernel, asked);
      for (auto& a : kernel.addresses()) {
        if (a.prefix.toString() == "10.7.0.20/24") EXPECT_EQ(a.link, index);
      }
      auto before = readFile(cable.file());
      node.until("a renewal",
                 [&] { return cable.state() == "bound" && readFile(cable.file()) != before; });
      EXPECT_TRUE(cable.has("10.7.0.20/24"));
    });
  }
}

// The bond of the users' documents, from their text.
constexpr kj::StringPtr kDocumentedBond =
    "version: v1alpha1\n"
    "machine:\n"
    "  type: worker\n"
    "  token: abcdef.0123456789abcdef\n"
    "  install: {disk: /dev/sda}\n"
    "  network:\n"
    "    interfaces:\n"
    "      - interface: bond0\n"
    "        dhcp: true\n"
    "        bond:\n"
    "          mode: 802.3ad\n"
    "          lacpRate: fast\n"
    "          xmitHashPolicy: layer3+4\n"
    "          miimon: 100\n"
    "          updelay: 200\n"
    "          downdelay: 200\n"
    "          interfaces:\n"
    "            - eth0\n"
    "            - eth1\n"
    "cluster:\n"
    "  controlPlane: {endpoint: 'https://10.0.0.1:6443'}\n"_kj;

// Connects both cables to a switch, in one LACP aggregate, where the server listens.
void aggregate(Cable& cable) {
  auto& there = cable.server.there();
  auto first = netlink::indexOf(there, "peer"), second = netlink::indexOf(there, "peer1");
  auto network = KJ_ASSERT_NONNULL(Prefix::parse("10.7.0.1/24"));
  netlink::change(there, netlink::DeleteAddress{{.link = first, .prefix = network}});
  netlink::BondOptions options;
  options[netlink::BondOption::kMode] = uint32_t(netlink::BondMode::kLacp);
  options[netlink::BondOption::kMiimon] = 100u;
  options[netlink::BondOption::kLacpRate] = 1u;
  auto bond = netlink::addLink(there, "switch", netlink::Bond{options});
  for (auto port : {first, second}) {
    netlink::setUp(there, port, false);
    netlink::setMaster(there, port, bond);
  }
  netlink::setUp(there, bond);
  netlink::addAddress(there, bond, network);
  cable.serverLink = "switch";
}

// Catches: a bond that networkd makes and for which it does not ask for an address, or asks before
// the bond has its links, and never again.
TEST(DhcpInGuest, TheBondOfTheDocumentsIsMadeAndAsks) {
  onCable([](Cable& cable) {
    auto& node = cable.node;
    auto& kernel = *node.kernel;
    netlink::addVeth(kernel, "eth1", "peer1");
    netlink::move(netlink::indexOf(kernel, "peer1"), cable.server.descriptor());
    aggregate(cable);
    auto parsed = config::parse(kDocumentedBond.asArray());
    ASSERT_TRUE(parsed.good());
    cable.document = kj::mv(parsed);
    cable.asked = "bond0";
    cable.configChanged();
    cable.dhcpd("10.7.0.20 10.7.0.30", Cable::kLong, Cable::kRenewOften);
    node.start();
    node.until("an address",
               [&] { return cable.has("10.7.0.20/24") && node.hasDefaultBy("bond0"); });
    auto bond = netlink::indexOf(kernel, "bond0");
    for (auto& address : kernel.addresses()) {
      if (address.prefix.toString() == "10.7.0.20/24") EXPECT_EQ(address.link, bond);
    }
    node.until("both links in one aggregate", [&] {
      auto said = readFile("/proc/thread-self/net/bonding/bond0");
      return strstr(said.cStr(), "Bonding Mode: IEEE 802.3ad") != nullptr &&
             strstr(said.cStr(), "Number of ports: 2") != nullptr;
    });
    auto before = readFile(cable.file());
    node.until("a renewal",
               [&] { return cable.state() == "bound" && readFile(cable.file()) != before; });
    EXPECT_TRUE(cable.has("10.7.0.20/24"));
  });
}

// Another machine has been given the address by hand.
TEST(Dhcp, AnAddressInUseIsDeclined) {
  onCable([](Cable& cable) {
    auto& there = cable.server.there();
    // The server's machine answers for it, which a server that does not look will not notice.
    netlink::addAddress(there, netlink::indexOf(there, "peer"),
                        KJ_ASSERT_NONNULL(Prefix::parse("10.7.0.60/32")));
    cable.dhcpd("10.7.0.60 10.7.0.61", 60);
    auto& node = cable.node;
    node.start();
    node.until("the refusal of it", [&] { return cable.said("DHCPDECLINE of 10.7.0.60"); });
    EXPECT_NE(cable.address(), "10.7.0.60/24");
    node.until("another address", [&] { return cable.has("10.7.0.61/24"); });
  });
}

// Catches: settings from DHCP that stay although the config no longer has DHCP; a server that is
// not informed, or does not find the released lease.
TEST(Dhcp, AConfigWithoutItTakesEverythingBack) {
  onCable([](Cable& cable) {
    cable.dnsmasq("10.7.0.100,10.7.0.150,255.255.255.0,2m");
    auto& node = cable.node;
    auto leases = [&] { return tryReadFile(node.path("dnsmasq.leases")).orDefault(nullptr); };
    node.start();
    node.until("an address",
               [&] { return cable.address().size() > 0 && node.has(cable.address()); });
    EXPECT_TRUE(tryReadFile(cable.file()) != nullptr);
    auto address = cable.address();
    auto given = kj::str(" ", address.slice(0, KJ_ASSERT_NONNULL(address.findFirst('/'))), " ");
    node.until("the server's own record", [&] { return strstr(leases().cStr(), given.cStr()); });
    cable.dhcp = false;
    cable.configChanged();
    node.until("its end", [&] { return !node.has(address) && cable.lease() == nullptr; });
    EXPECT_TRUE(tryReadFile(cable.file()) == nullptr);
    node.until("the end of its route", [&] { return !node.hasDefault(); });
    node.until("the server's knowledge of it",
               [&] { return cable.said("DHCPRELEASE(peer)") && leases().size() == 0; });
    EXPECT_FALSE(cable.said("unknown lease"));
  });
}

// Catches: a lease that a new process does not release because it has not met the lease's server.
TEST(Dhcp, ANewProcessGivesBackWhatItFound) {
  onCable([](Cable& cable) {
    cable.dhcpd("10.7.0.20 10.7.0.20", 600);
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] { return cable.has("10.7.0.20/24"); });
    node.kill();
    cable.server.end();  // so that no server confirms it
    node.start();
    node.until("the question", [&] { return cable.state() == "confirming"; });
    cable.dhcpd("10.7.0.20 10.7.0.20", 600);
    cable.dhcp = false;
    cable.configChanged();
    node.until("its end", [&] { return !node.has("10.7.0.20/24"); });
    node.until("the server's knowledge of it",
               [&] { return cable.said("DHCPRELEASE of 10.7.0.20 from"); });
  });
}

// Catches: an answer by IPv6 that does not arrive (its sockets and rights are others), resolvers
// that only routers advertise, and a lease that a killed networkd forgets.
TEST(Dhcp, AnAddressByDhcpv6AndResolversOfARouter) {
  onCable([](Cable& cable) {
    cable.router("fd00:7::100,fd00:7::100,64,2m");
    auto& node = cable.node;
    node.start();
    auto of = [&](kj::StringPtr id) { return node.store.tryGet<rpc::OperatorStatusSpec>(id); };
    auto bound = [&] {
      KJ_IF_MAYBE (lease, of("dhcp6/eth0")) {
        return texts(lease->getAddresses()) == "fd00:7::100/128" && lease->getState() == "bound";
      }
      return false;
    };
    node.until("an address", [&] { return bound() && node.has("fd00:7::100/128"); });
    auto lease = KJ_ASSERT_NONNULL(of("dhcp6/eth0"));
    EXPECT_EQ(texts(lease.getTimeServers()), "fd00:7::7b");
    node.until("the router's resolvers", [&] {
      KJ_IF_MAYBE (router, of("ra/eth0")) {
        return texts(router->getDnsServers()) == "fd00:7::53" &&
               texts(router->getSearchDomains()) == "six.example";
      }
      return false;
    });
    node.until("the resolver file", [&] {
      return tryReadFile(node.path("state/resolv.conf")).orDefault(nullptr) ==
             "nameserver fd00:7::53\nsearch six.example\n";
    });
    auto path = node.path("state/dhcp6-eth0");
    auto before = readFile(path);
    node.kill();
    cable.server.end();
    node.start();
    node.awaitReady();
    node.until("the question", [&] {
      KJ_IF_MAYBE (again, of("dhcp6/eth0")) {
        return again->getState() == "confirming" && again->getAddresses().size() == 1;
      }
      return false;
    });
    EXPECT_EQ(readFile(path), before);
    EXPECT_TRUE(node.has("fd00:7::100/128"));
  });
}

// Catches: a node that loses its way out because it forwards packets of pods, at which the kernel
// no longer listens to routers.
TEST(Routers, ANodeThatForwardsGoesOnToTakeTheirRoutes) {
  onCable([](Cable& cable) {
    machined::acceptRouterAdvertisements("/proc/sys");
    auto written = machined::writeSysctls("/proc/sys", machined::requiredSysctls(true));
    EXPECT_EQ("", kj::strArray(written.refused, "; "));
    EXPECT_EQ("1\n", readFile("/proc/sys/net/ipv6/conf/eth0/forwarding"));
    cable.router("fd00:7::100,fd00:7::100,64,2m");
    auto& node = cable.node;
    node.start();
    node.until("the router's route", [&] {
      for (auto& route : node.kernel->routes()) {
        if (route.destination == Prefix::all(AF_INET6) && route.protocol == RTPROT_RA) return true;
      }
      return false;
    });
  });
}

// Catches: an address by DHCPv6 that the server holds although the node no longer needs it.
TEST(Dhcp, AnAddressByDhcpv6IsGivenBack) {
  onCable([](Cable& cable) {
    cable.router("fd00:7::100,fd00:7::100,64,2m");
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] { return node.has("fd00:7::100/128"); });
    auto leases = [&] { return tryReadFile(node.path("dnsmasq.leases")).orDefault(nullptr); };
    node.until("the server's own record",
               [&] { return strstr(leases().cStr(), " fd00:7::100 ") != nullptr; });
    cable.dhcp6 = false;
    cable.configChanged();
    node.until("its end", [&] { return !node.has("fd00:7::100/128"); });
    node.until("the server's knowledge of it", [&] {
      return cable.said("DHCPRELEASE(peer)") && strstr(leases().cStr(), " fd00:7::100 ") == nullptr;
    });
    EXPECT_TRUE(tryReadFile(node.path("state/dhcp6-eth0")) == nullptr);
  });
}

// Catches: a DUID of the config that the server does not see; a client that keeps the lease of the
// DUID before.
TEST(Dhcp, TheServerKnowsTheNodeByItsDuid) {
  onCable([](Cable& cable) {
    cable.router("fd00:7::100,fd00:7::1ff,64,2m");
    auto& node = cable.node;
    node.start();
    auto knows = [&](kj::StringPtr duid) {
      auto leases = tryReadFile(node.path("dnsmasq.leases")).orDefault(nullptr);
      return strstr(leases.cStr(), kj::str(" ", duid).cStr()) != nullptr;
    };
    node.until("a lease of the hardware address", [&] { return knows("00:03:00:01:"); });
    cable.duid = "00020000ab110705";
    cable.configChanged();
    node.until("a lease of the DUID", [&] { return knows("00:02:00:00:ab:11:07:05\n"); });
  });
}

// Another machine has been given the address by hand; the kernel finds that out.
TEST(Dhcp, AnAddressByDhcpv6InUseIsDeclined) {
  onCable([](Cable& cable) {
    auto& there = cable.server.there();
    auto peer = netlink::indexOf(there, "peer");
    auto taken = KJ_ASSERT_NONNULL(Prefix::parse("fd00:7::100/128"));
    netlink::addAddress(there, peer, taken);
    auto& node = cable.node;
    auto ready = [&](netlink::Kernel& kernel) {
      for (auto& a : kernel.addresses()) {
        constexpr uint32_t kNotReady = IFA_F_TENTATIVE | IFA_F_DADFAILED;
        if (a.prefix == taken && (a.flags & kNotReady) == 0) return true;
      }
      return false;
    };
    // While both only try for it, either may get it.
    netlink::setUp(*node.kernel, node.eth0);
    node.until("the other machine's address", [&] { return ready(there); });
    cable.router("fd00:7::100,fd00:7::100,64,2m");
    node.start();
    node.until("the refusal of it", [&] { return cable.said("DHCPDECLINE(peer)"); });
    netlink::change(there, netlink::DeleteAddress{{.link = peer, .prefix = taken}});
    node.until("the address, which is free now", [&] { return ready(*node.kernel); });
    EXPECT_TRUE(tryReadFile(node.path("state/dhcp6-eth0")) != nullptr);
  });
}

// A router whose network gives addresses by autoconfiguration, and has a server only for the rest.
TEST(Dhcp, TheKernelMakesTheAddressAndDhcpv6TellsTheRest) {
  onCable([](Cable& cable) {
    cable.router("fd00:7::,ra-stateless");
    auto& node = cable.node;
    node.start();
    node.until("an address", [&] {
      for (auto& a : node.kernel->addresses()) {
        if (KJ_ASSERT_NONNULL(Prefix::parse("fd00:7::/64")).contains(a.prefix.address)) return true;
      }
      return false;
    });
    node.until("what the server knows", [&] {
      KJ_IF_MAYBE (router, node.store.tryGet<rpc::OperatorStatusSpec>("ra/eth0")) {
        return texts(router->getDnsServers()) == "fd00:7::53" &&
               texts(router->getTimeServers()) == "fd00:7::7b";
      }
      return false;
    });
    node.until("the resolver file", [&] {
      return tryReadFile(node.path("state/resolv.conf")).orDefault(nullptr) ==
             "nameserver fd00:7::53\nsearch six.example\n";
    });
  });
}

}  // namespace
}  // namespace talos
