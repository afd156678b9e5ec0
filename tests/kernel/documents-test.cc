// The network snippets of the users' documents, from their text to the kernel, read back by
// programs that are not ours: iproute2 and the files of the drivers.
#include "common/base/file.h"
#include "common/config/config.h"
#include "common/netlink/test-netlink.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/network/network-config-plan.h"
#include "networkd/plan/wanted-specs.h"
#include "tests/kernel/namespaces.h"
#include "tests/kernel/programs.h"

namespace talos {
namespace {

constexpr kj::StringPtr kPrivate = "YAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="_kj;
constexpr kj::StringPtr kPeer = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="_kj;

// All of the way: the text of a document, the parsed config, the specs as they stand in the store,
// the plan.
void applyText(kj::StringPtr interfaces) {
  auto known = machined::knownConfig(machined::configWithInterfaces(interfaces));
  KernelArguments arguments(""_kj.asArray());
  auto network = machined::planNetwork(arguments, known.get().getMachine(), nullptr);
  EXPECT_EQ(kj::strArray(network.problems, "\n"), "");
  networkd::Wanted wanted;
  for (auto& link : network.links) {
    capnp::MallocMessageBuilder message;
    message.setRoot(link.spec.get());
    auto spec = message.getRoot<rpc::LinkSpecSpec>();
    spec.setName(link.name);
    spec.setUp(true);
    spec.setMtu(link.mtu);
    networkd::addLink(wanted, link.name, 1, spec.asReader());
    if (link.privateKey == nullptr) continue;
    auto key = message.initRoot<rpc::WireguardKeySpec>();
    key.setPrivateKey(kPrivate);
    networkd::addWireguardKey(wanted, link.name, key.asReader());
  }
  for (auto& address : network.addresses) {
    wanted.addresses.add(networkd::WantedAddress{
        .link = kj::str(address.link), .prefix = address.prefix, .order = address.order});
  }
  for (auto& route : network.routes) {
    capnp::MallocMessageBuilder message;
    auto spec = message.initRoot<rpc::RouteSpecSpec>();
    spec.setFamily(route.destination.address.family() == AF_INET6 ? "inet6" : "inet4");
    if (route.destination.length > 0) spec.setDestination(route.destination.toString());
    KJ_IF_MAYBE (gateway, route.gateway) spec.setGateway(gateway->toString());
    KJ_IF_MAYBE (source, route.source) spec.setSource(source->toString());
    spec.setLinkName(route.link);
    spec.setMetric(route.metric);
    spec.setMtu(route.mtu);
    spec.setOnlink(route.onlink);
    spec.setType(route.type);
    networkd::addRoute(wanted, "route", 1, spec.asReader());
  }
  EXPECT_EQ(kj::strArray(wanted.problems, "\n"), "");
  auto kernel = netlink::openKernel();
  for (unsigned round = 0; round < 8; ++round) {
    auto todo = networkd::plan(wanted, networkd::observe(*kernel, true, 1000000000));
    if (todo.steps.size() == 0) {
      EXPECT_EQ(kj::strArray(todo.problems, "\n"), "");
      return;
    }
    auto changes = KJ_MAP(step, todo.steps) {
      return kj::mv(step.change);
    };
    for (auto& failure : kernel->apply(changes)) {
      KJ_IF_MAYBE (f, failure) ADD_FAILURE() << f->message.cStr();
    }
  }
  ADD_FAILURE() << "does not settle";
}

class Documents : public testing::Test {
 public:
  ~Documents() noexcept override {}

