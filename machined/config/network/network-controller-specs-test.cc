// The specs for networkd from command line, config and links.
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/network/network-controller.h"
#include "machined/config/network/test-network-config.h"
#include "rpc/local.capnp.h"

namespace talos::machined {
namespace {

struct NetworkSpecsTest : public ConfigTest {
  ~NetworkSpecsTest() noexcept override {}

  // Calls `each` with type, ID and content of each spec of this config.
  template <typename F>
  void eachSpec(const MachineText& machine, F&& each, kj::StringPtr commandLine = "") {
    KernelArguments arguments(commandLine.asArray());
    NetworkSpecs specs(arguments, machine.get(), store);
    capnp::MallocMessageBuilder message;
    auto list = message.initRoot<rpc::Networkd::PlanParams>().initSpecs(specs.size());
    specs.fill(list);
    for (auto one : list.asReader()) {
      each(one.getMetadata().getType(), one.getMetadata().getId(), one.getSpec());
    }
  }
};

// Catches: IDs, which users see, that depend on the order of changes.
TEST_F(NetworkSpecsTest, TheNetworksSpecsFollowCommandLineConfigAndLinks) {
  auto ids = [&] {
    poll();
    kj::Vector<kj::String> result;
    for (auto link : store.list<rpc::LinkSpecSpec>()) result.add(kj::str(link.id()));
    for (auto address : store.list<rpc::AddressSpecSpec>()) result.add(kj::str(address.id()));
    for (auto route : store.list<rpc::RouteSpecSpec>()) result.add(kj::str(route.id()));
    return joined(result);
  };
  auto hostname = [&] {
    auto spec = KJ_ASSERT_NONNULL(store.tryGet<rpc::HostnameSpecSpec>("hostname"));
    return kj::str(spec.getHostname());
  };
  present = false;
  KernelArguments arguments("ip=10.5.0.2::10.5.0.1:255.255.255.0:node"_kj.asArray());
  runtime.add(kj::heap<NetworkController>(arguments, reader()));
  EXPECT_EQ(ids(), "") << "no link is known yet";
  EXPECT_EQ(hostname(), "node");
  put<rpc::LinkStatusSpec>("lo", [](auto spec) {
    spec.setIndex(1);
    spec.setType("loopback");
  });
  put<rpc::LinkStatusSpec>("eth0", [](auto spec) {
    spec.setIndex(2);
    spec.setType("ether");
  });
  EXPECT_EQ(ids(), "eth0 eth0/10.5.0.2/24 eth0/inet4/10.5.0.1//10");
  auto route = KJ_ASSERT_NONNULL(store.tryGet<rpc::RouteSpecSpec>("eth0/inet4/10.5.0.1//10"));
  EXPECT_EQ(route.getDestination(), "");
  EXPECT_EQ(route.getGateway(), "10.5.0.1");
  EXPECT_EQ(route.getMetric(), 10u);
  EXPECT_EQ(route.getLayer(), "cmdline");

  present = true;
  network = [](config::Network::Builder network) {
    network.setHostname("configured");
    auto eth0 = network.initInterfaces(1)[0];
    eth0.setInterface("eth0");
    eth0.setCidr("192.168.1.5/24");
    auto route = eth0.initRoutes(1)[0];
    route.setNetwork("10.9.0.0/16");
    route.setGateway("192.168.1.9");
    route.setMetric(77);
  };
  runtime.poke("network.ConfigController");
  EXPECT_EQ(ids(), "eth0 eth0/192.168.1.5/24 eth0/inet4/192.168.1.9/10.9.0.0/16/77");
  EXPECT_EQ(hostname(), "configured");
  auto address = KJ_ASSERT_NONNULL(store.tryGet<rpc::AddressSpecSpec>("eth0/192.168.1.5/24"));
  EXPECT_EQ(address.getScope(), "global");
  EXPECT_EQ(address.getFamily(), "inet4");
  EXPECT_EQ(address.getLinkName(), "eth0");
}

// Catches: a token that vipd does not get, or that stays when the config no longer has it; an
// address without a provider that waits for one.
TEST_F(NetworkSpecsTest, TheTokenOfASharedAddressIsItsOwnRecord) {
  auto controller = kj::heap<NetworkController>(arguments, KJ_BIND_METHOD(config, tryConfig));
  auto shared = [&](kj::StringPtr vip) -> std::string {
    publish(kj::str("machine: {type: controlplane, network: {interfaces: [{interface: eth0, vip: ",
                    vip, "}]}}\n"));
    controller->reconcile(store).wait(io.waitScope);
    kj::Vector<kj::String> result;
    for (auto spec : store.list<rpc::VipSpecSpec>()) {
      result.add(kj::str(spec.id(), " at ", spec.getProvider()));
    }
    for (auto secret : store.list<rpc::VipCredentialsSpec>()) {
      result.add(kj::str(secret.id(), " with ", secret.getApiToken()));
    }
    return kj::strArray(result, ", ").cStr();
  };
  EXPECT_EQ(shared("{ip: 10.0.0.9, hcloud: {apiToken: t}}"), "10.0.0.9 at hcloud, 10.0.0.9 with t");
  EXPECT_EQ(shared("{ip: 10.0.0.9}"), "10.0.0.9 at ");
}

// Catches: a resolver that pods cannot reach, because lo does not have its address; an address that
// stays after the resolver, or that other machines could use; a dry run that says that it goes.
TEST_F(NetworkSpecsTest, TheAddressOfTheResolverFollowsTheConfig) {
  auto controller = kj::heap<NetworkController>(arguments, KJ_BIND_METHOD(config, tryConfig));
  auto addresses = [&](kj::StringPtr features) {
    publish(kj::str("machine: {type: worker, features: {hostDNS: {", features,
                    "}}}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}, network: "
                    "{podSubnets: [10.4.0.0/16, 'fd00:4::/56'], serviceSubnets: [10.5.0.0/16, "
                    "'fd00:5::/112']}}\n"));
    controller->reconcile(store).wait(io.waitScope);
    kj::Vector<kj::String> shown;
    for (auto spec : store.list<rpc::AddressSpecSpec>()) {
      shown.add(kj::str(spec.id(), " ", spec.getLinkName(), " ", spec.getScope()));
    }
    return std::string(kj::strArray(shown, ", ").cStr());
  };
  EXPECT_EQ("", addresses("enabled: true"));
  EXPECT_EQ("lo/169.254.116.108/32 lo host, lo/fd54:616c:6f73:0:204f:5320:444e:531/128 lo host",
            addresses("enabled: true, forwardKubeDNSToHost: true"));
  EXPECT_EQ("", addresses("forwardKubeDNSToHost: true"));
  auto resolver = Ip::require("169.254.116.108");
  NetworkSpecs preview(arguments, config.machine(store), store, kj::arrayPtr(&resolver, 1));
  EXPECT_EQ(1u, preview.size());
}

// Catches: specs of a preview that differ from those that would be stored, or that are stored.
TEST_F(NetworkSpecsTest, TheSpecsOfAnotherConfigAreThoseThatItWouldGive) {
  put<rpc::LinkStatusSpec>("eth0", [](auto spec) {
    spec.setIndex(2);
    spec.setType("ether");
  });
  MachineText config(
      "interfaces: [{interface: eth0, cidr: 192.168.1.5/24,"
      " routes: [{network: 10.9.0.0/16, gateway: 192.168.1.9, metric: 77}]}]");
  kj::Vector<kj::String> ids;
  auto look = [&](kj::StringPtr type, kj::StringPtr id, capnp::AnyPointer::Reader spec) {
    ids.add(kj::str(type, " ", id));
    if (type == typeName<rpc::AddressSpecSpec>()) {
      EXPECT_EQ(spec.getAs<rpc::AddressSpecSpec>().getAddress(), "192.168.1.5/24");
    }
  };
  eachSpec(config, look, "ip=dhcp");
  EXPECT_EQ(kj::strArray(ids, ", "),
            "LinkSpecs.net.talos.dev eth0, AddressSpecs.net.talos.dev eth0/192.168.1.5/24, "
            "RouteSpecs.net.talos.dev eth0/inet4/192.168.1.9/10.9.0.0/16/77");
  EXPECT_EQ(store.list<rpc::LinkSpecSpec>().size(), 0u);
}

// Catches: an option of a route or a VLAN that is lost between the config and the spec.
TEST_F(NetworkSpecsTest, OptionsOfRoutesAndVlansAreInTheirSpecs) {
  MachineText config(
      "interfaces: [{interface: eth0, cidr: 10.0.0.2/24, routes: [{network: 10.9.0.0/16,"
      " gateway: 192.168.1.9, source: 10.0.0.2, mtu: 1400, onlink: true},"
      " {network: 10.8.0.0/16, type: prohibit}], vlans: [{vlanId: 5, mtu: 1380}]}]");
  kj::Vector<kj::String> specs;
  eachSpec(config, [&](kj::StringPtr type, kj::StringPtr id, capnp::AnyPointer::Reader spec) {
    if (type == typeName<rpc::LinkSpecSpec>() && id == "eth0.5") {
      specs.add(kj::str("mtu ", spec.getAs<rpc::LinkSpecSpec>().getMtu()));
    }
    if (type != typeName<rpc::RouteSpecSpec>()) return;
    auto route = spec.getAs<rpc::RouteSpecSpec>();
    specs.add(kj::str(id, ": ", route.getLinkName(), " ", route.getSource(), " ", route.getMtu(),
                      " ", route.getOnlink(), " ", route.getType()));
  });
  EXPECT_EQ(kj::strArray(specs, ", "),
            "mtu 1380, eth0/inet4/192.168.1.9/10.9.0.0/16/10: eth0 10.0.0.2 1400 true unicast, "
            "prohibit/inet4//10.8.0.0/16/10:   0 false prohibit");
}

// Catches: a rule that is missing from the preview, or has the id of another one; a table that is
// lost between the config and networkd.
TEST_F(NetworkSpecsTest, HaveTheRulesAndTables) {
  kj::StringPtr text =
      "machine: {type: controlplane}\n"
      "---\n{apiVersion: v1alpha1, kind: RoutingRuleConfig, name: '1500', table: 77, fwMark: 1, "
      "iifName: eth0}\n"
      "---\n{apiVersion: v1alpha1, kind: LinkConfig, name: eth0, routes: [{gateway: 10.0.0.1, "
      "table: 77}, {gateway: 10.0.0.1}]}\n";
  MachineText config(config::parse(text.asArray()));
  kj::Vector<kj::String> specs;
  eachSpec(config, [&](kj::StringPtr type, kj::StringPtr id, capnp::AnyPointer::Reader spec) {
    if (type == typeName<rpc::RoutingRuleSpecSpec>()) {
      auto rule = spec.getAs<rpc::RoutingRuleSpecSpec>();
      specs.add(kj::str("rule ", id, " ", rule.getFamily(), " ", rule.getFwMark(), " ",
                        rule.getInLinkName(), " ", rule.getTable(), " ", rule.getLayer()));
    }
    if (type == typeName<rpc::RouteSpecSpec>()) {
      specs.add(kj::str("route ", id, " ", spec.getAs<rpc::RouteSpecSpec>().getTable()));
    }
  });
  EXPECT_EQ(kj::strArray(specs, "\n"),
            "route eth0/inet4/10.0.0.1//1024 \n"
            "route eth0/inet4/10.0.0.1//1024/77 77\n"
            "rule inet4/1500 inet4 1 eth0 77 configuration\n"
            "rule inet6/1500 inet6 1 eth0 77 configuration");
}

// Catches: a default route without `network` that never reaches networkd.
TEST_F(NetworkSpecsTest, AGatewayAloneIsTheDefaultRoute) {
  MachineText config(
      "interfaces: [{interface: eth0, addresses: [10.0.0.5/24],"
      " routes: [{gateway: 10.0.0.1}, {network: '', gateway: 'fe80::1', metric: 20}]}]");
  kj::Vector<kj::String> specs;
  eachSpec(config, [&](kj::StringPtr type, kj::StringPtr id, capnp::AnyPointer::Reader spec) {
    if (type != typeName<rpc::RouteSpecSpec>()) return;
    auto route = spec.getAs<rpc::RouteSpecSpec>();
    specs.add(kj::str(id, ": ", route.getFamily(), " ", route.getGateway(), " ",
                      route.getLinkName(), " ", route.getDestination().size()));
  });
  EXPECT_EQ(kj::strArray(specs, ", "),
            "eth0/inet4/10.0.0.1//10: inet4 10.0.0.1 eth0 0, "
            "eth0/inet6/fe80::1//20: inet6 fe80::1 eth0 0");
}

// Catches: an answer of apply that blames the config for a kernel parameter, or does not name a
// route that is left out.
TEST_F(NetworkSpecsTest, ProblemsOfTheConfigAreNotThoseOfTheCommandLine) {
  MachineText config(
      "interfaces: [{interface: eth0, cidr: 10.0.0.2/24,"
      " routes: [{gateway: 10.0.0.1}, {gateway: 10.0.0.9}]}]");
  KernelArguments wrong("ip=10.0.0.2:::"_kj.asArray());
  EXPECT_EQ(NetworkSpecs(wrong, config.get(), store).problems().size(), 2u);
  EXPECT_EQ(kj::strArray(networkConfigProblems(wrong, config.get(), store), "\n"),
            "eth0: the route to 0.0.0.0/0 is ignored: another route of metric 10 has the same "
            "network; set another metric");
}

// Catches: a selector that uses the values which a bond has given its members, or matches a link
// that networkd made or that is not hardware.
TEST_F(NetworkSpecsTest, SelectorsSeeWhatALinkIsByItself) {
  struct Row {
    kj::StringPtr name, address, permanent, memberKind, kind;
    bool made;
  };
  unsigned index = 1;
  for (auto& row : {Row{"eth0", "02:00:00:00:00:99", "02:00:00:00:00:01", "bond", "", false},
                    Row{"eth1", "02:00:00:00:00:02", "02:00:00:00:00:07", "bridge", "", false},
                    Row{"eth2", "02:00:00:00:00:08", "", "bond", "", false},
                    Row{"bond0", "02:00:00:00:00:99", "", "", "bond", true},
                    Row{"veth0", "02:00:00:00:00:04", "", "", "veth", false}}) {
    put<rpc::LinkStatusSpec>(row.name, [&](auto spec) {
      spec.setIndex(++index);
      spec.setType("ether");
      spec.setHardwareAddress(row.address);
      spec.setPermanentAddress(row.permanent);
      spec.setMemberKind(row.memberKind);
      spec.setKind(row.kind);
      spec.setLogical(row.made);
    });
  }
  auto chosen = [&](kj::StringPtr address, bool physical) {
    MachineText config(kj::str("interfaces: [{deviceSelector: {hardwareAddr: '", address,
                               "', physical: ", physical, "}, cidr: 10.0.0.2/24}]"));
    kj::Vector<kj::String> specs;
    eachSpec(config, [&](kj::StringPtr type, kj::StringPtr, capnp::AnyPointer::Reader spec) {
      if (type == typeName<rpc::LinkSpecSpec>()) {
        auto problem = spec.getAs<rpc::LinkSpecSpec>().getProblem();
        if (problem.size() > 0) specs.add(kj::str(problem));
      }
      if (type != typeName<rpc::AddressSpecSpec>()) return;
      specs.add(kj::str(spec.getAs<rpc::AddressSpecSpec>().getLinkName()));
    });
    return joined(specs);
  };
  EXPECT_EQ(chosen("02:00:00:00:00:01", true), "eth0");
  EXPECT_EQ(chosen("02:00:00:00:00:02", false), "eth1");
  EXPECT_EQ(chosen("02:00:00:00:00:08", false), "eth2") << "it has no other";
  EXPECT_EQ(chosen("02:00:00:00:00:99", false),
            "deviceSelector hardwareAddr=02:00:00:00:00:99: no such link");
  EXPECT_EQ(chosen("02:00:00:00:00:04", false), "veth0");
  EXPECT_EQ(chosen("02:00:00:00:00:04", true),
            "deviceSelector hardwareAddr=02:00:00:00:00:04,physical: no such link");
}

}  // namespace
}  // namespace talos::machined
