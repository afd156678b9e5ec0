// VRFs, pairs of veth, tables, routing rules and blackhole routes, from the text of their documents
// to the kernel and to packets, read back by iproute2.
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "common/config/documents/test-documents.h"
#include "common/netlink/test-netlink.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/network/network-controller.h"
#include "networkd/plan/plan-preview.h"
#include "networkd/plan/wanted-specs.h"
#include "rpc/local.capnp.h"
#include "tests/kernel/namespaces.h"
#include "tests/kernel/programs.h"

namespace talos {
namespace {

class Routing : public testing::Test {
 public:
  ~Routing() noexcept override {}

 protected:
  Registry registry;
  machined::TestClock clock;
  machined::Store store{registry, clock};
  Namespace ns;
  std::set<uint32_t> tables;

  // Runs the body in a namespace with the cards eth0 and eth1.
  void inside(kj::Function<void(netlink::Kernel&)> body) {
    ns.run([&] {
      auto kernel = netlink::openKernel();
      for (auto name : {"eth0"_kj, "eth1"_kj}) {
        netlink::addVeth(*kernel, name, kj::str("far-", name));
        netlink::setUp(*kernel, netlink::indexOf(*kernel, kj::str("far-", name)));
      }
      body(*kernel);
    });
  }

  // Makes the network of these documents; returns the steps that it took.
  unsigned apply(netlink::Kernel& kernel, std::initializer_list<const char*> documents) {
    auto text = config::mainDocument();
    for (auto document : documents) text += config::oneDocument(document);
    EXPECT_EQ(config::problemsIn(text), "");
    auto config = config::parsed(text);
    KernelArguments arguments(""_kj.asArray());
    machined::NetworkSpecs specs(arguments, config.get().getMachine(), store);
    EXPECT_EQ(kj::strArray(specs.problems(), "\n"), "");
    capnp::MallocMessageBuilder message;
    auto list = message.initRoot<rpc::Networkd::PlanParams>().initSpecs(specs.size());
    specs.fill(list);
    auto wanted = networkd::wantedOf(list.asReader());
    EXPECT_EQ(kj::strArray(wanted.problems, "\n"), "");
    networkd::addTables(tables, wanted);
    unsigned steps = 0;
    for (unsigned round = 0; round < 8; ++round) {
      auto todo = networkd::plan(wanted, networkd::observe(kernel, true, 1000000000, tables));
      if (todo.steps.size() == 0) {
        EXPECT_EQ(kj::strArray(todo.problems, "\n"), "");
        return steps;
      }
      steps += todo.steps.size();
      auto changes = KJ_MAP(step, todo.steps) {
        return kj::mv(step.change);
      };
      for (auto& failure : kernel.apply(changes)) {
        KJ_IF_MAYBE (f, failure) ADD_FAILURE() << f->message.cStr();
      }
    }
    ADD_FAILURE() << "does not settle";
    return steps;
  }
};

kj::String lines(std::initializer_list<const char*> words) {
  return ip(words);
}

// Returns the error of a route to the address for a packet with this mark; 0 if there is one.
int reach(kj::StringPtr to, uint32_t mark = 0) {
  auto address = Ip::require(to);
  int raw;
  KJ_SYSCALL(raw = socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd fd(raw);
  KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)));
  sockaddr_in6 six{};
  sockaddr_in four{};
  bool v4 = address.family() == AF_INET;
  auto bytes = address.bytes();
  memcpy(v4 ? static_cast<void*>(&four.sin_addr) : &six.sin6_addr, bytes.begin(), bytes.size());
  four.sin_family = AF_INET, six.sin6_family = AF_INET6;
  four.sin_port = six.sin6_port = htons(9);
  auto place = v4 ? reinterpret_cast<sockaddr*>(&four) : reinterpret_cast<sockaddr*>(&six);
  return connect(fd, place, v4 ? sizeof(four) : sizeof(six)) == 0 ? 0 : errno;
}