 protected:
  Namespace ns;
  // Runs the body in a namespace with the cards eth0 and eth1.
  void inside(kj::Function<void()> body) {
    ns.run([&] {
      auto kernel = netlink::openKernel();
      for (auto name : {"eth0"_kj, "eth1"_kj}) {
        netlink::addVeth(*kernel, name, kj::str("far-", name));
        netlink::setUp(*kernel, netlink::indexOf(*kernel, kj::str("far-", name)));
      }
      body();
    });
  }
};

// The snippets of the documents, from here on. Catches: a value that arrives as another.
TEST_F(Documents, StaticAddressing) {
  inside([] {
    auto kernel = netlink::openKernel();
    // Another program uses the card that is to be ignored.
    auto ignored = netlink::indexOf(*kernel, "eth1");
    netlink::addAddress(*kernel, ignored, prefix("192.0.2.7/24"));
    netlink::setUp(*kernel, ignored);
    netlink::change(*kernel, netlink::SetLink{.index = ignored, .mtu = 1400u});
    applyText(
        "      - interface: eth0\n"
        "        cidr: 10.0.0.201/8\n"
        "        mtu: 8765\n"
        "        routes:\n"
        "          - network: 0.0.0.0/0\n"
        "            gateway: 10.0.0.1\n"
        "      - interface: eth1\n"
        "        ignore: true\n");
    expectAll(ip({"-j", "address", "show", "dev", "eth0"}),
              {"\"mtu\":8765", "\"local\":\"10.0.0.201\",\"prefixlen\":8", "UP"});
    expectAll(ip({"-j", "route", "show", "default"}),
              {"\"dst\":\"default\",\"gateway\":\"10.0.0.1\",\"dev\":\"eth0\"", "\"metric\":10"});
    expectAll(ip({"-4", "-j", "address", "show", "dev", "eth1"}),
              {"\"mtu\":1400", "\"local\":\"192.0.2.7\",\"prefixlen\":24", "UP"});
  });
}

TEST_F(Documents, SeveralAddressesOnLoopback) {
  inside([] {
    applyText(
        "      - interface: lo0\n"
        "        cidr: 192.168.0.21/24\n"
        "      - interface: lo0\n"
        "        cidr: 10.2.2.2/24\n");
    expectAll(
        ip({"-j", "address", "show", "dev", "lo"}),
        {"\"local\":\"127.0.0.1\",\"prefixlen\":8", "\"local\":\"192.168.0.21\",\"prefixlen\":24",
         "\"local\":\"10.2.2.2\",\"prefixlen\":24"});
  });
}

TEST_F(Documents, Bonding) {
  inside([] {
    applyText(
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
        "            - eth1\n");
    expectAll(ip({"-d", "-j", "link", "show", "dev", "bond0"}),
              {"\"info_kind\":\"bond\"", "\"mode\":\"802.3ad\"", "\"miimon\":100",
               "\"updelay\":200", "\"downdelay\":200", "\"ad_lacp_rate\":\"fast\"",
               "\"xmit_hash_policy\":\"layer3+4\"", "\"group\":\"116\""});
    expectAll(readFile("/proc/thread-self/net/bonding/bond0"),
              {"Bonding Mode: IEEE 802.3ad Dynamic link aggregation",
               "Transmit Hash Policy: layer3+4 (1)", "MII Polling Interval (ms): 100",
               "Up Delay (ms): 200", "Down Delay (ms): 200", "LACP rate: fast",
               "Slave Interface: eth0", "Slave Interface: eth1"});
  });
}

TEST_F(Documents, Vlans) {
  inside([] {
    applyText(
        "      - interface: eth0\n"
        "        dhcp: false\n"
        "        vlans:\n"
        "          - vlanId: 100\n"
        "            cidr: \"192.168.2.10/28\"\n"
        "            routes:\n"
        "              - network: 0.0.0.0/0\n"
        "                gateway: 192.168.2.1\n");
    expectAll(
        ip({"-d", "-j", "link", "show", "dev", "eth0.100"}),
        {"\"link\":\"eth0\"", "\"info_kind\":\"vlan\"", "\"protocol\":\"802.1Q\",\"id\":100"});
    expectAll(ip({"-j", "address", "show", "dev", "eth0.100"}),
              {"\"local\":\"192.168.2.10\",\"prefixlen\":28"});
    expectAll(ip({"-j", "route", "show", "default"}),
              {"\"gateway\":\"192.168.2.1\",\"dev\":\"eth0.100\"", "\"metric\":10"});
  });
}

// The list dash and the colon of the endpoint are missing in the document; keys are only hinted at.
TEST_F(Documents, Wireguard) {
  inside([] {
    applyText(
        kj::str("      - interface: wg0\n"
                "        mtu: 1500\n"
                "        cidr: 192.168.2.1/24\n"
                "        wireguard:\n"
                "          privateKey: ",
                kPrivate,
                "\n"
                "          listenPort: 51820\n"
                "          peers:\n"
                "            allowedIPs:\n"
                "              - 192.168.88.0/24\n"
                "            endpoint: 209.202.254.14.8172\n"
                "            publicKey: ",
                kPeer, "\n"));
    expectAll(ip({"-d", "-j", "link", "show", "dev", "wg0"}),
              {"\"info_kind\":\"wireguard\"", "\"mtu\":1500", "UP"});
    auto kernel = netlink::openKernel();
    auto device = kernel->wireguard(netlink::indexOf(*kernel, "wg0"));
    EXPECT_EQ(device.listenPort, 51820);
    ASSERT_EQ(device.peers.size(), 1u);
    EXPECT_EQ(netlink::toText(device.peers[0].publicKey), kPeer);
    EXPECT_EQ(device.peers[0].endpoint->toString(), "209.202.254.14:8172");
    ASSERT_EQ(device.peers[0].allowed.size(), 1u);
    EXPECT_EQ(device.peers[0].allowed[0], prefix("192.168.88.0/24"));
    // Key, public key, port, mark; then of the peer: key, no shared key, endpoint, networks, no
    // handshake, nothing received.
    auto dump = output("wg", {"show", "wg0", "dump"});
    EXPECT_TRUE(
        dump.startsWith(kj::str(kPrivate, "\t", netlink::toText(device.publicKey), "\t51820\toff\n",
                                kPeer, "\t(none)\t209.202.254.14:8172\t192.168.88.0/24\t0\t0\t")))
        << dump.cStr();
  });
}

TEST_F(Documents, Bridge) {
  inside([] {
    applyText(
        "      - interface: br0\n"
        "        addresses: [192.168.3.1/24, 192.168.3.9/24]\n"
        "        bridge:\n"
        "          stp: {enabled: true}\n"
        "          vlan: {vlanFiltering: true}\n"
        "          interfaces:\n"
        "            - eth0\n"
        "            - eth1\n"
        "        vlans:\n"
        "          - vlanId: 7\n"
        "            mtu: 1400\n"
        "            addresses: [192.168.7.1/24]\n");
    expectAll(ip({"-d", "-j", "link", "show", "dev", "br0"}),
              {"\"info_kind\":\"bridge\"", "\"stp_state\":1", "\"vlan_filtering\":1", "UP"});
    for (auto port : {"eth0", "eth1"}) {
      expectAll(ip({"-d", "-j", "link", "show", "dev", port}),
                {"\"master\":\"br0\"", "\"info_slave_kind\":\"bridge\""});
    }
    auto addresses = ip({"-j", "address", "show", "dev", "br0"});
    expectAll(addresses, {"\"local\":\"192.168.3.1\"", "\"secondary\":true"});
    EXPECT_GT(strstr(addresses.cStr(), "\"secondary\":true"),
              strstr(addresses.cStr(), "192.168.3.9\""));
    expectAll(ip({"-d", "-j", "link", "show", "dev", "br0.7"}), {"\"mtu\":1400", "\"id\":7"});
  });
}

TEST_F(Documents, Routes) {
  inside([] {
    applyText(
        "      - interface: eth0\n"
        "        addresses: [192.168.4.2/24, 192.168.4.3/24, 'fd00:4::2/64']\n"
        "        routes:\n"
        "          - {network: 10.1.0.0/16, gateway: 192.168.4.1, source: 192.168.4.3}\n"
        "          - {network: 10.2.0.0/16, gateway: 192.168.4.1, mtu: 1400, metric: 20}\n"
        "          - {network: 10.3.0.0/16, gateway: 203.0.113.1, onlink: true}\n"
        "          - {network: 10.4.0.0/16, type: blackhole}\n"
        "          - {network: 10.5.0.0/16, type: unreachable}\n"
        "          - {network: 10.6.0.0/16, type: prohibit}\n"
        "          - {network: '2001:db8:1::/48', gateway: 'fd00:4::1', mtu: 1300}\n"
        "          - {network: '2001:db8:2::/48', gateway: 'fe80::1', onlink: true}\n"
        "          - {network: '2001:db8:3::/48', type: blackhole}\n");
    auto routes = ip({"-j", "route", "show", "proto", "116"});
    expectAll(routes, {"\"dst\":\"10.1.0.0/16\",\"gateway\":\"192.168.4.1\",\"dev\":\"eth0\","
                       "\"prefsrc\":\"192.168.4.3\",\"metric\":10",
                       "\"dst\":\"10.2.0.0/16\",\"gateway\":\"192.168.4.1\",\"dev\":\"eth0\","
                       "\"metric\":20,\"flags\":[],\"metrics\":[{\"mtu\":1400}]",
                       "\"dst\":\"10.3.0.0/16\",\"gateway\":\"203.0.113.1\",\"dev\":\"eth0\","
                       "\"metric\":10,\"flags\":[\"onlink\"]",
                       "\"type\":\"blackhole\",\"dst\":\"10.4.0.0/16\",\"metric\":10",
                       "\"type\":\"unreachable\",\"dst\":\"10.5.0.0/16\",\"metric\":10",
                       "\"type\":\"prohibit\",\"dst\":\"10.6.0.0/16\",\"metric\":10"});
    expectAll(ip({"-6", "-j", "route", "show", "proto", "116"}),
              {"\"dst\":\"2001:db8:1::/48\",\"gateway\":\"fd00:4::1\"", "\"mtu\":1300",
               "\"dst\":\"2001:db8:2::/48\",\"gateway\":\"fe80::1\"", "\"onlink\"",
               "\"type\":\"blackhole\",\"dst\":\"2001:db8:3::/48\""});
  });
}

// Catches: a legal option of a bond that the kernel refuses, or that gets another value, anywhere
// between the document and the output of other programs. common/config/config-bond-test.cc has the
// legal options.
TEST_F(Documents, EveryLegalOptionOfEveryBondingMode) {
  struct Row {
    const char *option, *value, *json;
    const char *modes, *proc = "", *with = "";
  };
  constexpr const char *kAll = "0123456", *kMii = "miimon: 100",
                       *kArp = "arpInterval: 100, arpIPTarget: [10.5.0.1]";
  const Row rows[] = {
      {"miimon", "100", "\"miimon\":100", kAll, "MII Polling Interval (ms): 100"},
      {"updelay", "200", "\"updelay\":200", kAll, "Up Delay (ms): 200", kMii},
      {"downdelay", "200", "\"downdelay\":200", kAll, "Down Delay (ms): 200", kMii},
      {"peerNotifyDelay", "200", "\"peer_notify_delay\":200", "1",
       "Peer Notification Delay (ms): 200", kMii},
      {"useCarrier", "false", "\"use_carrier\":0", kAll},
      {"arpInterval", "50", "\"arp_interval\":50", "0123", "ARP Polling Interval (ms): 50",
       "arpIPTarget: [10.5.0.1]"},
      {"arpIPTarget", "[10.5.0.1, 10.5.0.9]", "\"10.5.0.9\"", "0123",
       "ARP IP target/s (n.n.n.n form): 10.5.0.1, 10.5.0.9", "arpInterval: 100"},
      {"arpValidate", "all", "\"arp_validate\":\"all\"", "0123", "", kArp},
      {"arpAllTargets", "all", "\"arp_all_targets\":\"all\"", "1", "", kArp},
      {"primary", "eth1", "\"primary\":\"eth1\"", "156", "Primary Slave: eth1"},
      {"primaryReselect", "better", "\"primary_reselect\":\"better\"", "156", "", "primary: eth1"},
      {"failOverMac", "active", "\"fail_over_mac\":\"active\"", "1", "(fail_over_mac active)"},
      {"xmitHashPolicy", "layer3+4", "\"xmit_hash_policy\":\"layer3+4\"", "245"},
      {"resendIgmp", "255", "\"resend_igmp\":255", "0156"},
      {"numPeerNotif", "255", "\"num_peer_notif\":255", "1"},
      {"allSlavesActive", "1", "\"all_slaves_active\":1", kAll},
      {"minLinks", "2", "\"min_links\":2", "4"},
      {"lpInterval", "5", "\"lp_interval\":5", "56"},
      {"packetsPerSlave", "0", "\"packets_per_slave\":0", "0"},
      {"lacpRate", "fast", "\"ad_lacp_rate\":\"fast\"", "4", "LACP rate: fast"},
      {"adSelect", "count", "\"ad_select\":\"count\"", "4",
       "Aggregator selection policy (ad_select): count"},
      {"adActorSysPrio", "1", "\"ad_actor_sys_prio\":1", "4", "System priority: 1\n"},
      {"adUserPortKey", "1023", "\"ad_user_port_key\":1023", "4"},
      {"adActorSystem", "'02:00:00:00:00:01'", "\"ad_actor_system\":\"02:00:00:00:00:01\"", "4",
       "System MAC address: 02:00:00:00:00:01"},
      {"tlbDynamicLb", "0", "\"tlb_dynamic_lb\":0", "56"},
  };
  constexpr const char* kModes[] = {"balance-rr", "active-backup", "balance-xor", "broadcast",
                                    "802.3ad",    "balance-tlb",   "balance-alb"};
  unsigned held = 0;
  inside([&] {
    auto kernel = netlink::openKernel();
    for (auto& row : rows) {
      for (const char* digit = row.modes; *digit != 0; ++digit) {
        auto mode = kModes[*digit - '0'];
        SCOPED_TRACE(kj::str(row.option, " in ", mode).cStr());
        applyText(kj::str(
            "      - interface: bond0\n        bond: {interfaces: [eth0, eth1], mode: ", mode, ", ",
            row.option, ": ", row.value, *row.with != 0 ? ", " : "", row.with, "}\n"));
        expectAll(ip({"-d", "-j", "link", "show", "dev", "bond0"}),
                  {row.json, kj::str("\"mode\":\"", mode, "\"")});
        expectAll(readFile("/proc/thread-self/net/bonding/bond0"), {row.proc});
        netlink::change(*kernel, netlink::DeleteLink{netlink::indexOf(*kernel, "bond0")});
        ++held;
      }
    }
  });
  printf("  %u options of bonds set and read back\n", held);
}

}  // namespace
}  // namespace talos
