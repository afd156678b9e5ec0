#include "common/config/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/config/config-check.h"
#include "common/config/config.h"
#include "common/config/link-selector.h"
#include "common/text/foreign-text.h"
#include "common/tls/pki.h"
#include "common/yaml/yaml-codec.h"

namespace talos::config {
namespace {

using ::testing::HasSubstr;

constexpr auto kMain =
    "machine:\n  type: TYPE\n  token: abcdef.0123456789abcdef\n"
    "  network: {NETWORK}\n";

std::string mainDocument(const std::string& network = "",
                         const std::string& type = "controlplane") {
  std::string text = kMain;
  text.replace(text.find("NETWORK"), 7, network);
  return text.replace(text.find("TYPE"), 4, type);
}

// A document in flow form, without its apiVersion.
std::string oneDocument(const std::string& keys) {
  return "---\n{apiVersion: v1alpha1, " + keys + "}\n";
}

MachineConfig parsed(const std::string& text) {
  return parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
}

// Returns the problems that are about documents beside the main one.
std::string problemsIn(const std::string& text) {
  auto config = parsed(text);
  std::string shown;
  for (auto& problem : config.problems()) {
    if (isInDocument(problem.path)) shown += std::string(problem.toString().cStr()) + "\n";
  }
  return shown;
}

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
      {"kind: DummyLinkConfig, name: lo9, addresses: [{address: 203.0.113.9/32}]",
       "interfaces: [{interface: lo9, dummy: true, addresses: [203.0.113.9/32]}]"},
      {"kind: BridgeConfig, name: br7, links: [p3], stp: {enabled: true}, vlan: {filtering: true}",
       "interfaces: [{interface: br7, bridge: {interfaces: [p3], stp: {enabled: true}, vlan: "
       "{vlanFiltering: true}}}]"},
      {"kind: BondConfig, name: b9, links: [p1, p2], bondMode: 802.3ad, miimon: 100, updelay: 200, "
       "downdelay: 300, xmitHashPolicy: layer3+4, lacpRate: fast, adActorSysPrio: 9, resendIGMP: "
       "3, peerNotifDelay: 100, adLACPActive: on",
       "interfaces: [{interface: b9, bond: {interfaces: [p1, p2], mode: 802.3ad, miimon: 100, "
       "updelay: 200, downdelay: 300, xmitHashPolicy: layer3+4, lacpRate: fast, adActorSysPrio: 9, "
       "resendIgmp: 3, peerNotifyDelay: 100}}]"},
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
      {"kind: DHCPv6Config, name: p1",
       "interfaces: [{interface: p1, dhcp: true, dhcpOptions: {routeMetric: 1024, ipv4: false, "
       "ipv6: true}}]"},
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

// Catches: a rule that opens other ports, or other networks, than its document says; a node whose
// ports are open although the document blocks them; rules in another order.
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
           "kind: NetworkRuleConfig, name: closed, portSelector: {ports: ['53'], protocol: udp}"),
       ping = oneDocument(
           "kind: NetworkRuleConfig, name: ping, portSelector: {ports: [0-65535], protocol: "
           "icmpv6}, ingress: [{subnet: '::/0'}]");
  EXPECT_EQ("none", shown(mainDocument()));
  EXPECT_EQ("none", shown(mainDocument() + oneDocument("kind: NetworkDefaultActionConfig")));
  EXPECT_EQ(
      "block; api tcp 50000-50000 6443-6444 from 192.0.2.0/24 from 2001:db8::/32 but "
      "192.0.2.8/30; closed udp 53-53; ping icmpv6 0-65535 from ::/0",
      shown(mainDocument() + api + block + closed + ping));
  EXPECT_EQ("accept; closed udp 53-53",
            shown(mainDocument() + closed +
                  oneDocument("kind: NetworkDefaultActionConfig, ingress: accept")));
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
              oneDocument("kind: TimeSyncConfig, ntp: {servers: [ntp.lab.test]}") +
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
  std::string all;
  for (auto pair : machine.getEnv())
    all += kj::str(pair.getKey(), "=", pair.getValue(), " ").cStr();
  EXPECT_EQ("A=new B=b C=c ", all);
}