// Catches: a VRF that the kernel makes with another table or without its links; a routed table that
// no packet uses; anything that stays when the documents are removed.
TEST_F(Routing, AVrfWithTwoLinksAndARoutedTable) {
  inside([&](netlink::Kernel& kernel) {
    auto eth0 =
        "kind: LinkConfig, name: eth0, addresses: [{address: 10.1.0.2/24}, {address: "
        "'fd00:1::2/64'}], routes: [{gateway: 10.1.0.1, table: 77}]";
    auto eth1 = "kind: LinkConfig, name: eth1, addresses: [{address: 10.2.0.2/24}]";
    apply(kernel, {"kind: VRFConfig, name: red, table: 77, links: [eth0, eth1]", eth0, eth1});
    expectAll(lines({"-d", "-j", "link", "show", "dev", "red"}),
              {"\"info_kind\":\"vrf\"", "\"table\":77", "\"group\":\"116\"", "UP"});
    expectAll(lines({"-d", "-j", "link", "show", "master", "red"}),
              {"\"ifname\":\"eth0\"", "\"ifname\":\"eth1\"", "\"info_slave_kind\":\"vrf\""});
    expectAll(lines({"route", "show", "vrf", "red"}),
              {"default via 10.1.0.1 dev eth0 proto 116 metric 1024", "10.1.0.0/24 dev eth0",
               "10.2.0.0/24 dev eth1"});
    expectAll(lines({"-6", "-j", "address", "show", "dev", "eth0"}), {"\"local\":\"fd00:1::2\""});
    EXPECT_EQ(lines({"route", "show"}), "");
    // Packets of the VRF use its table; others do not.
    expectAll(lines({"route", "get", "vrf", "red", "192.0.2.1"}), {"via 10.1.0.1 dev eth0"});
    EXPECT_EQ(reach("192.0.2.1"), ENETUNREACH);
    // A second time there is nothing to do.
    EXPECT_EQ(
        apply(kernel, {"kind: VRFConfig, name: red, table: 77, links: [eth0, eth1]", eth0, eth1}),
        0u);
    // Another table: the VRF is made again, and keeps its links.
    apply(kernel, {"kind: VRFConfig, name: red, table: 78, links: [eth0, eth1]", eth1,
                   "kind: LinkConfig, name: eth0"});
    expectAll(lines({"route", "show", "vrf", "red"}), {"10.2.0.0/24 dev eth1"});
    EXPECT_EQ(lines({"route", "show", "table", "77"}), "");
    // Without the VRF its link is an ordinary one.
    apply(kernel, {eth1, "kind: LinkConfig, name: eth0"});
    EXPECT_TRUE(netlink::findLink(kernel, "red") == nullptr);
    expectAll(lines({"route", "show"}), {"10.2.0.0/24 dev eth1"});
    EXPECT_EQ(KJ_ASSERT_NONNULL(netlink::findLink(kernel, "eth1")).master, 0u);
  });
}

// Catches: an end without its address or MTU; a pair that no packet passes; an end that stays.
TEST_F(Routing, APairWithAddressesOnBothEnds) {
  inside([&](netlink::Kernel& kernel) {
    apply(kernel, {"kind: VethConfig, name: va, mtu: 1400, addresses: [{address: 10.3.0.1/30}], "
                   "peer: {name: vb, mtu: 1300, addresses: [{address: 10.3.0.2/30}]}"});
    expectAll(lines({"-d", "-j", "link", "show", "dev", "va"}),
              {"\"link\":\"vb\"", "\"info_kind\":\"veth\"", "\"mtu\":1400", "\"group\":\"116\"",
               "LOWER_UP"});
    expectAll(lines({"-d", "-j", "link", "show", "dev", "vb"}),
              {"\"link\":\"va\"", "\"mtu\":1300", "\"group\":\"116\"", "LOWER_UP"});
    expectAll(lines({"-j", "address", "show", "dev", "vb"}),
              {"\"local\":\"10.3.0.2\",\"prefixlen\":30"});
    unsigned before = netlink::indexOf(kernel, "va");
    apply(kernel, {"kind: VethConfig, name: va, peer: {name: vc}"});
    EXPECT_NE(netlink::indexOf(kernel, "va"), before);
    EXPECT_TRUE(netlink::findLink(kernel, "vb") == nullptr);
    apply(kernel, {});
    EXPECT_TRUE(netlink::findLink(kernel, "va") == nullptr);
    EXPECT_TRUE(netlink::findLink(kernel, "vc") == nullptr);
  });
}

