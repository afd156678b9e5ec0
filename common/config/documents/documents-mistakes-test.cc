// Mistakes in documents beside the main one, and their places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/config/documents/test-documents.h"

namespace talos::config {
namespace {

using ::testing::HasSubstr;

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
      {"kind: HostnameConfig, auto: off", "warning: HostnameConfig.auto: this has no effect"},
      {"kind: CRIBaseRuntimeSpecConfig", "CRIBaseRuntimeSpecConfig.overrides: required key"},
      {"kind: CRIBaseRuntimeSpecConfig, overrides: {process: {oomScoreAdj: low}}",
       "CRIBaseRuntimeSpecConfig.overrides.process.oomScoreAdj: must be a whole number"},
      {"kind: CRICustomizationConfig, name: customization, content: ''",
       "CRICustomizationConfig[customization].name: machine.files names its part"},
      {"kind: CRICustomizationConfig, name: a, content: '['", "CRICustomizationConfig[a].content:"},
      {"kind: KubeStaticPodConfig, name: a", "KubeStaticPodConfig[a].pod: required key is missing"},
      {"kind: KubeStaticPodConfig, name: a, pod: {apiVersion: v1, kind: Pod, metadata: {name: b}}",
       "KubeStaticPodConfig[a].pod.spec.containers: the pod has no containers"},
      {"kind: HostnameConfig, hostname: a", "machine.network.hostname is set as well",
       "hostname: b"},
      {"kind: HostnameConfig, hostname: Bad_Name", "HostnameConfig.hostname: \"Bad_Name\" is not"},
      {"kind: HostnameConfig, name: a, hostname: a", "HostnameConfig.name: unknown key"},
      {"kind: EnvironmentConfig, variables: {PATH: /opt/bin}",
       "warning: EnvironmentConfig.variables.PATH: not used for cri, etcd and kubelet"},
      {"kind: EtcFileConfig, name: /a", "EtcFileConfig[/a].name: \"/a\" is not a path of a file"},
      {"kind: EtcFileConfig, name: a/../b", "EtcFileConfig[a/../b].name: \"a/../b\" is not a path"},
      {"kind: EtcFileConfig, name: a/", "EtcFileConfig[a/].name: \"a/\" is not a path of a file"},
      {"kind: EtcFileConfig, name: .a", "EtcFileConfig[.a].name: \".a\" is not a path of a file"},
      {"kind: EtcFileConfig, name: hosts",
       "EtcFileConfig[hosts].name: /etc/hosts is not for documents of files; use a "
       "StaticHostConfig"},
      {"kind: EtcFileConfig, name: cri/conf.d/a.part",
       "is not for documents of files; use a CRICus"},
      {"kind: EtcFileConfig, name: a, mode: 0o10000", "EtcFileConfig[a].mode: not a valid mode"},
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
      {"kind: DHCPv6Config, name: a, clientIdentifier: none",
       "DHCPv6Config[a].clientIdentifier: this system"},
      {"kind: DHCPv6Config, name: a, clientIdentifier: duid",
       "DHCPv6Config[a].duidRaw: the DUID is missing"},
      {"kind: DHCPv6Config, name: a, duidRaw: '00:03:01'",
       "DHCPv6Config[a].duidRaw: clientIdentifier is not duid"},
      {"kind: DHCPv6Config, name: a, clientIdentifier: duid, duidRaw: '00:03'",
       "DHCPv6Config[a].duidRaw: \"00:03\" is not a DUID"},
      {"kind: TimeSyncConfig, bootTimeout: soon", "TimeSyncConfig.bootTimeout: \"soon\" is not"},
      {"kind: EthernetConfig", "EthernetConfig.name: required key is missing"},
      {"kind: EthernetConfig, name: 'a/b'",
       "EthernetConfig[a/b].name: \"a/b\" is not a valid link"},
      {"kind: EthernetConfig, name: a, rings: {rx: -1}",
       "EthernetConfig[a].rings.rx: \"-1\" is out"},
      {"kind: EthernetConfig, name: a, rings: {tx-mini: 1}",
       "EthernetConfig[a].rings.tx-mini: unknown key"},
      {"kind: EthernetConfig, name: a, wakeOnLan: [magic, ucast]",
       "EthernetConfig[a].wakeOnLan[1]: \"ucast\" is not a mode of Wake-on-LAN; use phy, unicast"},
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
      {"kind: HCloudVIPConfig, name: 10.0.0, link: a, apiToken: t",
       "HCloudVIPConfig[10.0.0].name: \"10.0.0\""},
      {"kind: HCloudVIPConfig, name: 10.0.0.9, link: a",
       "HCloudVIPConfig[10.0.0.9].apiToken: required key is missing"},
      {"kind: HCloudVIPConfig, name: 10.0.0.9, link: a, apiToken: ''",
       "HCloudVIPConfig[10.0.0.9].apiToken: the API token is missing"},
      {"kind: HCloudVIPConfig, name: 10.0.0.9, link: a, apiToken: a b",
       "HCloudVIPConfig[10.0.0.9].apiToken: must be visible ASCII characters"},
      {"kind: HCloudVIPConfig, name: 10.0.0.9, apiToken: t",
       "HCloudVIPConfig[10.0.0.9].link: required key is missing"},
      {"kind: ResolverConfig, nameservers: [{address: a}]",
       "ResolverConfig.nameservers[0].address: \"a\" is not an IP address"},
      {"kind: ResolverConfig, nameservers: [{address: 10.0.0.1, protocol: DoT}]",
       "ResolverConfig.nameservers[0].protocol: this system"},
      {"kind: ResolverConfig, nameservers: [{address: 10.0.0.1}]",
       "ResolverConfig.nameservers: machine.network.nameservers is set as well",
       "nameservers: [10.0.0.2]"},
      {"kind: ResolverConfig, hostDNS: {forwardKubeDNSToHost: true}",
       "ResolverConfig.hostDNS.forwardKubeDNSToHost: hostDNS.enabled is not set; set it to true"},
      {"kind: ResolverConfig, hostDNS: {enabled: false, resolveMemberNames: true}",
       "ResolverConfig.hostDNS.resolveMemberNames: hostDNS.enabled is not set; set it to true"},
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
      {"kind: EventSinkConfig", "EventSinkConfig.endpoint: required key is missing"},
      {"kind: EventSinkConfig, name: a, endpoint: 'a:1'", "EventSinkConfig.name: unknown key"},
      {"kind: EventSinkConfig, endpoint: 192.0.2.7",
       "c.yaml:6:47: EventSinkConfig.endpoint: \"192.0.2.7\" is not a host and a port; for example "
       "192.0.2.7:4000"},
      {"kind: EventSinkConfig, endpoint: 'grpc://192.0.2.7:4000'",
       "EventSinkConfig.endpoint: \"grpc://192.0.2.7:4000\" is not a host and a port"},
      {"kind: EventSinkConfig, endpoint: ':4000'", "EventSinkConfig.endpoint: \":4000\" is not"},
      {"kind: EventSinkConfig, endpoint: 'a:70000'", "EventSinkConfig.endpoint: \"a:70000\" is"},
      {"kind: EventSinkConfig, endpoint: 'fd00::1:4000'", "EventSinkConfig.endpoint: \"fd00::1"},
      {"kind: EventSinkConfig, endpoint: 'a:1'}\n---\n{apiVersion: v1alpha1, kind: "
       "EventSinkConfig, endpoint: 'b:1'",
       "c.yaml:8:1: EventSinkConfig: there is another such document; merge the two"},
      {"kind: KubePrismConfig", "KubePrismConfig.port: required key is missing"},
      {"kind: KubePrismConfig, port: 443", "KubePrismConfig.port: 443 is not a valid port: kubed"},
      {"kind: KubePrismConfig, port: 7445, tlsServerName: 'a b'",
       "KubePrismConfig.tlsServerName: \"a b\" is neither an IP address nor a DNS name"},
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
      {"kind: PCIDriverRebindConfig, name: 'eth0', targetDriver: vfio-pci",
       "c.yaml:6:53: PCIDriverRebindConfig[eth0].name: \"eth0\" is not the address of a device on "
       "PCI; use the form 0000:04:00.0"},
      {"kind: PCIDriverRebindConfig, name: '0000:04:20.0', targetDriver: vfio-pci",
       "PCIDriverRebindConfig[0000:04:20.0].name: \"0000:04:20.0\" is not the address"},
      {"kind: PCIDriverRebindConfig, name: '0000:04:00.8', targetDriver: vfio-pci",
       "PCIDriverRebindConfig[0000:04:00.8].name: \"0000:04:00.8\" is not the address"},
      {"kind: PCIDriverRebindConfig, name: '../04:00.0', targetDriver: vfio-pci",
       "PCIDriverRebindConfig[../04:00.0].name: \"../04:00.0\" is not the address"},
      {"kind: PCIDriverRebindConfig, name: '0000:04:00.0', targetDriver: ../x",
       "c.yaml:6:75: PCIDriverRebindConfig[0000:04:00.0].targetDriver: \"../x\" is not a valid "
       "name "
       "of a driver; use letters, digits, - and _"},
      {"kind: PCIDriverRebindConfig, name: '0000:04:00.0'",
       "PCIDriverRebindConfig[0000:04:00.0].targetDriver: required key is missing"},
      {"kind: OOMConfig, triggerExpression: '1 + memory_full_avg10 > 5.0'",
       "c.yaml:6:41: OOMConfig.triggerExpression: in the expression, at \"1 + "
       "memory_full_avg1…\": + does not take int and double; write 1.0"},
      {"kind: OOMConfig, triggerExpression: '1.0'",
       "OOMConfig.triggerExpression: in the expression, at \"1.0\": the result must be a bool, and "
       "this is a double"},
      {"kind: OOMConfig, cgroupRankingExpression: 'memory_curent.orValue(0u)'",
       "OOMConfig.cgroupRankingExpression: in the expression, at \"memory_curent.orValu…\": there "
       "is "
       "no variable memory_curent"},
      {"kind: OOMConfig, sampleInterval: -1s",
       "OOMConfig.sampleInterval: \"-1s\" is not a valid duration; for example 500ms"},
      {"kind: OOMConfig, sampleInterval: 1ms",
       "c.yaml:6:41: OOMConfig.sampleInterval: must be from 10ms to 1h; for example 500ms"},
      {"kind: OOMConfig, sampleInterval: 2h", "OOMConfig.sampleInterval: must be from 10ms to 1h"},
      {"kind: OOMConfig, strictCgroupClassOrdering: 5", "OOMConfig.strictCgroupClassOrdering:"},
      {"kind: OOMConfig, name: a", "OOMConfig.name: unknown key"},
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
  EXPECT_THAT(problemsIn(document("kind: HCloudVIPConfig\nname: 10.0.0.9\nlink: a\n"
                                  "apiToken: a b\n")),
              HasSubstr("c.yaml:10:1: HCloudVIPConfig[10.0.0.9].apiToken: must be"));
  EXPECT_THAT(problemsIn(document("kind: RegistryAuthConfig\nname: a\nauth: x\n")),
              HasSubstr("c.yaml:9:1: RegistryAuthConfig[a].auth: not the base64"));
}

// Catches: two elections for one address, one of which would move it at Hetzner Cloud.
TEST(Documents, OneAddressIsSharedOnce) {
  auto text = mainDocument() + oneDocument("kind: Layer2VIPConfig, name: 10.0.0.9, link: a") +
              oneDocument("kind: HCloudVIPConfig, name: 10.0.0.9, link: b, apiToken: t");
  EXPECT_THAT(problemsIn(text), HasSubstr("is the same shared address, 10.0.0.9; remove one"));
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
  EXPECT_THAT(problemsIn(mainDocument() + large),
              HasSubstr("warning: VLANConfig[v1].mtu: 9000 is more than the usual MTU of a link"));
  // The MTU of a bridge is that of its ports.
  EXPECT_EQ("", problemsIn(mainDocument() + large +
                           oneDocument("kind: BridgeConfig, name: eth0, links: [eth1]")));
}

// Catches: a receiver of events that gets another stream, or is reached in another way; an address
// of IPv6 or a name that is refused; a duplicate of the main document that has no place.
TEST(Documents, AReceiverOfEventsIsADestinationOfEventsAlone) {
  for (auto endpoint : {"192.0.2.7:4000", "[fd00::1]:4000", "events.example.org:4000"}) {
    auto text = mainDocument() +
                oneDocument(std::string("kind: EventSinkConfig, endpoint: '") + endpoint + "'");
    EXPECT_EQ("", problemsIn(text));
    auto config = parsed(text);
    auto destinations = config.get().getMachine().getLogging().getDestinations();
    ASSERT_EQ(1u, destinations.size()) << endpoint;
    EXPECT_EQ(std::string("grpc://") + endpoint, destinations[0].getEndpoint().cStr());
    ASSERT_EQ(1u, destinations[0].getStreams().size());
    EXPECT_EQ(LogStream::EVENTS, destinations[0].getStreams()[0]);
  }
  auto main =
      mainDocument() + "  logging: {destinations: [{endpoint: 'grpc://a:1', streams: [events]}]}\n";
  EXPECT_EQ("", problemsIn(main + oneDocument("kind: EventSinkConfig, endpoint: 'b:1'")));
  EXPECT_THAT(problemsIn(main + oneDocument("kind: EventSinkConfig, endpoint: 'a:1'")),
              HasSubstr("c.yaml:7:47: EventSinkConfig.endpoint: another destination has "
                        "the endpoint \"grpc://a:1\""));
}

// Catches: a mistake in a document that is reported in the line of the value that it replaces.
TEST(Documents, AMistakeInAReplacedModuleHasTheLineOfTheDocument) {
  auto shown = problemsIn(mainDocument() + "  kernel: {modules: [{name: a, parameters: [b]}]}\n" +
                          oneDocument("kind: KernelModuleConfig, name: a, parameters: ['1 2']"));
  EXPECT_THAT(shown, ::testing::StartsWith("c.yaml:7:"));
  EXPECT_THAT(shown, HasSubstr(": KernelModuleConfig[a].parameters[0]: \"1 2\" is not a valid"));
}

}  // namespace
}  // namespace talos::config