std::string machineOf(const std::string& text) {
  EXPECT_EQ("", problemsIn(text)) << text;
  auto config = parsed(text);
  return codec::writeJson(config.get().getMachine()).cStr();
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

// Catches: a mistake in a document that is reported in the line of the value that it replaces.
TEST(Documents, AMistakeInAReplacedModuleHasTheLineOfTheDocument) {
  auto shown = problemsIn(mainDocument() + "  kernel: {modules: [{name: a, parameters: [b]}]}\n" +
                          oneDocument("kind: KernelModuleConfig, name: a, parameters: ['1 2']"));
  EXPECT_THAT(shown, ::testing::StartsWith("c.yaml:7:"));
  EXPECT_THAT(shown, HasSubstr(": KernelModuleConfig[a].parameters[0]: \"1 2\" is not a valid"));
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
  auto text = mainDocument() + "  files: [{path: /var/a, op: create, content: x}]\n" +
              document("corp\nx", kj::str("of the site\n", one.certificate, key, two.certificate)) +
              document("b", two.certificate);
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  auto files = config.get().getMachine().getFiles();
  ASSERT_EQ(3u, files.size());
  EXPECT_STREQ("/var/a", files[0].getPath().cStr());
  for (unsigned i : {1u, 2u}) {
    EXPECT_EQ(FileOp::APPEND, files[i].getOp());
    EXPECT_STREQ("/etc/ssl/certs/ca-certificates.crt", files[i].getPath().cStr());
    EXPECT_EQ(0644u, files[i].getPermissions());
  }
  EXPECT_STREQ(kj::str("# corp x\n", one.certificate, two.certificate).cStr(),
               files[1].getContent().cStr());
  EXPECT_STREQ(kj::str("# b\n", two.certificate).cStr(), files[2].getContent().cStr());

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

struct RefusedRow {
  const char *documents, *problem;
  const char* network = "";
};

// Catches: a key, a value or a combination that the node does not carry out and that is accepted
// all the same; a mistake that is reported at a place of the main document.
TEST(Documents, WhatTheNodeCannotDoIsAnError) {
  const RefusedRow rows[] = {
      {"kind: HostnameConfig, hostnam: a", "HostnameConfig.hostnam: unknown key"},
      {"kind: HostnameConfig", "HostnameConfig: it has neither hostname nor auto"},
      {"kind: HostnameConfig, hostname: a, auto: stable", "HostnameConfig.auto: hostname is set"},
      {"kind: HostnameConfig, auto: stable", "warning: HostnameConfig.auto: this has no effect"},
      {"kind: HostnameConfig, hostname: a", "machine.network.hostname is set as well",
       "hostname: b"},
      {"kind: HostnameConfig, hostname: Bad_Name", "HostnameConfig.hostname: \"Bad_Name\" is not"},
      {"kind: HostnameConfig, name: a, hostname: a", "HostnameConfig.name: unknown key"},
      {"kind: LinkConfig", "LinkConfig.name: required key is missing"},
      {"kind: LinkConfig, name: 'a/b'", "LinkConfig[a/b].name: \"a/b\" is not a valid link name"},
      {"kind: LinkConfig, name: a, multicast: true", "LinkConfig[a].multicast: this system"},
      {"kind: LinkConfig, name: a, up: false", "LinkConfig[a].up: this system"},
      {"kind: LinkConfig, name: a, addresses: [{address: 10.0.0.1}]",
       "LinkConfig[a].addresses[0].address: \"10.0.0.1\" is not a valid address with a prefix"},
      {"kind: LinkConfig, name: a, addresses: [{address: 10.0.0.1/8, routePriority: 1}]",
       "LinkConfig[a].addresses[0].routePriority: this system"},
      {"kind: LinkConfig, name: a, routes: [{destination: 0.0.0.0/0, gateway: 10.0.0.1}]",
       "LinkConfig[a].routes[0].destination: 0.0.0.0/0 is the default route"},
      {"kind: LinkConfig, name: a, routes: [{gateway: 0.0.0.0}]",
       "LinkConfig[a].routes[0].gateway: \"0.0.0.0\" is not the address of a machine"},
      {"kind: LinkConfig, name: a, routes: [{gateway: 10.0.0.1, table: 77}]",
       "LinkConfig[a].routes[0].table: this system"},
      {"kind: VLANConfig, name: a, vlanID: 0, parent: b", "VLANConfig[a].vlanID: 0 is not"},
      {"kind: VLANConfig, name: a, vlanID: 4095, parent: b", "VLANConfig[a].vlanID: 4095 is not"},
      {"kind: VLANConfig, name: a, vlanID: 1", "VLANConfig[a].parent: required key is missing"},
      {"kind: VLANConfig, name: a, vlanID: 1, parent: b, vlanMode: q", "VLANConfig[a].vlanMode:"},
      {"kind: BondConfig, name: a, links: [], bondMode: 802.3ad", "BondConfig[a].links: a bond"},
      {"kind: BondConfig, name: a, links: [b]", "BondConfig[a].bondMode: required key is missing"},
      {"kind: BondConfig, name: a, links: [b], bondMode: fast", "BondConfig[a].bondMode: \"fast\""},
      {"kind: BondConfig, name: a, links: [b], bondMode: 802.3ad, hardwareAddr: "
       "'02:00:00:00:00:01'",
       "BondConfig[a].hardwareAddr: this system"},
      {"kind: WireguardConfig, name: a, privateKey: x", "WireguardConfig[a].privateKey:"},
      {"kind: DHCPv4Config, name: a, clientIdentifier: duid, duidRaw: '00:01'",
       "DHCPv4Config[a].clientIdentifier: this system"},
      {"kind: DHCPv4Config, name: a, ignoreRoutes: true", "DHCPv4Config[a].ignoreRoutes:"},
      {"kind: LinkAliasConfig, name: net%d, selector: {match: 'true'}",
       "LinkAliasConfig[net%d].name"},
      {"kind: LinkAliasConfig, name: n, selector: {match: 'link.mtu > 5u'}",
       "LinkAliasConfig[n].selector.match: in the selector, at \"link.mtu > 5u\": this system"},
      {"kind: NetworkDefaultActionConfig, ingress: drop",
       "NetworkDefaultActionConfig.ingress: \"drop\" is not valid; use accept or block"},
      {"kind: NetworkDefaultActionConfig, ingress: block",
       "warning: NetworkDefaultActionConfig: no rule opens TCP 50000"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [49000-50000], protocol: tcp}",
       "warning: NetworkRuleConfig[a]: the rule closes TCP 50000 to all, so no client"},
      {"kind: NetworkRuleConfig, portSelector: {ports: [1], protocol: tcp}",
       "NetworkRuleConfig.name: required key is missing"},
      {"kind: NetworkRuleConfig, name: a",
       "NetworkRuleConfig[a].portSelector: required key is missing"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [1]}",
       "NetworkRuleConfig[a].portSelector.protocol: required key is missing"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [1], protocol: sctp}",
       "NetworkRuleConfig[a].portSelector.protocol: \"sctp\" is not"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [], protocol: tcp}",
       "NetworkRuleConfig[a].portSelector.ports: there are no ports"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [http], protocol: tcp}",
       "NetworkRuleConfig[a].portSelector.ports[0]: \"http\" is not a port"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [65536], protocol: tcp}",
       "NetworkRuleConfig[a].portSelector.ports[0]: \"65536\" is not a port"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [1, 9-8], protocol: tcp}",
       "NetworkRuleConfig[a].portSelector.ports[1]: \"9-8\" is not a port"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [5-7, 1-5], protocol: tcp}",
       "NetworkRuleConfig[a].portSelector.ports[1]: 1-5 overlaps another item"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [1], protocol: tcp}, ingress: "
       "[{subnet: 10.0.0.1}]",
       "NetworkRuleConfig[a].ingress[0].subnet: \"10.0.0.1\" is not a valid network"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [1], protocol: tcp}, ingress: "
       "[{subnet: 10.0.0.0/8, except: 10.1}]",
       "NetworkRuleConfig[a].ingress[0].except: \"10.1\" is not a valid network"},
      {"kind: NetworkRuleConfig, name: a, portSelector: {ports: [1], protocol: tcp}, ingress: "
       "[{except: 10.0.0.0/8}]",
       "NetworkRuleConfig[a].ingress[0].subnet: required key is missing"},
      {"kind: Layer2VIPConfig, name: 10.0.0, link: a", "Layer2VIPConfig[10.0.0].name: \"10.0.0\""},
      {"kind: ResolverConfig, nameservers: [{address: a}]",
       "ResolverConfig.nameservers[0].address: \"a\" is not an IP address"},
      {"kind: ResolverConfig, nameservers: [{address: 10.0.0.1, protocol: DoT}]",
       "ResolverConfig.nameservers[0].protocol: this system"},
      {"kind: ResolverConfig, nameservers: [{address: 10.0.0.1}]",
       "ResolverConfig.nameservers: machine.network.nameservers is set as well",
       "nameservers: [10.0.0.2]"},
      {"kind: ResolverConfig, hostDNS: {enabled: true}",
       "warning: ResolverConfig.hostDNS: this key has no effect"},
      {"kind: TimeSyncConfig, ptp: {devices: [/dev/ptp0]}", "TimeSyncConfig.ptp: this system"},
      {"kind: TimeSyncConfig, ntp: {servers: ['a b']}", "TimeSyncConfig.ntp.servers[0]:"},
      {"kind: StaticHostConfig, name: x, hostnames: [a]", "StaticHostConfig[x].name: \"x\" is not"},
      {"kind: RegistryMirrorConfig, name: a, endpoints: [{url: x}]",
       "RegistryMirrorConfig[a].endpoints[0].url:"},
      {"kind: RegistryTLSConfig, name: a, ca: text",
       "RegistryTLSConfig[a].ca: there is no certificate; use certificates in PEM"},
      {"kind: RegistryTLSConfig, name: 'https://reg.example.com', insecureSkipVerify: true",
       "c.yaml:6:49: RegistryTLSConfig[https://reg.example.com].name: \"https://reg.example.com\" "
       "is "
       "not a valid registry host; leave out the scheme"},
      {"kind: RegistryAuthConfig, name: ghcr.io/org, username: u, password: p",
       "RegistryAuthConfig[ghcr.io/org].name: \"ghcr.io/org\" is not a valid registry host"},
      {"kind: RegistryAuthConfig, name: a, username: u, password: p, identityToken: t",
       "RegistryAuthConfig[a].identityToken: username is set as well; remove one of the two"},
      {"kind: RegistryAuthConfig, name: a, username: u, password: p, auth: 'dTpw'",
       "RegistryAuthConfig[a].auth: username is set as well"},
      {"kind: RegistryAuthConfig, name: a, identityToken: t, auth: 'dTpw'",
       "RegistryAuthConfig[a].auth: identityToken is set as well"},
      {"kind: KmsgLogConfig, name: a, url: 'http://b'", "KmsgLogConfig[a].url: not a URL of tcp"},
      {"kind: WatchdogTimerConfig, device: /dev/sda", "WatchdogTimerConfig.device:"},
      {"kind: SysctlConfig, params: {ipforward: 1}",
       "SysctlConfig.params.ipforward: \"ipforward\" is a group of kernel parameters"},
      {"kind: SysctlConfig, name: a", "SysctlConfig.name: unknown key"},
      {"kind: SysctlConfig, params: {'': 1}",
       "SysctlConfig.params[\"\"]: \"\" is not a valid name"},
      {"kind: SysfsConfig, params: {devices: x}",
       "SysfsConfig.params.devices: \"devices\" is not a valid path of a file below /sys"},
      {"kind: SysfsConfig, params: {a/../b: x}", "SysfsConfig.params[\"a/../b\"]:"},
      {"kind: KernelModuleConfig", "KernelModuleConfig.name: required key is missing"},
      {"kind: KernelModuleConfig, name: 'a/b'",
       "KernelModuleConfig[a/b].name: \"a/b\" is not a valid name of a kernel module"},
      {"kind: KernelModuleConfig, name: a, parameters: ['1 2']",
       "KernelModuleConfig[a].parameters[0]: \"1 2\" is not a valid parameter of a module"},
      {"kind: UdevRulesConfig, rules: ['KERNEL==\"sda\"']",
       "UdevRulesConfig.rules: this system has no udev; use machine.network"},
      {"kind: UdevRulesConfig", "warning: UdevRulesConfig: this system has no udev"},
      {"kind: TrustedRootsConfig, name: a",
       "TrustedRootsConfig[a].certificates: required key is missing"},
  };
  for (auto& row : rows) {
    EXPECT_THAT(problemsIn(mainDocument(row.network) + oneDocument(row.documents)),
                HasSubstr(row.problem))
        << row.documents;
  }
}

