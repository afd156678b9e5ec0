#include "machined/config/config-change.h"

#include <gtest/gtest.h>

#include <string>

#include "common/config/config.h"

namespace talos::config {
namespace {

kj::String document(kj::StringPtr machine, kj::StringPtr cluster = "") {
  return kj::str(
      "version: v1alpha1\npersist: true\nmachine:\n  type: worker\n  token: "
      "aaaaaa.aaaaaaaaaaaaaaaa\n",
      machine, "cluster:\n  controlPlane:\n    endpoint: https://10.0.0.1:6443\n", cluster);
}

// Returns "path! path" with ! for changes that need a reboot.
std::string between(kj::StringPtr from, kj::StringPtr to) {
  auto a = parse(from.asArray(), "from"), b = parse(to.asArray(), "to");
  EXPECT_TRUE(a.good()) << render(a.problems()).cStr();
  EXPECT_TRUE(b.good()) << render(b.problems()).cStr();
  std::string result;
  for (auto& change : changes(a.get(), b.get())) {
    if (!result.empty()) result += " ";
    result += change.path.cStr();
    if (!change.live) result += "!";
  }
  return result;
}

std::string between(kj::StringPtr from, kj::StringPtr to, int) {
  return between(document(from), document(to));
}

// Catches: a change below a mapping with free keys that is not reported, or is reported under
// another path.
TEST(ConfigChange, KeysOfTheKubeletsConfiguration) {
  auto with = [](kj::StringPtr fields) {
    return kj::str("  kubelet: {extraConfig: {", fields, "}}\n");
  };
  EXPECT_EQ("machine.kubelet.extraConfig.maxPods machine.kubelet.extraConfig.nothing",
            between(with("maxPods: 1, shutdownGracePeriod: 9s"),
                    with("maxPods: 2, shutdownGracePeriod: 9s, nothing: ~"), 0));
}

// Catches: a change that is reported twice, also for the field that is derived from it; a pod for
// which the node reboots; an override of containerd's specification that does not reach containerd.
TEST(ConfigChange, ValuesOfOtherPrograms) {
  auto pod = [](kj::StringPtr image) {
    return kj::str(
        "  pods: [{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: b, "
        "image: ",
        image, "}]}}]\n");
  };
  EXPECT_EQ("machine.pods[0]", between(pod("c"), pod("d"), 0));
  auto profile = [](kj::StringPtr action) {
    return kj::str("  seccompProfiles: [{name: a, value: {defaultAction: SCMP_ACT_", action,
                   "}}]\n");
  };
  EXPECT_EQ("machine.seccompProfiles[0].value", between(profile("LOG"), profile("ALLOW"), 0));
  EXPECT_EQ("machine.baseRuntimeSpecOverrides.process!",
            between("  baseRuntimeSpecOverrides: {process: {oomScoreAdj: 1}}\n",
                    "  baseRuntimeSpecOverrides: {process: {oomScoreAdj: 2}}\n", 0));
}

// Catches: a comment, an order or a default that counts as a change and causes a needless reboot.
TEST(ConfigChange, DocumentsThatMeanTheSame) {
  EXPECT_EQ("", between(document(""), kj::str("# a comment\n", document(""))));
  EXPECT_EQ("",
            between("  sysctls: {a.b: '1', c.d: '2'}\n", "  sysctls: {c.d: '2', a.b: '1'}\n", 0));
  EXPECT_EQ("", between("", "  time: {}\n", 0));
  EXPECT_EQ("", between("", "  time: {disabled: false}\n", 0));
}

// Catches: a live field whose nested fields are not live, or whose neighbours are.
TEST(ConfigChange, LiveIsWhatIsBelowALiveField) {
  EXPECT_EQ("machine.network.hostname",
            between("  network: {hostname: a}\n", "  network: {hostname: b}\n", 0));
  EXPECT_EQ("machine.network.interfaces[1].cidr",
            between("  network: {interfaces: [{interface: eth0, dhcp: true}, "
                    "{interface: eth1, cidr: 10.0.0.1/24}]}\n",
                    "  network: {interfaces: [{interface: eth0, dhcp: true}, "
                    "{interface: eth1, cidr: 10.0.0.2/24}]}\n",
                    0));
  EXPECT_EQ("machine.env.http_proxy!",
            between("  env: {http_proxy: 'http://a'}\n", "  env: {http_proxy: 'http://b'}\n", 0));
  EXPECT_EQ("cluster.clusterName", between(document(""), document("", "  clusterName: other\n")));
  EXPECT_EQ(
      "cluster.etcd.image! cluster.etcd.advertisedSubnets",
      between(document(""), document("", "  etcd: {image: e, advertisedSubnets: [10.0.0.0/8]}\n")));
}

// Catches: an added or removed key that is not reported, or is judged by its neighbours.
TEST(ConfigChange, EntriesOfMappings) {
  EXPECT_EQ("machine.sysctls.a.b",
            between("  sysctls: {a.b: '1', c.d: '2'}\n", "  sysctls: {c.d: '2'}\n", 0));
  EXPECT_EQ("machine.sysctls.a.b machine.sysctls.e.f",
            between("  sysctls: {a.b: '1'}\n", "  sysctls: {a.b: '2', e.f: '1'}\n", 0));
  EXPECT_EQ("machine.registries.config.r.io.tls.insecureSkipVerify",
            between("", "  registries: {config: {r.io: {tls: {insecureSkipVerify: true}}}}\n", 0));
  EXPECT_EQ(
      "machine.registries.config.r.io.auth.username! "
      "machine.registries.config.r.io.auth.password!",
      between("  registries: {config: {r.io: {auth: {username: u, password: p}}}}\n", "", 0));
  EXPECT_EQ("machine.registries.mirrors.docker.io.endpoints",
            between("", "  registries: {mirrors: {docker.io: {endpoints: ['http://m']}}}\n", 0));
}

// Catches: an item inserted at the front, after which each item is compared with its neighbour and
// a dozen keys are named.
TEST(ConfigChange, AListOfAnotherLengthIsOneChange) {
  EXPECT_EQ("machine.certSANs", between("  certSANs: [a]\n", "  certSANs: [b, a]\n", 0));
  EXPECT_EQ("machine.certSANs[1]", between("  certSANs: [a, b]\n", "  certSANs: [a, c]\n", 0));
  EXPECT_EQ("machine.files!",
            between("", "  files: [{path: /var/a, op: create, content: x}]\n", 0));
}

// Catches: a key that has a meaning by its presence alone (nodeID: {}) and is compared by its
// content.
TEST(ConfigChange, AMappingWithoutKeysSaysSomethingByBeingThere) {
  auto encryption = [](kj::StringPtr key) {
    return kj::str("  systemDiskEncryption: {ephemeral: {keys: [{", key, ", slot: 0}]}}\n");
  };
  EXPECT_EQ(
      "machine.systemDiskEncryption.ephemeral.keys[0].static.passphrase "
      "machine.systemDiskEncryption.ephemeral.keys[0].nodeID",
      between(encryption("static: {passphrase: x}"), encryption("nodeID: {}"), 0));
}

struct DocumentRow {
  const char *before, *after;  // keys of the document beside the main one; "": no document
  const char* changes;
};

// Catches: a document whose addition, removal or change is no change, or one of the wrong key; a
// reboot for a document whose keys need none, or none for one whose keys need it; a change for a
// document that says the same as the main one did.
TEST(ConfigChange, DocumentsAreChangesOfTheKeysThatTheySet) {
  constexpr auto kHost = "kind: StaticHostConfig, name: 192.0.2.60, hostnames: [a]";
  const DocumentRow rows[] = {
      {"", kHost, "machine.network.extraHostEntries"},
      {kHost, "", "machine.network.extraHostEntries"},
      {kHost, "kind: StaticHostConfig, name: 192.0.2.60, hostnames: [b]",
       "machine.network.extraHostEntries[0].aliases[0]"},
      {kHost, "hostnames: [a], name: 192.0.2.60, kind: StaticHostConfig", ""},
      {"kind: HostnameConfig, hostname: a", "kind: HostnameConfig, hostname: b",
       "machine.network.hostname"},
      {"", "kind: LinkConfig, name: up0",
       "machine.network.interfaces machine.network.onlyConfigured"},
      {"kind: LinkConfig, name: up0, addresses: [{address: 198.51.100.7/24}]",
       "kind: LinkConfig, name: up0, addresses: [{address: 198.51.100.8/24}]",
       "machine.network.interfaces[0].addresses[0]"},
      {"kind: NetworkDefaultActionConfig, ingress: block",
       "kind: NetworkDefaultActionConfig, ingress: accept", "machine.network.firewall.block"},
      {"",
       "kind: NetworkRuleConfig, name: api, portSelector: {ports: [50000], protocol: tcp}, "
       "ingress: [{subnet: 192.0.2.0/24}]",
       "machine.network.firewall.rules"},
      {"", "kind: EthernetConfig, name: p1, rings: {rx: 512}", "machine.network.ethernet"},
      {"kind: EthernetConfig, name: p1, wakeOnLan: [magic]",
       "kind: EthernetConfig, name: p1, wakeOnLan: [phy]",
       "machine.network.ethernet[0].wakeOnLan[0]"},
      {"kind: SysctlConfig, params: {a.b: '1'}", "", "machine.sysctls.a.b"},
      {"", "kind: EtcFileConfig, name: a", "machine.files!"},
      {"kind: EtcFileConfig, name: a, contents: a", "kind: EtcFileConfig, name: a, contents: b",
       "machine.files[0].content!"},
      {"kind: FilesystemTrimConfig, interval: 1h", "kind: FilesystemTrimConfig, interval: 2h",
       "machine.trims[0].seconds"},
      {"", "kind: EnvironmentConfig, variables: {http_proxy: 'http://a'}",
       "machine.env.http_proxy!"},
      {"kind: RegistryAuthConfig, name: r.io, username: u, password: p", "",
       "machine.registries.config.r.io.auth.username! "
       "machine.registries.config.r.io.auth.password!"},
  };
  auto with = [](const char* keys) {
    auto text = document("");
    return *keys == 0 ? kj::mv(text) : kj::str(text, "---\n{apiVersion: v1alpha1, ", keys, "}\n");
  };
  for (auto& row : rows) {
    EXPECT_EQ(row.changes, between(with(row.before), with(row.after)))
        << row.before << " -> " << row.after;
  }
  EXPECT_EQ("",
            between(document("  network: {extraHostEntries: [{ip: 192.0.2.60, aliases: [a]}]}\n"),
                    with(kHost)));
}

}  // namespace
}  // namespace talos::config