// Catches: rules in another order than their priorities, or of one family alone; a rule that no
// packet uses; one that stays, or another program's that is removed.
TEST_F(Routing, RulesOfBothFamiliesInTheirOrder) {
  inside([&](netlink::Kernel& kernel) {
    netlink::demand(netlink::ruleMessage(
        RTM_NEWRULE, {.priority = 1600, .table = 5, .protocol = RTPROT_STATIC}));
    auto rules4 = lines({"-4", "rule"}), rules6 = lines({"-6", "rule"});
    auto link =
        "kind: LinkConfig, name: eth0, addresses: [{address: 10.1.0.2/24}, {address: "
        "'fd00:1::2/64'}], routes: [{gateway: 10.1.0.1, table: 77}, {gateway: 'fd00:1::1', table: "
        "77}]";
    apply(kernel, {"kind: RoutingRuleConfig, name: '1700', action: prohibit, dst: 192.0.2.0/24",
                   "kind: RoutingRuleConfig, name: '1500', table: 77, fwMark: 5", link});
    auto shown = lines({"-4", "rule"});
    expectAll(shown, {"1500:\tfrom all fwmark 0x5 lookup 77 proto 116\n1600:\tfrom all lookup 5 "
                      "proto static\n1700:\tfrom all to 192.0.2.0/24 prohibit proto 116\n"});
    expectAll(lines({"-6", "rule"}), {"1500:\tfrom all fwmark 0x5 lookup 77 proto 116\n"});
    EXPECT_EQ(reach("192.0.2.9"), EACCES);
    EXPECT_EQ(reach("192.0.2.9", 5), 0);
    EXPECT_EQ(reach("198.51.100.9"), ENETUNREACH);
    EXPECT_EQ(reach("198.51.100.9", 5), 0);
    EXPECT_EQ(reach("2001:db8::9"), ENETUNREACH);
    EXPECT_EQ(reach("2001:db8::9", 5), 0);
    EXPECT_EQ(
        apply(kernel,
              {"kind: RoutingRuleConfig, name: '1500', table: 77, fwMark: 5",
               "kind: RoutingRuleConfig, name: '1700', action: prohibit, dst: 192.0.2.0/24", link}),
        0u);
    apply(kernel, {});
    EXPECT_EQ(lines({"-4", "rule"}), rules4);
    EXPECT_EQ(lines({"-6", "rule"}), rules6);
    EXPECT_EQ(lines({"route", "show", "table", "77"}), "");
  });
}

// Catches: a blackhole of one family alone, in another table, or that stays.
TEST_F(Routing, ABlackholeDropsPackets) {
  inside([&](netlink::Kernel& kernel) {
    apply(kernel, {"kind: BlackholeRouteConfig, name: 10.200.0.0/16",
                   "kind: BlackholeRouteConfig, name: 'fd00:9::/32', metric: 7"});
    expectAll(lines({"route", "show"}), {"blackhole 10.200.0.0/16 proto 116 metric 1024"});
    expectAll(lines({"-6", "route", "show"}), {"blackhole fd00:9::/32 dev lo proto 116 metric 7"});
    EXPECT_EQ(reach("10.200.0.1"), EINVAL);
    EXPECT_EQ(reach("fd00:9::1"), EINVAL);
    apply(kernel, {});
    EXPECT_EQ(lines({"route", "show"}), "");
    EXPECT_EQ(reach("10.200.0.1"), ENETUNREACH);
  });
}

}  // namespace
}  // namespace talos
