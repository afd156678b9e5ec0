// The resolver of the node from the config, its hosts and the members of the cluster.
#include "machined/config/controllers/host-dns-controller.h"

#include "machined/config/controllers/test-machine-config.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

using HostList = capnp::List<rpc::HostDnsConfigSpec::Host>::Reader;

struct HostDnsControllerTest : public ConfigTest {
  ~HostDnsControllerTest() noexcept override {}

  kj::Own<Controller> controller = hostDnsController(deps);

  rpc::HostDnsConfigSpec::Reader spec() {
    controller->reconcile(store).wait(io.waitScope);
    return KJ_ASSERT_NONNULL(store.tryGet<rpc::HostDnsConfigSpec>(kHostDnsId));
  }
  void features(kj::StringPtr features, kj::StringPtr podSubnets = "10.4.0.0/16",
                kj::StringPtr network = "") {
    publish(kj::str("machine: {type: worker, features: {", features, "}, network: {", network,
                    "}}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}, network: "
                    "{podSubnets: [",
                    podSubnets, "]}}\n"));
  }
  // Returns the addresses at which the resolver listens after a config with these features; "off"
  // if it does not run.
  std::string listens(kj::StringPtr features, kj::StringPtr podSubnets = "10.4.0.0/16") {
    this->features(features, podSubnets);
    auto found = spec();
    if (!found.getEnabled()) return "off";
    return kj::strArray(found.getListenAddresses(), " ").cStr();
  }
  static std::string shown(HostList hosts) {
    std::string text;
    for (auto host : hosts) {
      text += kj::str(host.getAddress(), "=", kj::strArray(host.getNames(), ","), " ").cStr();
    }
    return text;
  }
  void member(kj::StringPtr name, std::initializer_list<kj::StringPtr> addresses) {
    putRecord<rpc::MemberSpec>(store, name, [&](auto member) {
      member.setHostname(name);
      auto list = member.initAddresses(static_cast<unsigned>(addresses.size()));
      unsigned i = 0;
      for (auto address : addresses) list.set(i++, address);
    });
  }
};

// Catches: a resolver that runs although the config does not say so, or does not; one that pods do
// not reach in their family; one that a restarted brain stops before it knows its config.
TEST_F(HostDnsControllerTest, ListensWhereTheConfigSays) {
  EXPECT_FALSE(spec().getEnabled()) << "without a config";
  EXPECT_EQ("off", listens(""));
  EXPECT_EQ("127.0.0.53:53", listens("hostDNS: {enabled: true}"));
  EXPECT_EQ("off", listens("hostDNS: {forwardKubeDNSToHost: true}"));
  constexpr auto kForward = "hostDNS: {enabled: true, forwardKubeDNSToHost: true}"_kj;
  EXPECT_EQ("127.0.0.53:53 [fd54:616c:6f73:0:204f:5320:444e:531]:53",
            listens(kForward, "'fd00:4::/56'"));
  EXPECT_EQ("fd54:616c:6f73:0:204f:5320:444e:531", kj::str(spec().getServiceHostDnsAddress()));
  EXPECT_EQ("127.0.0.53:53 169.254.116.108:53 [fd54:616c:6f73:0:204f:5320:444e:531]:53",
            listens(kForward, "10.4.0.0/16, 'fd00:4::/56'"));
  EXPECT_EQ("127.0.0.53:53 169.254.116.108:53",
            listens("hostDNS: {enabled: true, forwardKubeDNSToHost: true}"));
  EXPECT_EQ("169.254.116.108", kj::str(spec().getServiceHostDnsAddress()));
  MachineConfigReader restarted;
  std::swap(config, restarted);
  EXPECT_TRUE(spec().getEnabled());
}

// Catches: a host of the config, or the node's own name, that the resolver does not know.
TEST_F(HostDnsControllerTest, KnowsTheHostsOfTheConfigAndItself) {
  features("hostDNS: {enabled: true}", "10.4.0.0/16",
           "extraHostEntries: [{ip: 192.0.2.60, aliases: [reg.lab.test, reg]}]");
  EXPECT_EQ("192.0.2.60=reg.lab.test,reg ", shown(spec().getHosts()));
  putRecord<rpc::HostnameSpecSpec>(store, "hostname", [](auto spec) {
    spec.setHostname("w1");
    spec.setDomainname("lab.test");
  });
  putRecord<rpc::NodeAddressSpec>(store, "current",
                                  [](auto spec) { spec.initAddresses(1).set(0, "10.0.0.7"); });
  EXPECT_EQ("192.0.2.60=reg.lab.test,reg 10.0.0.7=w1,w1.lab.test ", shown(spec().getHosts()));
}

// Catches: members that are resolved although the config does not say so, or only by one of their
// names; a member that is gone and is still resolved.
TEST_F(HostDnsControllerTest, ResolvesMembersIfTheConfigSaysSo) {
  member("w1.lab.test", {"10.0.0.7", "fd00::7"});
  member("w2", {"10.0.0.8"});
  features("hostDNS: {enabled: true}");
  EXPECT_EQ("", shown(spec().getMembers()));
  features("hostDNS: {enabled: true, resolveMemberNames: true}");
  EXPECT_EQ("10.0.0.7=w1.lab.test,w1 fd00::7=w1.lab.test,w1 10.0.0.8=w2 ",
            shown(spec().getMembers()));
  EXPECT_TRUE(spec().getResolveMemberNames());
  destroyRecord<rpc::MemberSpec>(store, "w1.lab.test");
  EXPECT_EQ("10.0.0.8=w2 ", shown(spec().getMembers()));
}

}  // namespace
}  // namespace talos::machined