// Catches: a mistake in a long document that is reported in its first line.
TEST(Documents, AMistakeHasTheLineOfItsKey) {
  auto document = [](const std::string& keys) {
    return mainDocument() + "---\napiVersion: v1alpha1\n" + keys;
  };
  EXPECT_THAT(problemsIn(document("kind: LinkConfig\nname: a\nmtu: 9\n")),
              HasSubstr("c.yaml:9:1: warning: LinkConfig[a].mtu: not a valid MTU"));
  EXPECT_THAT(problemsIn(document("kind: WireguardConfig\nname: wg7\nprivateKey: "
                                  "qMSpfRTLNAULRmCMu1bU0LhxZJHDRNSAPNZfnBXcZEk=\npeers:\n  - "
                                  "allowedIPs: [10.0.0.0/8]\n    publicKey: x\n")),
              HasSubstr("c.yaml:12:5: WireguardConfig[wg7].peers[0].publicKey: "));
  EXPECT_THAT(problemsIn(document("kind: RegistryAuthConfig\nname: a\nauth: x\n")),
              HasSubstr("c.yaml:9:1: RegistryAuthConfig[a].auth: not the base64"));
}

// Catches: a kind that is listed as one with an effect and that nothing reads.
TEST(Documents, OfEachListedKindAreRead) {
  for (auto kind : documentKinds()) {
    auto text =
        mainDocument() + oneDocument(std::string("kind: ") + kind.cStr() + ", noSuchKey: 1");
    EXPECT_THAT(problemsIn(text), HasSubstr(kj::str(kind, ".noSuchKey: unknown key").cStr()));
  }
}

