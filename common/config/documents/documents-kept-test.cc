// Documents with mistakes in a config that an earlier release has kept: the node boots.
#include <gtest/gtest.h>

#include <string>

#include "common/config/config-reading.h"
#include "common/config/documents/test-documents.h"
#include "common/yaml/yaml-codec.h"

namespace talos::config {
namespace {

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

// Catches: a kept config that carries out a document whose mistake only a check of the whole config
// finds: cards lose DHCP because of a link that cannot be made, a disk is written as a watchdog.
TEST(Documents, OfAKeptConfigDoNothingAfterAMistakeThatACheckFinds) {
  auto link = oneDocument("kind: LinkConfig, name: b");
  for (auto wrong : {"kind: LinkConfig, name: 'a/b'", "kind: DHCPv4Config, name: 'a b'",
                     "kind: WireguardConfig, name: w, privateKey: x",
                     "kind: VLANConfig, name: a, vlanID: 5, parent: a"}) {
    auto config = parsed(mainDocument("hostname: n") + oneDocument(wrong) + link);
    auto network = config.get().getMachine().getNetwork();
    EXPECT_STREQ("n", network.getHostname().cStr());
    ASSERT_EQ(1u, network.getInterfaces().size()) << wrong;
    EXPECT_STREQ("b", network.getInterfaces()[0].getInterface().cStr());
    EXPECT_FALSE(network.getOnlyConfigured()) << wrong;
  }
  auto disk = parsed(mainDocument() + oneDocument("kind: WatchdogTimerConfig, device: /dev/sda"));
  EXPECT_FALSE(disk.get().getMachine().hasWatchdog());
  EXPECT_FALSE(disk.get().hasDocuments());
  bool found = false;
  for (auto& problem : problemsOfKept(disk, "c.yaml")) {
    if (std::string(problem.path.cStr()) != "WatchdogTimerConfig.device") continue;
    found = true;
    EXPECT_EQ(Problem::Severity::kWarning, problem.severity);
  }
  EXPECT_TRUE(found);
}

// Catches: a document of a kept config that acts because the error of another one hid its own: an
// error after as many as are reported, a document that was refused beside the other, or one that
// has the same wrong value.
TEST(Documents, OfAKeptConfigDoNothingAfterAHiddenMistake) {
  std::string many;
  for (unsigned i = 0; i <= codec::kMaxProblems; ++i) {
    many += oneDocument("kind: StaticHostConfig, name: 10.0.0." + std::to_string(i) +
                        ", hostnames: ['a b']");
  }
  auto host =
      parsed(mainDocument() + many + oneDocument("kind: WatchdogTimerConfig, device: /dev/sda"));
  EXPECT_FALSE(host.get().getMachine().hasWatchdog());
  EXPECT_FALSE(host.get().hasDocuments());
  auto links = parsed(mainDocument() + oneDocument("kind: LinkConfig, name: a/b") +
                      oneDocument("kind: DummyLinkConfig, name: a/b"));
  EXPECT_EQ(0u, links.get().getMachine().getNetwork().getInterfaces().size());
  auto registries =
      parsed(mainDocument() + oneDocument("kind: RegistryAuthConfig, name: a b, username: u") +
             oneDocument("kind: RegistryTLSConfig, name: a b, insecureSkipVerify: true"));
  EXPECT_FALSE(registries.get().hasDocuments());
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

// Catches: a boot that ends because of a document that the release before ignored, and that acts or
// is refused now; a mistake in one that keeps another one from acting.
TEST(Documents, OfAKeptConfigThatDidNothingStopNoBoot) {
  auto config = parsed(mainDocument() + oneDocument("kind: FilesystemTrimConfig, interval: soon") +
                       oneDocument("kind: EtcFileConfig, name: hosts, contents: a") +
                       oneDocument("kind: EtcFileConfig, name: a.conf, contents: a") +
                       oneDocument("kind: ExtensionServiceConfig, name: tailscale") +
                       oneDocument("kind: FilesystemScrubConfig, interval: 24h") +
                       oneDocument("kind: ContainerConfig, name: a"));
  EXPECT_FALSE(config.good());
  auto machine = config.get().getMachine();
  EXPECT_EQ(0u, machine.getTrims().size());
  ASSERT_EQ(1u, machine.getFiles().size());
  EXPECT_STREQ("/etc/a.conf", machine.getFiles()[0].getPath().cStr());
  unsigned found = 0;
  for (auto& problem : problemsOfKept(config, "c.yaml")) {
    if (!isInDocument(problem.path)) continue;
    ++found;
    EXPECT_EQ(Problem::Severity::kWarning, problem.severity) << problem.toString().cStr();
  }
  EXPECT_EQ(5u, found);
}

// Catches: a document beside a key of the main document that Talos refuses and that is accepted; a
// node that loses its name or its time servers with such a kept config.
TEST(Documents, OfAKeptConfigActBesideTheirKeys) {
  struct {
    const char *main, *document, *problem;
  } rows[] = {
      {"  features: {stableHostname: true}\n", "kind: HostnameConfig, hostname: foo",
       "HostnameConfig: machine.features.stableHostname is set as well; remove one of the two"},
      {"  time: {bootTimeout: 2m}\n", "kind: TimeSyncConfig, ntp: {servers: [ntp.lab.test]}",
       "TimeSyncConfig: machine.time.bootTimeout is set as well; remove one of the two"},
  };
  for (auto& row : rows) {
    auto config = parsed(mainDocument() + row.main + oneDocument(row.document));
    auto machine = config.get().getMachine();
    EXPECT_TRUE(config.get().hasDocuments()) << row.document;
    EXPECT_TRUE(machine.getNetwork().getHostname() == "foo" ||
                machine.getTime().getServers().size() == 1)
        << row.document;
    unsigned found = 0;
    for (auto& problem : config.problems()) {
      if (problem.toString().endsWith(row.problem)) {
        EXPECT_EQ(Problem::Severity::kError, problem.severity);
        ++found;
      }
    }
    EXPECT_EQ(1u, found) << row.problem;
    for (auto& problem : problemsOfKept(config, "c.yaml")) {
      if (isInDocument(problem.path)) {
        EXPECT_EQ(Problem::Severity::kWarning, problem.severity);
      }
    }
  }
  EXPECT_EQ("", problemsIn(mainDocument() + "  time: {bootTimeout: 0s}\n" +
                           oneDocument("kind: TimeSyncConfig, bootTimeout: 2m")));
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

// Catches: a kept config whose document of a volume writes to a disk, or encrypts a volume of the
// system, in spite of its mistake; a document without one that does not act beside such a one.
TEST(Documents, OfAKeptConfigMakeNoVolumeAfterAMistake) {
  std::string place = "provisioning: {diskSelector: {match: '!system_disk'}, maxSize: 1GiB}",
              tpm =
                  "encryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}, {slot: 1, "
                  "lockToState: true, nodeID: {}}]}";
  for (auto& wrong :
       {"kind: UserVolumeConfig, name: a, filesystem: {type: ext4}, " + place,
        "kind: UserVolumeConfig, name: a, " + place + ", " + tpm,
        std::string("kind: VolumeConfig, name: ETCD, provisioning: {maxSize: 1GiB}"),
        "kind: VolumeConfig, name: STATE, " + tpm, "kind: VolumeConfig, name: EPHEMERAL, " + tpm,
        std::string("kind: UserVolumeConfig, name: a, volumeType: disk"),
        "kind: RawVolumeConfig, name: a, " + place + ", " + tpm,
        std::string("kind: ZswapConfig, maxPoolPercent: 101")}) {
    auto right = oneDocument("kind: SwapVolumeConfig, name: b, " + place);
    auto config = parsed(mainDocument() + oneDocument(wrong) + right);
    auto machine = config.get().getMachine();
    ASSERT_EQ(1u, machine.getVolumes().size()) << wrong;
    EXPECT_STREQ("s-b", machine.getVolumes()[0].getId().cStr());
    EXPECT_FALSE(machine.hasSystemDiskEncryption()) << wrong;
    EXPECT_EQ(0u, machine.getSysfs().size()) << wrong;
    unsigned warnings = 0;
    for (auto& problem : problemsOfKept(config, "c.yaml")) {
      if (!isInDocument(problem.path)) continue;
      EXPECT_EQ(Problem::Severity::kWarning, problem.severity) << problem.toString().cStr();
      ++warnings;
    }
    EXPECT_EQ(1u, warnings) << wrong;
  }
}

}  // namespace
}  // namespace talos::config
