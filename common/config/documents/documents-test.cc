#include "common/config/documents/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/config/config-reading.h"
#include "common/config/documents/test-documents.h"
#include "common/config/rules/config-check.h"
#include "common/text/foreign-text.h"
#include "common/tls/pki.h"
#include "common/yaml/yaml-codec.h"

namespace talos::config {
namespace {

using ::testing::HasSubstr;

std::string networkOf(const std::string& text) {
  auto config = parsed(text);
  EXPECT_EQ("", problemsIn(text)) << text;
  return codec::writeJson(config.get().getMachine().getNetwork()).cStr();
}

struct SameRow {
  const char *documents, *network;  // keys of documents, separated by a line; the old keys
};

// Catches: a document that means something else than the keys of the main document for the same; a
// key whose value is lost on the way; a default that differs from the document's.
TEST(Documents, MeanTheSameAsTheOldKeys) {
  const SameRow rows[] = {
      {"kind: HostnameConfig, hostname: n7.lab.test", "hostname: n7.lab.test"},
      {"kind: HostnameConfig, hostname: n7, auto: off", "hostname: n7"},
      {"kind: ResolverConfig, nameservers: [{address: 192.0.2.53}, {address: '2001:db8::1'}]",
       "nameservers: [192.0.2.53, '2001:db8::1']"},
      {"kind: ResolverConfig, searchDomains: {domains: [a.test], disableDefault: true}",
       "searchDomains: [a.test], disableSearchDomain: true"},
      {"kind: StaticHostConfig, name: 192.0.2.60, hostnames: [reg.lab.test, reg]",
       "extraHostEntries: [{ip: 192.0.2.60, aliases: [reg.lab.test, reg]}]"},
      {"kind: LinkConfig, name: up0, mtu: 1400, addresses: [{address: 198.51.100.7/24}], "
       "routes: [{gateway: 198.51.100.1}]",
       "interfaces: [{interface: up0, mtu: 1400, addresses: [198.51.100.7/24], routes: [{network: "
       "0.0.0.0/0, gateway: 198.51.100.1, metric: 1024}]}]"},
      {"kind: LinkConfig, name: up0, addresses: [{address: '2001:db8::7/64'}], "
       "routes: [{gateway: 'fe80::1'}, {destination: '2001:db8:9::/48', gateway: 'fe80::2', "
       "metric: "
       "7, mtu: 1280, source: '2001:db8::7', table: main}]",
       "interfaces: [{interface: up0, addresses: ['2001:db8::7/64'], routes: [{network: '::/0', "
       "gateway: 'fe80::1', metric: 1024}, {network: '2001:db8:9::/48', gateway: 'fe80::2', "
       "metric: 7, mtu: 1280, source: '2001:db8::7'}]}]"},
      // Metric 0 is the default, which differs from that of the old keys.
      {"kind: LinkConfig, name: up0, addresses: [{address: 198.51.100.7/24}], routes: [{gateway: "
       "198.51.100.1, metric: 0}]",
       "interfaces: [{interface: up0, addresses: [198.51.100.7/24], routes: [{network: 0.0.0.0/0, "
       "gateway: 198.51.100.1, metric: 1024}]}]"},
      {"kind: DummyLinkConfig, name: lo9, addresses: [{address: 203.0.113.9/32}]",
       "interfaces: [{interface: lo9, dummy: true, addresses: [203.0.113.9/32]}]"},
      {"kind: BridgeConfig, name: br7, links: [p3], stp: {enabled: true}, vlan: {filtering: true}",
       "interfaces: [{interface: br7, bridge: {interfaces: [p3], stp: {enabled: true}, vlan: "
       "{vlanFiltering: true}}}]"},
      {"kind: BondConfig, name: b9, links: [p1, p2], bondMode: 802.3ad, miimon: 100, updelay: 200, "
       "downdelay: 300, xmitHashPolicy: layer3+4, lacpRate: fast, adActorSysPrio: 9, adLACPActive: "
       "on",
       "interfaces: [{interface: b9, bond: {interfaces: [p1, p2], mode: 802.3ad, miimon: 100, "
       "updelay: 200, downdelay: 300, xmitHashPolicy: layer3+4, lacpRate: fast, adActorSysPrio: "
       "9}}]"},
      {"kind: BondConfig, name: b9, links: [p1, p2], bondMode: active-backup, miimon: 100, "
       "resendIGMP: 3, peerNotifDelay: 100",
       "interfaces: [{interface: b9, bond: {interfaces: [p1, p2], mode: active-backup, miimon: "
       "100, resendIgmp: 3, peerNotifyDelay: 100}}]"},
      {"kind: BondConfig, name: b9, links: [p1, p2], bondMode: balance-tlb, tlbLogicalLb: 0",
       "interfaces: [{interface: b9, bond: {interfaces: [p1, p2], mode: balance-tlb, tlbDynamicLb: "
       "0}}]"},
      {"kind: WireguardConfig, name: wg7, privateKey: "
       "qMSpfRTLNAULRmCMu1bU0LhxZJHDRNSAPNZfnBXcZEk=, listenPort: 51820, firewallMark: 5, peers: "
       "[{publicKey: kTBWl4pJ0nnD4QnYfPoK0hOMJcPmS3lpXdJdRhlZ9Fw=, endpoint: '192.0.2.9:51820', "
       "persistentKeepaliveInterval: 25s, allowedIPs: [10.0.0.0/8]}]",
       "interfaces: [{interface: wg7, wireguard: {privateKey: "
       "qMSpfRTLNAULRmCMu1bU0LhxZJHDRNSAPNZfnBXcZEk=, listenPort: 51820, firewallMark: 5, peers: "
       "[{publicKey: kTBWl4pJ0nnD4QnYfPoK0hOMJcPmS3lpXdJdRhlZ9Fw=, endpoint: '192.0.2.9:51820', "
       "persistentKeepaliveInterval: 25s, allowedIPs: [10.0.0.0/8]}]}}]"},
      {"kind: DHCPv4Config, name: p1, routeMetric: 300",
       "interfaces: [{interface: p1, dhcp: true, dhcpOptions: {routeMetric: 300}}]"},
      // 0 stays 0, and means 1024 as in the old keys.
      {"kind: DHCPv4Config, name: p1, routeMetric: 0",
       "interfaces: [{interface: p1, dhcp: true, dhcpOptions: {routeMetric: 0}}]"},
      {"kind: DHCPv6Config, name: p1",
       "interfaces: [{interface: p1, dhcp: true, dhcpOptions: {routeMetric: 1024, ipv4: false, "
       "ipv6: true}}]"},
      {"kind: DHCPv6Config, name: p1, clientIdentifier: duid, duidRaw: '00:03:00:01:02:03'",
       "interfaces: [{interface: p1, dhcp: true, dhcpOptions: {routeMetric: 1024, ipv4: false, "
       "ipv6: true, duidv6: '00:03:00:01:02:03'}}]"},
      {"kind: Layer2VIPConfig, name: 192.0.2.40, link: up0",
       "interfaces: [{interface: up0, vip: {ip: 192.0.2.40}}]"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(networkOf(mainDocument() + oneDocument(row.documents)),
              networkOf(mainDocument(row.network)))
        << row.documents;
  }
}

// Catches: items of the main document that a document replaces; items of several documents that
// are written over each other.
TEST(Documents, OfLinksAddToThoseOfTheMainDocument) {
  auto text = mainDocument(
                  "interfaces: [{interface: p1, dhcp: true}], extraHostEntries: [{ip: "
                  "192.0.2.1, aliases: [a]}]") +
              oneDocument("kind: LinkConfig, name: p1, addresses: [{address: 192.0.2.7/24}]") +
              oneDocument("kind: LinkConfig, name: p2") +
              oneDocument("kind: StaticHostConfig, name: 192.0.2.2, hostnames: [b]");
  EXPECT_EQ(networkOf(text),
            networkOf(mainDocument(
                "interfaces: [{interface: p1, dhcp: true}, {interface: p1, addresses: "
                "[192.0.2.7/24]}, {interface: p2}], extraHostEntries: [{ip: 192.0.2.1, aliases: "
                "[a]}, {ip: 192.0.2.2, aliases: [b]}]")));
}

// Catches: a VLAN whose name must be LINK.ID; DHCP by default although a document describes links,
// or none although no document does.
TEST(Documents, SetWhatOnlyTheyCanSay) {
  auto config =
      parsed(mainDocument() + oneDocument("kind: VLANConfig, name: lab, vlanID: 212, parent: "
                                          "b9, vlanMode: 802.1ad"));
  auto network = config.get().getMachine().getNetwork();
  ASSERT_EQ(1u, network.getInterfaces().size());
  auto tag = network.getInterfaces()[0].getTaggedOn();
  EXPECT_STREQ("lab", network.getInterfaces()[0].getInterface().cStr());
  EXPECT_STREQ("b9", tag.getParent().cStr());
  EXPECT_EQ(212, tag.getVlanId());
  EXPECT_STREQ("802.1ad", tag.getProtocol().cStr());
  EXPECT_TRUE(network.getOnlyConfigured());
  auto named = parsed(mainDocument() + oneDocument("kind: HostnameConfig, hostname: a"));
  EXPECT_FALSE(named.get().getMachine().getNetwork().getOnlyConfigured());
  ASSERT_EQ(1u, named.get().getDocuments().size());
  EXPECT_STREQ("HostnameConfig", named.get().getDocuments()[0].cStr());
  EXPECT_FALSE(parsed(mainDocument()).get().hasDocuments());
}

// Catches: host DNS of a document that is lost on the way, or that replaces that of the main
// document without a word; a document without it that turns that off.
TEST(Documents, HostDnsIsTheSameAsTheOldKey) {
  constexpr auto kAll =
      "hostDNS: {enabled: true, forwardKubeDNSToHost: true, resolveMemberNames: true}";
  auto shown = [](const std::string& text) {
    auto config = parsed(text);
    EXPECT_EQ("", problemsIn(text)) << text;
    return std::string(
        codec::writeJson(config.get().getMachine().getFeatures().getHostDNS()).cStr());
  };
  auto old = mainDocument() + "  features: {" + kAll + "}\n";
  auto document = oneDocument(std::string("kind: ResolverConfig, ") + kAll);
  auto expected = shown(old);
  EXPECT_EQ(expected, shown(mainDocument() + document));
  EXPECT_NE(expected, shown(mainDocument() + oneDocument("kind: ResolverConfig")));
  EXPECT_EQ(expected, shown(old + oneDocument("kind: ResolverConfig, hostDNS: {enabled: false}")));
  EXPECT_THAT(problemsIn(old + document),
              HasSubstr("ResolverConfig.hostDNS: machine.features.hostDNS is set as well; remove"));
}

// Catches: a rule that opens other ports, or other networks, than its document says; a node whose
// ports are open although the document blocks them; rules in another order; port 0 that is refused.
TEST(Documents, OfTheFirewallSetItsRules) {
  auto shown = [](const std::string& text) {
    EXPECT_EQ("", problemsIn(text)) << text;
    auto config = parsed(text);
    auto network = config.get().getMachine().getNetwork();
    if (!network.hasFirewall()) return std::string("none");
    std::string all = network.getFirewall().getBlock() ? "block" : "accept";
    for (auto rule : network.getFirewall().getRules()) {
      all += kj::str("; ", rule.getName(), " ", rule.getProtocol()).cStr();
      for (auto ports : rule.getPorts()) {
        all += kj::str(" ", ports.getFirst(), "-", ports.getLast()).cStr();
      }
      for (auto subnet : rule.getSubnets()) all += kj::str(" from ", subnet).cStr();
      for (auto subnet : rule.getExcept()) all += kj::str(" but ", subnet).cStr();
    }
    return all;
  };
  auto block = oneDocument("kind: NetworkDefaultActionConfig, ingress: block"),
       api = oneDocument(
           "kind: NetworkRuleConfig, name: api, portSelector: {ports: [50000, 6443-6444], "
           "protocol: tcp}, ingress: [{subnet: 192.0.2.7/24, except: 192.0.2.9/30}, {subnet: "
           "'2001:db8::1/32'}]"),
       closed = oneDocument(
           "kind: NetworkRuleConfig, name: closed, portSelector: {ports: ['53', 0], protocol: "
           "udp}"),
       ping = oneDocument(
           "kind: NetworkRuleConfig, name: ping, portSelector: {ports: [0-65535], protocol: "
           "icmpv6}, ingress: [{subnet: '::/0'}]");
  EXPECT_EQ("none", shown(mainDocument()));
  EXPECT_EQ("none", shown(mainDocument() + oneDocument("kind: NetworkDefaultActionConfig")));
  EXPECT_EQ(
      "block; api tcp 50000-50000 6443-6444 from 192.0.2.0/24 from 2001:db8::/32 but "
      "192.0.2.8/30; closed udp 53-53 0-0; ping icmpv6 0-65535 from ::/0",
      shown(mainDocument() + api + block + closed + ping));
  EXPECT_EQ("accept; closed udp 53-53 0-0",
            shown(mainDocument() + closed +
                  oneDocument("kind: NetworkDefaultActionConfig, ingress: accept")));
}

// Catches: a setting of a driver that is lost, or set although the document does not have it; 0,
// false and an empty list that count as absent; DHCP that ends because of such a document.
TEST(Documents, OfDriversSetWhatTheyGive) {
  auto shown = [](const char* keys) {
    auto text = mainDocument() + oneDocument(std::string("kind: EthernetConfig, name: p1") + keys);
    EXPECT_EQ("", problemsIn(text)) << text;
    auto config = parsed(text);
    auto network = config.get().getMachine().getNetwork();
    EXPECT_FALSE(network.getOnlyConfigured());
    EXPECT_EQ(1u, network.getEthernet().size());
    auto link = network.getEthernet()[0];
    EXPECT_STREQ("p1", link.getName().cStr());
    kj::Vector<kj::String> all;
    for (auto ring : link.getRings())
      all.add(kj::str("ring ", ring.getKey(), "=", ring.getValue()));
    for (auto channel : link.getChannels()) {
      all.add(kj::str("channel ", channel.getKey(), "=", channel.getValue()));
    }
    for (auto feature : link.getFeatures()) {
      all.add(kj::str("feature ", feature.getKey(), "=", feature.getValue()));
    }
    if (link.getSetsWakeOnLan()) {
      all.add(kj::str("wake [", kj::strArray(link.getWakeOnLan(), " "), "]"));
    }
    return std::string(kj::strArray(all, ", ").cStr());
  };
  const std::pair<const char*, const char*> rows[] = {
      {"", ""},
      {", rings: {}, channels: {rx: }, features: {a: }, wakeOnLan: ", ""},
      {", rings: {rx-mini: 0, rx: 512, tx-push: false, tcp-data-split: true}",
       "ring rx=512, ring rx-mini=0, ring tx-push=0, ring tcp-data-split=1"},
      {", rings: {tx: 1, rx-jumbo: 2, rx-buf-len: 3, cqe-size: 4, tx-push-buf-len: 5, rx-push: "
       "true}",
       "ring tx=1, ring rx-jumbo=2, ring rx-buf-len=3, ring cqe-size=4, ring tx-push-buf-len=5, "
       "ring rx-push=1"},
      {", channels: {rx: 1, tx: 2, other: 0, combined: 4}",
       "channel rx=1, channel tx=2, channel other=0, channel combined=4"},
      {", features: {tx-scatter-gather: true, rx-gro: false}",
       "feature tx-scatter-gather=true, feature rx-gro=false"},
      {", wakeOnLan: []", "wake []"},
      {", wakeOnLan: [phy, unicast, multicast, broadcast, arp, magic, magicsecure, filter]",
       "wake [phy unicast multicast broadcast arp magic magicsecure filter]"},
  };
  for (auto& [keys, values] : rows) EXPECT_EQ(values, shown(keys)) << keys;
}

// Catches: a registry's old mirrors or credentials that stay beside those of its document, or that
// a document of another registry removes; a CA that is read as base64.
TEST(Documents, OfRegistriesReplaceTheEntryOfTheirRegistry) {
  auto authority = pki::makeAuthority({.organization = "site"});
  kj::StringPtr ca = authority.certificate;
  auto text = mainDocument() +
              "  registries:\n    mirrors: {a: {endpoints: [\"http://old\"]}, b: {endpoints: "
              "[\"http://b\"]}}\n    config: {m: {auth: {username: u, password: p}}}\n" +
              oneDocument(
                  "kind: RegistryMirrorConfig, name: a, endpoints: [{url: 'http://new'}, {url: "
                  "'http://second'}], skipFallback: true") +
              oneDocument("kind: RegistryTLSConfig, name: m, insecureSkipVerify: true, ca: " +
                          std::string(jsonString(ca).cStr())) +
              oneDocument("kind: RegistryAuthConfig, name: n, username: v, password: q");
  auto config = parsed(text);
  EXPECT_EQ("", problemsIn(text));
  auto registries = config.get().getMachine().getRegistries();
  ASSERT_EQ(2u, registries.getMirrors().size());
  EXPECT_STREQ("b", registries.getMirrors()[0].getKey().cStr());
  auto mirror = registries.getMirrors()[1].getValue();
  ASSERT_EQ(2u, mirror.getEndpoints().size());
  EXPECT_STREQ("http://new", mirror.getEndpoints()[0].cStr());
  EXPECT_TRUE(mirror.getSkipFallback());
  ASSERT_EQ(2u, registries.getConfig().size());
  auto m = registries.getConfig()[0].getValue(), n = registries.getConfig()[1].getValue();
  EXPECT_STREQ("u", m.getAuth().getUsername().cStr());
  EXPECT_TRUE(m.getTls().getInsecureSkipVerify());
  EXPECT_EQ(ca.asBytes(), m.getTls().getCa());
  EXPECT_STREQ("q", n.getAuth().getPassword().cStr());
}

// Catches: a receiver of the kernel log, a watchdog, time servers or a variable that the node does
// not have.
TEST(Documents, OfTheNodeSetItsKeys) {
  auto text = mainDocument() + "  env: {A: old, B: b}\n" +
              oneDocument("kind: KmsgLogConfig, name: far, url: 'udp://192.0.2.61:6050/'") +
              oneDocument("kind: WatchdogTimerConfig, device: /dev/watchdog1, timeout: 2m") +
              oneDocument("kind: TimeSyncConfig, bootTimeout: 2m, ntp: {servers: [ntp.lab.test]}") +
              oneDocument("kind: EnvironmentConfig, variables: {A: new, C: c}");
  auto config = parsed(text);
  EXPECT_EQ("", problemsIn(text));
  auto machine = config.get().getMachine();
  ASSERT_EQ(1u, machine.getLogging().getDestinations().size());
  auto destination = machine.getLogging().getDestinations()[0];
  EXPECT_STREQ("udp://192.0.2.61:6050", destination.getEndpoint().cStr());
  ASSERT_EQ(1u, destination.getStreams().size());
  EXPECT_EQ(LogStream::KERNEL, destination.getStreams()[0]);
  EXPECT_STREQ("/dev/watchdog1", machine.getWatchdog().getDevice().cStr());
  EXPECT_STREQ("2m", machine.getWatchdog().getTimeout().cStr());
  ASSERT_EQ(1u, machine.getTime().getServers().size());
  EXPECT_FALSE(machine.getTime().getDisabled());
  EXPECT_STREQ("2m", machine.getTime().getBootTimeout().cStr());
  std::string all;
  for (auto pair : machine.getEnv())
    all += kj::str(pair.getKey(), "=", pair.getValue(), " ").cStr();
  EXPECT_EQ("A=new B=b C=c ", all);
}

// Catches: a balancer that its document does not turn on; a second place that sets it.
TEST(Documents, OfTheBalancerTurnItOn) {
  auto document = oneDocument("kind: KubePrismConfig, port: 7446, tlsServerName: api.example.org");
  EXPECT_EQ("", problemsIn(mainDocument() + document));
  auto config = parsed(mainDocument() + document);
  auto balancer = config.get().getMachine().getFeatures().getKubePrism();
  EXPECT_TRUE(balancer.getEnabled());
  EXPECT_EQ(7446, balancer.getPort());
  EXPECT_STREQ("api.example.org", balancer.getTlsServerName().cStr());
  EXPECT_THAT(
      problemsIn(mainDocument() + "  features: {kubePrism: {enabled: false}}\n" + document),
      HasSubstr("KubePrismConfig: machine.features.kubePrism is set as well; remove one of the"));
}

// Catches: a cache of images that its document does not turn on; a second place that sets it.
TEST(Documents, OfTheImageCacheTurnItOn) {
  auto isOn = [](const std::string& text) {
    return parsed(mainDocument() + text)
        .get()
        .getMachine()
        .getFeatures()
        .getImageCache()
        .getLocalEnabled();
  };
  auto document = oneDocument("kind: ImageCacheConfig, local: {enabled: true}");
  EXPECT_EQ("", problemsIn(mainDocument() + document));
  EXPECT_TRUE(isOn(document));
  EXPECT_FALSE(isOn(oneDocument("kind: ImageCacheConfig")));
  EXPECT_THAT(
      problemsIn(mainDocument() + "  features: {imageCache: {localEnabled: true}}\n" + document),
      HasSubstr("ImageCacheConfig: machine.features.imageCache is set as well; remove one of the"));
}

std::string machineOf(const std::string& text) {
  EXPECT_EQ("", problemsIn(text)) << text;
  auto config = parsed(text);
  return codec::writeJson(config.get().getMachine()).cStr();
}

// Catches: an address in Talos' form that the kernel does not have; two documents that take turns
// with one device; a refused document whose device is bound nevertheless.
TEST(Documents, DriversOfDevicesAreThoseOfTheirDocuments) {
  auto config = parsed(
      mainDocument() +
      oneDocument("kind: PCIDriverRebindConfig, name: '0000:04:00.00', targetDriver: vfio-pci") +
      oneDocument("kind: PCIDriverRebindConfig, name: '10000:E1:1F.7', targetDriver: nvme"));
  auto drivers = config.get().getMachine().getPciDrivers();
  ASSERT_EQ(2u, drivers.size());
  EXPECT_EQ("0000:04:00.0", drivers[0].getDevice());
  EXPECT_EQ("vfio-pci", drivers[0].getDriver());
  EXPECT_EQ("10000:e1:1f.7", drivers[1].getDevice());
  auto twice = mainDocument() +
               oneDocument("kind: PCIDriverRebindConfig, name: '0000:04:00.0', targetDriver: a") +
               oneDocument("kind: PCIDriverRebindConfig, name: '0000:04:00.00', targetDriver: b");
  EXPECT_THAT(problemsIn(twice),
              HasSubstr("PCIDriverRebindConfig[0000:04:00.00].name: "
                        "PCIDriverRebindConfig[0000:04:00.0] is about the same device"));
  EXPECT_EQ(1u, parsed(twice).get().getMachine().getPciDrivers().size());
}

// Catches: a key of the document that is lost; a default that is not the documented one; the
// expressions of a refused document.
TEST(Documents, OutOfMemoryIsThatOfTheDocument) {
  auto none = parsed(mainDocument());
  EXPECT_EQ(500u, none.get().getMachine().getOutOfMemory().getIntervalMs());
  EXPECT_FALSE(none.get().getMachine().getOutOfMemory().getIgnoresClasses());
  auto all = parsed(mainDocument() +
                    oneDocument("kind: OOMConfig, triggerExpression: 'memory_full_avg10 > 5.0', "
                                "cgroupRankingExpression: '1.0', strictCgroupClassOrdering: false, "
                                "sampleInterval: 1.5s"));
  auto oom = all.get().getMachine().getOutOfMemory();
  EXPECT_EQ("memory_full_avg10 > 5.0", oom.getTriggerExpression());
  EXPECT_EQ("1.0", oom.getRankingExpression());
  EXPECT_TRUE(oom.getIgnoresClasses());
  EXPECT_EQ(1500u, oom.getIntervalMs());
  for (auto& [text, milliseconds] : {std::pair{"0s", 500u}, std::pair{"1s", 1000u}}) {
    auto config = parsed(mainDocument() +
                         oneDocument(std::string("kind: OOMConfig, sampleInterval: ") + text));
    EXPECT_EQ(milliseconds, config.get().getMachine().getOutOfMemory().getIntervalMs()) << text;
  }
  auto refused = parsed(mainDocument() + oneDocument("kind: OOMConfig, triggerExpression: 'true', "
                                                     "cgroupRankingExpression: 'true'"));
  EXPECT_EQ("", refused.get().getMachine().getOutOfMemory().getTriggerExpression());
}

struct KernelRow {
  const char *documents, *before, *same;  // keys of a document; of the main one; of one without it
};

// Catches: a setting of a document that is lost, or that stands beside the one for the same file or
// module, which is then set twice; a setting of the main document that a document removes.
TEST(Documents, OfTheKernelReplaceTheSettingsOfTheSameName) {
  const KernelRow rows[] = {
      {"kind: SysctlConfig, params: {net.ipv4.ip_forward: '1', vm.max_map_count: 262144}", "",
       "  sysctls: {net.ipv4.ip_forward: '1', vm.max_map_count: '262144'}\n"},
      {"kind: SysctlConfig, params: {a/b: '3'}", "  sysctls: {a.b: '1', c.d: '2'}\n",
       "  sysctls: {c.d: '2', a/b: '3'}\n"},
      {"kind: SysctlConfig", "  sysctls: {a.b: '1'}\n", "  sysctls: {a.b: '1'}\n"},
      {"kind: SysfsConfig, params: {class/net/eth0.100/mtu: 1400}",
       "  sysfs: {devices.system.cpu.cpu0.cpufreq.scaling_governor: performance}\n",
       "  sysfs: {devices.system.cpu.cpu0.cpufreq.scaling_governor: performance, "
       "class/net/eth0.100/mtu: '1400'}\n"},
      {"kind: KernelModuleConfig, name: drbd, parameters: [usermode_helper=disabled]", "",
       "  kernel: {modules: [{name: drbd, parameters: [usermode_helper=disabled]}]}\n"},
      {"kind: KernelModuleConfig, name: dm_thin_pool", "  kernel: {modules: [{name: drbd}]}\n",
       "  kernel: {modules: [{name: drbd}, {name: dm_thin_pool}]}\n"},
      {"kind: KernelModuleConfig, name: c, parameters: [a=1]",
       "  kernel: {modules: [{name: b}, {name: c}, {name: c}]}\n",
       "  kernel: {modules: [{name: b}, {name: c, parameters: [a=1]}, {name: c}]}\n"},
      {"kind: KernelModuleConfig, name: nvme_tcp, parameters: [a=1]",
       "  kernel: {modules: [{name: nvme-tcp, parameters: [b=2, c=3]}, {name: drbd}]}\n",
       "  kernel: {modules: [{name: nvme_tcp, parameters: [a=1]}, {name: drbd}]}\n"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(machineOf(mainDocument() + row.before + oneDocument(row.documents)),
              machineOf(mainDocument() + row.same))
        << row.documents;
  }
}

// Catches: a CA that replaces the bundle or other files; what stands beside the certificates, such
// as a private key, in a file that all may read; a name that ends the comment's line.
TEST(Documents, OfTrustedRootsAppendTheirCertificatesToTheBundle) {
  auto one = pki::makeAuthority({.organization = "one"});
  auto two = pki::makeAuthority({.organization = "two"});
  auto document = [](const char* name, kj::StringPtr certificates) {
    return oneDocument(kj::str("kind: TrustedRootsConfig, name: ", jsonString(name),
                               ", certificates: ", jsonString(certificates))
                           .cStr());
  };
  kj::StringPtr key = one.key;
  auto text = mainDocument() +
              document("corp\nx", kj::str("of the site\n", one.certificate, key, two.certificate)) +
              document("b", two.certificate);
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  auto roots = config.get().getMachine().getTrustedRoots();
  ASSERT_EQ(2u, roots.size());
  EXPECT_STREQ("corp\nx", roots[0].getKey().cStr());
  EXPECT_STREQ(kj::str("# corp x\n", one.certificate, two.certificate).cStr(),
               roots[0].getValue().cStr());
  EXPECT_STREQ("b", roots[1].getKey().cStr());
  EXPECT_STREQ(kj::str("# b\n", two.certificate).cStr(), roots[1].getValue().cStr());

  constexpr auto kBegin = "-----BEGIN CERTIFICATE-----\n"_kj;
  auto problems = [&](kj::StringPtr certificates) {
    auto wrong = mainDocument() + document("a", certificates);
    EXPECT_EQ(0u, parsed(wrong).get().getMachine().getFiles().size());
    return problemsIn(wrong);
  };
  EXPECT_THAT(problems("text"),
              HasSubstr("c.yaml:6:61: TrustedRootsConfig[a].certificates: there is no certificate; "
                        "use certificates in PEM, from BEGIN to END"));
  EXPECT_THAT(problems(kj::str(kBegin, "AAAA\n", one.certificate)),
              HasSubstr("TrustedRootsConfig[a].certificates: a certificate has no end"));
  EXPECT_THAT(problems(kj::str(one.certificate, kBegin, "AAAA\n-----END CERTIFICATE-----\n")),
              HasSubstr("TrustedRootsConfig[a].certificates: certificate 2: "));
}

// Catches: a file of a document that is not below /etc, has other permissions or replaces those of
// the main document; a mistake that is reported at a place of the main document.
TEST(Documents, OfFilesAreInEtc) {
  auto main = mainDocument() + "  files: [{path: /var/a, op: create, content: a}]\n";
  auto text = main +
              oneDocument(
                  "kind: EtcFileConfig, name: multipath/multipath.conf, mode: 0o600, "
                  "contents: b") +
              oneDocument("kind: EtcFileConfig, name: nfs.conf");
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  auto files = config.get().getMachine().getFiles();
  ASSERT_EQ(3u, files.size());
  EXPECT_STREQ("/var/a", files[0].getPath().cStr());
  EXPECT_STREQ("/etc/multipath/multipath.conf", files[1].getPath().cStr());
  EXPECT_STREQ("b", files[1].getContent().cStr());
  EXPECT_EQ(0600u, files[1].getPermissions());
  EXPECT_EQ(FileOp::CREATE, files[1].getOp());
  EXPECT_EQ(0644u, files[2].getPermissions());
  EXPECT_STREQ("", files[2].getContent().cStr());
  auto wrong = main + oneDocument("kind: EtcFileConfig, name: hosts") +
               oneDocument("kind: EtcFileConfig, name: a, contents: a");
  EXPECT_EQ(2u, parsed(wrong).get().getMachine().getFiles().size());
}

// Catches: a kind that is listed as one with an effect and that nothing reads.
TEST(Documents, OfEachListedKindAreRead) {
  for (auto kind : documentKinds()) {
    auto text =
        mainDocument() + oneDocument(std::string("kind: ") + kind.cStr() + ", noSuchKey: 1");
    EXPECT_THAT(problemsIn(text), HasSubstr(kj::str(kind, ".noSuchKey: unknown key").cStr()));
  }
}

// Catches: two documents for one thing, of which one counts; a document of another version.
TEST(Documents, OneThingHasOneDocument) {
  auto link = oneDocument("kind: LinkConfig, name: a");
  EXPECT_THAT(problemsIn(mainDocument() + link + link),
              HasSubstr("c.yaml:8:1: LinkConfig[a]: there is another such document"));
  EXPECT_THAT(problemsIn(mainDocument() + link + oneDocument("kind: DummyLinkConfig, name: a")),
              HasSubstr("DummyLinkConfig[a].name: LinkConfig[a] describes the same link"));
  EXPECT_EQ("", problemsIn(mainDocument() + link + oneDocument("kind: DHCPv4Config, name: a")));
  EXPECT_THAT(problemsIn(mainDocument() + oneDocument("kind: KernelModuleConfig, name: a-b") +
                         oneDocument("kind: KernelModuleConfig, name: a_b")),
              HasSubstr("KernelModuleConfig[a_b].name: KernelModuleConfig[a-b] is about the same "
                        "module; merge the two"));
  EXPECT_THAT(problemsIn(mainDocument() + "---\n{kind: LinkConfig, name: a}\n"),
              HasSubstr("LinkConfig[a].apiVersion: the document is not of version v1alpha1"));
}

// Catches: a shared address that a worker is told to hold, or for which its config is refused.
TEST(Documents, AWorkerHoldsNoSharedAddress) {
  auto text = mainDocument("", "worker") +
              oneDocument("kind: HCloudVIPConfig, name: 10.0.0.9, link: a, apiToken: t");
  EXPECT_THAT(problemsIn(text), HasSubstr("HCloudVIPConfig[10.0.0.9]: this has no effect"));
  EXPECT_EQ(0u, parsed(text).get().getMachine().getNetwork().getInterfaces().size());
}

}  // namespace
}  // namespace talos::config