// Catches: a VLAN of a document that the kernel refuses: a second one with its ID, one on itself,
// one with larger packets than its parent.
TEST(Documents, AVlanFitsItsParent) {
  auto first = oneDocument("kind: VLANConfig, name: v1, vlanID: 5, parent: eth0");
  auto same = oneDocument("kind: VLANConfig, name: v2, vlanID: 5, parent: eth0");
  EXPECT_THAT(problemsIn(mainDocument() + first + same),
              HasSubstr("c.yaml:8:52: VLANConfig[v2].vlanID: VLAN 5 is a duplicate on this link"));
  EXPECT_THAT(
      problemsIn(mainDocument("interfaces: [{interface: eth0, vlans: [{vlanId: 5}]}]") + same),
      HasSubstr("VLANConfig[v2].vlanID: VLAN 5 is a duplicate on this link"));
  EXPECT_EQ("", problemsIn(mainDocument() + first +
                           oneDocument("kind: VLANConfig, name: v2, vlanID: 5, parent: eth1") +
                           oneDocument("kind: VLANConfig, name: v3, vlanID: 6, parent: eth0") +
                           oneDocument("kind: VLANConfig, name: v4, vlanID: 5, parent: eth0, "
                                       "vlanMode: 802.1ad")));
  EXPECT_THAT(
      problemsIn(mainDocument() + oneDocument("kind: VLANConfig, name: v1, vlanID: 5, parent: v1")),
      HasSubstr("VLANConfig[v1].parent: a VLAN cannot be its own parent"));
  auto large = oneDocument("kind: VLANConfig, name: v1, vlanID: 5, parent: eth0, mtu: 9000");
  EXPECT_THAT(problemsIn(mainDocument("interfaces: [{interface: eth0, mtu: 1400}]") + large),
              HasSubstr("VLANConfig[v1].mtu: 9000 is more than the MTU of eth0 (1400)"));
  EXPECT_EQ("", problemsIn(mainDocument() + large +
                           oneDocument("kind: LinkConfig, name: eth0, mtu: 9000")));
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

// Catches: a node that a document stops from booting although the release before ignored it; the
// values of a document with a mistake, in part.
TEST(Documents, OfAKeptConfigStopNoBoot) {
  auto text = mainDocument() + oneDocument("kind: LinkConfig, name: a, mtu: 1400, multicast: true");
  auto config = parsed(text);
  EXPECT_EQ(0u, config.get().getMachine().getNetwork().getInterfaces().size());
  for (auto& problem : problemsOfKept(config, "c.yaml")) {
    if (isInDocument(problem.path)) {
      EXPECT_EQ(Problem::Severity::kWarning, problem.severity) << problem.toString().cStr();
    }
  }
}

// Catches: a node that does not boot because a mirror of a document has no TLS, for which its old
// config has settings.
TEST(Documents, OfAKeptConfigMayNameAPlainMirror) {
  auto config =
      parsed(mainDocument() +
             "  registries: {config: {reg.lab.test: {tls: {insecureSkipVerify: true}}}}\n" +
             oneDocument(
                 "kind: RegistryMirrorConfig, name: a, endpoints: [{url: 'http://reg.lab.test'}]"));
  bool found = false;
  for (auto& problem : problemsOfKept(config, "c.yaml")) {
    if (std::string(problem.message.cStr()) != "the endpoint of this host is not an https URL") {
      continue;
    }
    found = true;
    EXPECT_EQ(Problem::Severity::kWarning, problem.severity);
  }
  EXPECT_TRUE(found);
}

// Catches: a firewall that blocks without the rule that was refused; a link that loses DHCP because
// its own document was refused and that of another link was not.
TEST(Documents, OfAKeptConfigLockNobodyOutWhenOneIsRefused) {
  auto block = oneDocument("kind: NetworkDefaultActionConfig, ingress: block"),
       rule = oneDocument(
           "kind: NetworkRuleConfig, name: a, portSelector: {ports: [50000], protocol: tcp}, "
           "ingress: [{subnet: 10.0.0.0/8}]"),
       wrongRule = oneDocument(
           "kind: NetworkRuleConfig, name: b, portSelector: {ports: [http], protocol: tcp}");
  auto hasFirewall = [](const std::string& text) {
    auto config = parsed(text);
    EXPECT_EQ(config.get().getMachine().getNetwork().hasFirewall(), config.get().hasDocuments());
    return config.get().hasDocuments();
  };
  EXPECT_TRUE(hasFirewall(mainDocument() + block + rule));
  EXPECT_FALSE(hasFirewall(mainDocument() + block + rule + wrongRule));
  EXPECT_FALSE(hasFirewall(mainDocument() + wrongRule + block + rule));
  auto onlyConfigured = [](const std::string& text) {
    return parsed(text).get().getMachine().getNetwork().getOnlyConfigured();
  };
  auto link = oneDocument("kind: LinkConfig, name: a");
  EXPECT_TRUE(onlyConfigured(mainDocument() + link));
  for (auto wrong : {"kind: DHCPv4Config, name: b, ignoreRoutes: true",
                     "kind: LinkConfig, name: b, multicast: true",
                     "kind: LinkAliasConfig, name: n, selector: {match: 'true'}"}) {
    EXPECT_FALSE(onlyConfigured(mainDocument() + link + oneDocument(wrong))) << wrong;
    EXPECT_FALSE(onlyConfigured(mainDocument() + oneDocument(wrong) + link)) << wrong;
  }
}

// Catches: a shared address that a worker is told to hold, or for which its config is refused.
TEST(Documents, AWorkerHoldsNoSharedAddress) {
  auto text =
      mainDocument("", "worker") + oneDocument("kind: Layer2VIPConfig, name: 10.0.0.9, link: a");
  EXPECT_THAT(problemsIn(text),
              HasSubstr("warning: Layer2VIPConfig[10.0.0.9]: this has no effect"));
  EXPECT_EQ(0u, parsed(text).get().getMachine().getNetwork().getInterfaces().size());
}

std::string conditions(kj::StringPtr text) {
  auto selector = parseLinkSelector(text);
  if (selector.problem.size() > 0) return std::string("wrong: ") + selector.problem.cStr();
  std::string shown;
  for (auto& one : selector.any) {
    shown += shown.empty() ? "" : " or";
    auto add = [&](const char* name, kj::StringPtr value) {
      if (value.size() > 0) shown += std::string(" ") + name + "=" + value.cStr();
    };
    add("bus", one.busPath);
    add("mac", one.hardwareAddr);
    add("permanent", one.permanentAddr);
    add("pci", one.pciId);
    add("driver", one.driver);
  }
  return shown;
}

// Catches: a selector that selects another link than its author's; operators with the wrong
// precedence; what CEL knows and this system does not, as a selector of all links.
TEST(LinkSelectors, ConditionsAndWhatTheyAreNot) {
  const std::pair<const char*, const char*> rows[] = {
      {"mac(link.permanent_addr) == \"02:00:5e:10:00:01\"", " permanent=02:00:5e:10:00:01"},
      {"'e1000e'==link.driver", " driver=e1000e"},
      {"glob(\"0000:03:*\", link.bus_path)", " bus=0000:03:*"},
      {"glob('02:*', mac(link.hardware_addr))", " mac=02:*"},
      {"link.pciid.startsWith('1af4:') && link.driver == 'virtio_net'",
       " pci=1af4:* driver=virtio_net"},
      {"link.driver.endsWith('_net') || link.driver.contains('e1')",
       " driver=*_net or driver=*e1*"},
      {"link.driver == 'a' || link.driver == 'b' && link.pciid == 'c'",
       " driver=a or pci=c driver=b"},
      {"(link.driver == 'a' || link.driver == 'b') && link.pciid == 'c'",
       " pci=c driver=a or pci=c driver=b"},
      {"link.driver == 'a' && link.driver == 'a'", " driver=a"},
      {"link.driver == 'a' && link.driver == 'b'",
       "wrong: in the selector, at its end: two conditions"},
      {"true", "wrong: in the selector, at \"true\": this system selects by"},
      {"!(link.driver == 'a')", "wrong: in the selector, at \"!"},
      {"link.driver == 'a*'", "wrong: in the selector, at its end: use glob()"},
      {"link.driver == ''", "wrong: in the selector, at its end: an empty text"},
      {"link.driver_version == 'a'", "wrong: in the selector"},
      {"link.permanent_addr == 'a'", "wrong: in the selector"},
      {"link.driver == 'a' 'b'", "wrong: in the selector, at \"'b'\": this is not expected"},
      {"", "wrong: in the selector, at its end: this system selects by"},
      {"((((((((((((((((((((((((((((((((((((((((", "wrong: "},
  };
  for (auto& [text, expected] : rows) {
    EXPECT_THAT(conditions(text), ::testing::StartsWith(expected)) << text;
  }
}

}  // namespace
}  // namespace talos::config
