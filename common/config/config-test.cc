#include "common/config/config-reading.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <string>

#include "common/config/rules/config-check.h"
#include "common/testing/printing.h"
#include "common/tls/pki.h"

namespace talos::config {
namespace {

kj::String base64(kj::StringPtr text) {
  return kj::encodeBase64(text.asBytes());
}

// Returns the config of a control-plane machine without mistakes; tests change a line of it.
std::string good() {
  static const std::string text = [] {
    auto authority = pki::makeAuthority({.organization = "talos"});
    auto pair =
        kj::str("{crt: ", base64(authority.certificate), ", key: ", base64(authority.key), "}");
    return std::string(kj::str("version: v1alpha1\n"
                               "persist: true\n"
                               "machine:\n"
                               "  type: controlplane\n"
                               "  token: abcdef.0123456789abcdef\n"
                               "  ca: ",
                               pair,
                               "\n"
                               "  network:\n"
                               "    hostname: master-1\n"
                               "    nameservers: [10.5.0.1]\n"
                               "    interfaces:\n"
                               "      - interface: eth0\n"
                               "        cidr: 10.5.0.2/24\n"
                               "        routes:\n"
                               "          - network: 0.0.0.0/0\n"
                               "            gateway: 10.5.0.1\n"
                               "  install:\n"
                               "    disk: /dev/vda\n"
                               "cluster:\n"
                               "  controlPlane:\n"
                               "    endpoint: https://10.5.0.2:6443\n"
                               "  network:\n"
                               "    dnsDomain: cluster.local\n"
                               "    podSubnets: [10.244.0.0/16]\n"
                               "  token: abcdef.0123456789abcdef\n"
                               "  ca: ",
                               pair,
                               "\n"
                               "  aggregatorCA: ",
                               pair,
                               "\n"
                               "  serviceAccount: {key: ",
                               base64(authority.key),
                               "}\n"
                               "  etcd: {ca: ",
                               pair, "}\n")
                           .cStr());
  }();
  return text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

kj::String problemsOf(const std::string& text) {
  auto config = parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
  return render(config.problems());
}

// Catches: a check that fires on a config in which nothing is wrong; values read into other fields.
TEST(Config, ReadsWithoutProblems) {
  auto text = good();
  auto config = parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
  EXPECT_EQ(kj::str(), render(config.problems()));
  EXPECT_TRUE(config.good());
  auto machine = config.get().getMachine();
  EXPECT_EQ(MachineType::CONTROLPLANE, machine.getType());
  EXPECT_TRUE(config.get().getPersist());
  auto interface = machine.getNetwork().getInterfaces()[0];
  EXPECT_EQ(kj::StringPtr("10.5.0.2/24"), interface.getCidr());
  EXPECT_EQ(kj::StringPtr("10.5.0.1"), interface.getRoutes()[0].getGateway());
  EXPECT_EQ(6443, config.get().getCluster().getControlPlane().getLocalAPIServerPort());
  EXPECT_TRUE(machine.getInstall().getBootloader());
  EXPECT_EQ(text, std::string(config.bytes().begin(), config.bytes().end()));
  auto moved = kj::mv(config);
  EXPECT_EQ(kj::StringPtr("master-1"), moved.get().getMachine().getNetwork().getHostname());
  EXPECT_EQ(8, moved.places().find("machine.network.hostname").line);
}

// Catches: a mistake that passes, is reported at another place than its own, or without the
// correction.
TEST(Config, FindsEachMistake) {
  struct {
    const char* from;
    const char* to;
    const char* problem;
  } table[] = {
      {"type: controlplane", "type: controlplan",
       "c.yaml:4:9: machine.type: \"controlplan\" is not a valid machine type; did you mean "
       "\"controlplane\"? (worker, init, controlplane)\n"},
      {"abcdef.0123456789abcdef", "secret",
       "c.yaml:5:3: warning: machine.token: weak: it could be guessed; use 6 characters, a dot and "
       "16 characters, all of a-z and 0-9\n"},
      {"hostname: master-1", "hostname: master_1!",
       "c.yaml:8:5: machine.network.hostname: \"master_1!\" is not a host name; use labels of at "
       "most 63 letters, digits and dashes, 253 characters in all\n"},
      {"[10.5.0.1]", "[10.5.0.1.1]",
       "c.yaml:9:19: machine.network.nameservers[0]: \"10.5.0.1.1\" is not an IP address\n"},
      {"- interface: eth0", "- interface: \"\"",
       "c.yaml:11:9: machine.network.interfaces[0].interface: link name is missing; set interface "
       "or deviceSelector\n"},
      {"cidr: 10.5.0.2/24", "cidr: 10.5.0.2",
       "c.yaml:12:9: machine.network.interfaces[0].cidr: \"10.5.0.2\" is not a valid address with "
       "a prefix length; for example 10.5.0.2/24\n"},
      {"cidr: 10.5.0.2/24", "cidr: 10.5.0.2/24\n        dhcp: true",
       "c.yaml:13:9: machine.network.interfaces[0].dhcp: cidr is set as well; remove one of the "
       "two\n"},
      {"cidr: 10.5.0.2/24", "cidr: 10.5.0.2/24\n        mtu: 67",
       "c.yaml:13:9: warning: machine.network.interfaces[0].mtu: not a valid MTU of a link: 67; "
       "must be 68 to 65536\n"},
      {"gateway: 10.5.0.1", "gateway: fd00::1",
       "c.yaml:15:13: machine.network.interfaces[0].routes[0].gateway: gateway and network are not "
       "both IPv4 or both IPv6\n"},
      {"0.0.0.0/0", "default",
       "c.yaml:14:13: machine.network.interfaces[0].routes[0].network: \"default\" is not a valid "
       "network; use address/length, for example 10.0.0.0/8, or 0.0.0.0/0 for the default route\n"},
      {"https://10.5.0.2:6443", "10.5.0.2:6443",
       "c.yaml:20:5: cluster.controlPlane.endpoint: \"10.5.0.2:6443\": the scheme is missing; use "
       "https://host:port, for example https://10.5.0.2:6443\n"},
      {"    endpoint: https://10.5.0.2:6443\n", "    localAPIServerPort: 6443\n",
       "c.yaml:20:5: cluster.controlPlane.endpoint: required key is missing\n"},
      {"dnsDomain: cluster.local", "dnsDomain: 10.0.0.1",
       "c.yaml:22:5: cluster.network.dnsDomain: \"10.0.0.1\" is not a DNS name; for example "
       "cluster.local\n"},
      {"[10.244.0.0/16]", "[10.244.0.0/33]",
       "c.yaml:23:18: cluster.network.podSubnets[0]: \"10.244.0.0/33\" is not a valid address with "
       "a prefix length; for example 10.5.0.2/24\n"},
      {"  network:\n    hostname", "  netwrok: {}\n  network:\n    hostname",
       "c.yaml:7:3: machine.netwrok: unknown key \"netwrok\"; did you mean "
       "\"network\"?\n"},
  };
  for (auto& row : table) {
    EXPECT_EQ(kj::StringPtr(row.problem), problemsOf(replaced(good(), row.from, row.to))) << row.to;
  }
}

// Catches: a machine that boots with an authority that it cannot use; key material in the message.
TEST(Config, ChecksAuthorities) {
  auto other = pki::makeAuthority({.organization = "other"});
  auto text = good();
  auto keyAt = text.find(", key: ") + 7;
  auto keyEnd = text.find('}', keyAt);
  auto foreign = text;
  foreign.replace(keyAt, keyEnd - keyAt, base64(other.key).cStr());
  auto problem = std::string(problemsOf(foreign).cStr());
  EXPECT_NE(problem.find("c.yaml:6:"), std::string::npos) << problem;
  EXPECT_NE(problem.find("machine.ca.key: "), std::string::npos) << problem;
  EXPECT_EQ(problem.find(base64(other.key).cStr()), std::string::npos) << problem;

  auto leaf = pki::issue(other.certificate, other.key, {});
  auto noAuthority = text;
  auto crtAt = noAuthority.find("crt: ") + 5;
  noAuthority.replace(crtAt, noAuthority.find(',', crtAt) - crtAt, base64(leaf.certificate).cStr());
  EXPECT_NE(std::string(problemsOf(noAuthority).cStr()).find("not a CA certificate"),
            std::string::npos);

  auto missing = replaced(text, "  ca: {crt", "  xx: {crt");
  EXPECT_NE(std::string(problemsOf(missing).cStr()).find("machine.ca: a control-plane node needs"),
            std::string::npos);
}

// Catches: a document of another version that is read without a word.
TEST(Config, WarnsOfAnotherVersion) {
  auto text = replaced(good(), "version: v1alpha1\n", "version: v1alpha2\n");
  auto config = parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
  EXPECT_TRUE(config.good());
  EXPECT_NE(std::string(problemsOf(text).cStr())
                .find("warning: version: \"v1alpha2\" is read as v1alpha1"),
            std::string::npos)
      << problemsOf(text).cStr();
}

// Catches: values of newer or older documents refused; a missing type that is not mentioned.
TEST(Config, KnowsTheMachineTypes) {
  auto typeOf = [](const std::string& line) {
    auto text = replaced(good(), "  type: controlplane\n", line);
    auto config = parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
    Problems ofType;
    for (auto& problem : config.problems()) {
      if (problem.path == "machine.type") ofType.add(problem.clone()).hint = nullptr;
    }
    return kj::str(config.good() ? "" : "bad ",
                   static_cast<unsigned>(config.get().getMachine().getType()), " ", render(ofType));
  };
  EXPECT_EQ(kj::str("0 "), typeOf("  type: worker\n"));
  EXPECT_EQ(kj::str("0 "), typeOf("  type: join\n"));
  EXPECT_EQ(kj::str("1 "), typeOf("  type: init\n"));
  EXPECT_EQ(kj::str("2 "), typeOf("  type: controlplane\n"));
  EXPECT_EQ(kj::str("0 c.yaml:3:1: warning: machine.type: missing; the node will be a worker\n"),
            typeOf(""));
}

// Catches: a stream whose other documents are taken for the machine config, or pass unread.
TEST(Config, TakesTheMachineConfigOfAStream) {
  auto before = [](const char* other) {
    auto text = std::string(other) + "\n---\n" + good();
    auto config = parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
    EXPECT_EQ(kj::StringPtr("master-1"), config.get().getMachine().getNetwork().getHostname());
    return kj::str(config.good() ? "good " : "bad ", render(config.problems()));
  };
  EXPECT_EQ(kj::str("bad c.yaml:3:1: HostnameConfig.hostname: machine.network.hostname is set as "
                    "well; remove one of the two\n"),
            before("apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: x"));
  EXPECT_EQ(
      kj::str("good c.yaml:1:1: warning: DiscoveryIdentityConfig documents are supported from "
              "version v1.14 on; this one has no effect\n"),
      before("apiVersion: v1alpha1\nkind: DiscoveryIdentityConfig\nclusterID: x"));
  EXPECT_EQ(kj::str("bad c.yaml:1:1: unknown kind \"HostnamConfig\" of a document; did you mean "
                    "\"HostnameConfig\"?\n"),
            before("kind: HostnamConfig"));
  EXPECT_EQ(kj::str("bad c.yaml:1:1: the document has neither the key \"machine\" nor \"kind\"\n"),
            before("a: b"));
  auto twice = problemsOf(good() + "---\n" + replaced(good(), "master-1", "master-2"));
  EXPECT_NE(std::string(twice.cStr())
                .find("another machine config; the first begins in line 1; put "
                      "each into a file of its own"),
            std::string::npos)
      << twice.cStr();
}

// Catches: an allowed document that hides an error of another one, also beyond the limit of
// problems; a firewall that passes as an unknown document.
TEST(Config, UnknownDocumentsAreAWarningWhereTheyAreAllowed) {
  auto allowed = [](const std::string& text) {
    auto config =
        parse(kj::arrayPtr(text.data(), text.size()), "c.yaml", UnknownDocuments::kAllowed);
    return std::string(config.good() ? "good " : "bad ") + render(config.problems()).cStr();
  };
  EXPECT_EQ(allowed("kind: Backup\n---\n" + good()),
            "good c.yaml:1:1: warning: unknown kind \"Backup\" of a document; a node refuses it\n");
  EXPECT_TRUE(allowed("a: b\n---\n" + good()).starts_with("bad "));
  std::string many;
  for (int i = 0; i < 200; ++i) many += "---\nkind: Backup\n";
  EXPECT_TRUE(allowed(good() + many).starts_with("good "));
  EXPECT_TRUE(allowed(good() + many + "---\nkind: NetworkRuleConfig\n").starts_with("bad "));
  EXPECT_TRUE(allowed(good() + many + "---\n" + good()).starts_with("bad "));
}

// Catches: a mistake that is lost among many others; empty documents that count as a document.
TEST(Config, CountsTheOtherDocumentsByTheirSeverity) {
  EXPECT_EQ(problemsOf(good()), problemsOf(good() + "---\n"));
  EXPECT_EQ(problemsOf(good()), problemsOf(good() + "---\n# only a comment\n---\n"));
  std::string many;
  for (int i = 0; i < 200; ++i) many += "---\nkind: UserVolumeConfig\n";
  std::string problems = problemsOf(good() + many + "---\nkind: Secret\n").cStr();
  EXPECT_NE(problems.find("unknown kind \"Secret\" of a document; remove it\n"), problems.npos);
  auto count = 0;
  for (auto at = problems.find("UserVolume"); at != problems.npos;
       at = problems.find("UserVolume", at + 1))
    ++count;
  EXPECT_EQ(count, 100);
}

// Catches: an error that an earlier release had too and that a node then boots with; a new config
// that is let through like a kept one.
TEST(Config, AKeptConfigMayHaveWhatEarlierReleasesTook) {
  auto keptProblems = [](const std::string& text) {
    auto config = parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
    EXPECT_FALSE(config.good());
    return problemsOfKept(config, "c.yaml");
  };
  auto twice = good() + "---\n" + good();
  EXPECT_FALSE(hasErrors(keptProblems(twice)));
  EXPECT_FALSE(hasErrors(keptProblems(good() + "---\nkind: NetworkRuleConfig\n")));
  for (auto ignored : {"udev: {rules: [a]}", "sysfs: {a: b}", "kernel: {modules: [{name: a.ko}]}",
                       "kernel: {modules: [{name: a, parameters: [b c]}, {name: a}, {}]}",
                       "disks: [{device: /dev/sdb, partitions: [{size: 1GB, mountpoint: /var/a}, "
                       "{mountpoint: /var/a/}]}]",
                       "nodeLabels: {kubernetes.io/hostname: bar, my_org.example/rack: a}",
                       "nodeAnnotations: {node.alpha.kubernetes.io/ttl: '0'}",
                       "nodeTaints: {node.kubernetes.io/unreachable: NoExecute}"}) {
    auto text = replaced(good(), "  token:", std::string("  ") + ignored + "\n  token:");
    EXPECT_FALSE(hasErrors(keptProblems(text))) << ignored;
  }
  for (auto shared :
       {"- {interface: eth1, vip: {ip: '::'}}", "- {interface: eth1, vip: {ip: 224.0.0.18}}",
        "- {interface: eth1, vip: {ip: 10.5.0.9}}\n"
        "      - {interface: eth2, vip: {ip: 10.5.0.9}}"}) {
    auto text =
        replaced(good(), "- interface: eth0", std::string(shared) + "\n      - interface: eth0");
    EXPECT_FALSE(hasErrors(keptProblems(text))) << shared;
  }
  auto vlan = replaced(good(), "- interface: eth0",
                       "- {interface: eth1, mtu: 1400}\n"
                       "      - {interface: eth1, vlans: [{vlanId: 5, mtu: 1500}]}\n"
                       "      - interface: eth0");
  EXPECT_FALSE(hasErrors(keptProblems(vlan)));
  for (auto route : {"network: default", "metric: 5", "network: 0.0.0.0/0\n            gateway: x",
                     "network: 0.0.0.0/0\n            gateway: fd00::1", "gateway: 224.0.0.1",
                     "type: blackhole"}) {
    auto text =
        replaced(good(), "network: 0.0.0.0/0\n            gateway: 10.5.0.1", std::string(route));
    EXPECT_FALSE(hasErrors(keptProblems(text))) << route;
  }
  for (auto field : {"port: 1", "shutdownGracePeriod: 1h"}) {
    auto text = replaced(
        good(), "  token:", std::string("  kubelet: {extraConfig: {") + field + "}}\n  token:");
    EXPECT_FALSE(hasErrors(keptProblems(text))) << field;
  }
  for (auto name : {"Bad_Name", "a.", "a-", "a-.b"}) {
    EXPECT_FALSE(hasErrors(keptProblems(replaced(good(), "master-1", name)))) << name;
  }
  EXPECT_TRUE(hasErrors(keptProblems(twice + "---\na: b\n")));
  for (auto name : {"'-'", "a..b", "a b", "10.5.0.2"}) {
    EXPECT_TRUE(hasErrors(keptProblems(replaced(good(), "master-1", name)))) << name;
  }
}

// The keys of a document that sets everything which this system lacks, of any kind.
constexpr auto kAsksForAll =
    "\nname: a\nenabled: true\nlocal: {enabled: true}\nworkloadIsolation: true\ninterval: 24h\n"
    "rules: [{image: a/*, skip: true}, {image: b/*, deny: true}]\n";

// Catches: an upgrade after which a node does not boot, or loses the rest of its config, because of
// a document or key of which the release before had only warned; a new config that is let through
// like a kept one.
TEST(Config, AKeptConfigMayHaveWhatALaterTalosHas) {
  auto expectWarning = [](const std::string& text, kj::StringPtr path) {
    auto config = parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
    EXPECT_FALSE(config.good()) << path.cStr();
    EXPECT_EQ(kj::StringPtr("master-1"), config.get().getMachine().getNetwork().getHostname());
    unsigned found = 0;
    for (auto& problem : problemsOfKept(config, "c.yaml")) {
      EXPECT_EQ(Problem::Severity::kWarning, problem.severity) << problem.toString().cStr();
      found += problem.path == path;
    }
    EXPECT_EQ(1u, found) << path.cStr();
  };
  unsigned kinds = 0;
  for (auto& kind : laterKinds()) {
    if (kind.treatment != codec::LaterTreatment::kError) continue;
    ++kinds;
    expectWarning(good() + "---\nkind: " + kind.name.cStr() + kAsksForAll, kind.name);
  }
  EXPECT_LE(11u, kinds);
  auto below = [](const char* line, const char* key) {
    return replaced(good(), line, std::string(key) + "\n" + line);
  };
  expectWarning(below("    hostname:", "    kubespan: {enabled: true}"),
                "machine.network.kubespan.enabled");
  expectWarning(below("  token:", "  time: {bootTimeout: soon}"), "machine.time.bootTimeout");
  expectWarning(below("    disk:", "    extensions: [{image: a/b}]"), "machine.install.extensions");
  expectWarning(replaced(good(), "  etcd: {ca", "  etcd: {subnet: 10.0.0.0/8, ca"),
                "cluster.etcd.subnet");
  expectWarning(
      below("      - interface: eth0",
            "      - {interface: eth1, vip: {ip: 10.5.0.9, equinixMetal: {apiToken: a}}}"),
      "machine.network.interfaces[0].vip.equinixMetal");
  auto unknown = below("    hostname:", "    kubespan: {enable: true}");
  auto config = parse(kj::arrayPtr(unknown.data(), unknown.size()), "c.yaml");
  EXPECT_TRUE(hasErrors(problemsOfKept(config, "c.yaml"))) << "no release accepted it";
}

// Catches: an upgrade after which a node does not boot because of a mistake in a key that the
// release before did not read; a control plane that is made of such a mistake.
TEST(Config, AMistakeInAKeyThatDidNothingIsNoErrorOfAKeptConfig) {
  struct Case {
    const char *line, *text, *path;
  };
  constexpr const char *kToken = "  token:", *kCluster = "cluster:\n",
                       *kLink = "      - interface: eth0";
  for (auto& [line, text, path] : {
           Case{kCluster, "  apiServer: {auditPolicy: {rules: [{level: metadata}]}}",
                "cluster.apiServer.auditPolicy"},
           Case{kCluster, "  apiServer: {admissionControl: [{configuration: {a: b}}]}",
                "cluster.apiServer.admissionControl"},
           Case{kCluster, "  apiServer: {authorizationConfig: [{type: ABAC}]}",
                "cluster.apiServer.authorizationConfig"},
           Case{kCluster, "  apiServer: {resources: {limits: {memory: 1Ki}}}",
                "cluster.apiServer.resources"},
           Case{kCluster, "  scheduler: {env: [{name: A, value: b}]}", "cluster.scheduler.env"},
           Case{kToken, "  controlPlane: {scheduler: {disabled: sure}}", "machine.controlPlane"},
           Case{kToken, "  pods: {a: b}", "machine.pods"},
           Case{kToken, "  seccompProfiles: [{name: a}]", "machine.seccompProfiles"},
           Case{kToken, "  baseRuntimeSpecOverrides: [a]", "machine.baseRuntimeSpecOverrides"},
           Case{kToken, "  features: {stableHostname: \"true\"}",
                "machine.features.stableHostname"},
           Case{kToken, "  kubelet: {skipNodeRegistration: maybe}",
                "machine.kubelet.skipNodeRegistration"},
           Case{kToken, "  time: {bootTimeout: [1]}", "machine.time.bootTimeout"},
           Case{kLink, "      - {interface: eth7, bridgePort: {master: eth7}}",
                "machine.network.interfaces[0].bridgePort"},
       }) {
    bool below = kj::StringPtr(line).startsWith("cluster");
    auto both = below ? std::string(line) + text + "\n" : std::string(text) + "\n" + line;
    auto yaml = replaced(good(), line, both);
    auto config = parse(kj::arrayPtr(yaml.data(), yaml.size()), "c.yaml");
    EXPECT_FALSE(config.good()) << path;
    auto problems = problemsOfKept(config, "c.yaml");
    EXPECT_FALSE(hasErrors(problems)) << path << ": " << problems[0].toString().cStr();
    unsigned found = 0;
    for (auto& problem : problems) found += problem.path.startsWith(path);
    EXPECT_LE(1u, found) << path;
    auto read = config.get();
    auto api = read.getCluster().getApiServer();
    EXPECT_EQ(kj::StringPtr("master-1"), read.getMachine().getNetwork().getHostname()) << path;
    EXPECT_FALSE(api.hasAuditPolicy() || api.hasResources());
    EXPECT_EQ(0u, api.getAuthorizationConfig().size() + api.getAdmissionControl().size());
  }
}

// Catches: a config that is refused because it says that something is off which is off here.
TEST(Config, WhatIsOffIsAccepted) {
  auto plain = problemsOf(good());
  for (auto document :
       {"kind: KubeSpanConfig\nmtu: 1420\n", "kind: KubeSpanConfig\nenabled: false\n",
        "kind: SecurityProfileConfig\nworkloadIsolation: false\n",
        "kind: ImageVerificationConfig\n",
        "kind: ImageVerificationConfig\nrules: [{image: 'a/*', skip: true}]\n"}) {
    EXPECT_EQ(plain, problemsOf(good() + "---\n" + document)) << document;
  }
  for (auto key : {"kubespan: {enabled: false, mtu: 1420, filters: {endpoints: [0.0.0.0/0]}}",
                   "kubespan: {allowDownPeerBypass: true}", "kubespan: {enabled: }"}) {
    auto text = replaced(good(), "    hostname:", std::string("    ") + key + "\n    hostname:");
    EXPECT_EQ(plain, problemsOf(text)) << key;
  }
  for (auto key :
       {"features: {imageCache: {localEnabled: off}}", "time: {bootTimeout: 2m0s}",
        "kubelet: {credentialProviderConfig: {kind: CredentialProviderConfig, providers: []}}"}) {
    auto text = replaced(good(), "  token:", std::string("  ") + key + "\n  token:");
    EXPECT_EQ(plain, problemsOf(text)) << key;
  }
}

// Catches: annotations that the API server refuses as too large, with all other changes of the
// node; a limit that counts values without names.
TEST(Config, AnnotationsOfTheNodeHaveALimit) {
  auto problems = [](size_t size) {
    auto value = std::string(size, 'x');
    return problemsOf(
        replaced(good(), "  token:", "  nodeAnnotations: {note: " + value + "}\n  token:"));
  };
  constexpr size_t kMost = (256 << 10) - 4;  // "note" has 4 bytes
  EXPECT_EQ(problems(kMost), problemsOf(good()));
  EXPECT_EQ(problems(kMost + 1),
            kj::str("c.yaml:5:3: machine.nodeAnnotations: too large: names and values have 262145 "
                    "bytes; at most 262144\n",
                    problemsOf(good())));
}

// Catches: a CA that is called missing, because it could not be read.
TEST(Config, AnAuthorityThatIsRefusedIsNotMissing) {
  auto worker = [](const char* ca) {
    return std::string(problemsOf(std::string("machine:\n  type: worker\n") + ca).cStr());
  };
  EXPECT_NE(worker("").find("CA of the machine API is missing"), std::string::npos);
  auto refused = worker("  ca: {crt: '?'}\n");
  EXPECT_NE(refused.find("machine.ca.crt: not valid base64"), std::string::npos) << refused;
  EXPECT_EQ(refused.find("CA of the machine API is missing"), std::string::npos) << refused;
}

// Catches: an empty document that is indistinguishable from a mistake; a crash without machine or
// cluster.
TEST(Config, TellsNothingFromWrong) {
  auto empty = parse(kj::arrayPtr("# only a comment\n", 17), "c.yaml");
  EXPECT_TRUE(empty.empty());
  EXPECT_FALSE(empty.good());
  EXPECT_EQ(kj::str("c.yaml:1:1: not a machine config: the key \"machine\" is missing; `talosctl "
                    "gen config` writes complete ones\n"),
            problemsOf("cluster: {}\n"));
  EXPECT_EQ(
      kj::str("c.yaml:1:1: not a machine config: expected a mapping (\"key: value\" lines)\n"),
      problemsOf("[]\n"));
  EXPECT_EQ(kj::str("c.yaml:1:1: cluster: required key is missing\n"
                    "c.yaml:1:1: warning: machine.type: missing; the node will be a worker\n"
                    "c.yaml:1:1: warning: machine.token: token is missing\n"),
            problemsOf("machine: {}\n"));
  // A key without a value has no value.
  EXPECT_TRUE(problemsOf("machine: {}\ncluster:\n") == problemsOf("machine: {}\n"));
  EXPECT_FALSE(parse(kj::arrayPtr("machine:\ncluster:\n", 18), "c.yaml").empty());
}

// Catches: a disk that is required although nothing is installed, or not required for an
// installation.
// Catches: more variables than process 1 can hand to a child, so that no service starts.
TEST(Config, BoundsTheEnvironment) {
  auto problems = [](unsigned count, size_t size) {
    auto text = kj::str("machine:\n  env:\n");
    for (unsigned i = 0; i < count; ++i)
      text = kj::str(text, "    V", i, ": ", kj::repeat('x', size), "\n");
    unsigned found = 0;
    for (auto& p : parse(text.asArray(), "f").problems()) found += p.path == "machine.env";
    return found;
  };
  EXPECT_EQ(0u, problems(256, 10));
  EXPECT_EQ(1u, problems(257, 10));
  EXPECT_EQ(0u, problems(1, 16000));
  EXPECT_EQ(1u, problems(2, 8200));
}

TEST(Config, NeedsADiskOnlyOnMetal) {
  auto check = [](const std::string& text, Mode mode) {
    auto config = parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
    Problems problems;
    checkMode(config, mode, "c.yaml", problems);
    return render(problems);
  };
  auto without = replaced(good(), "disk: /dev/vda", "disk: \"\"");
  EXPECT_EQ(kj::str(), check(good(), Mode::kMetal));
  EXPECT_EQ(kj::str(), check(without, Mode::kCloud));
  EXPECT_EQ(kj::str("c.yaml:17:5: machine.install.disk: the disk to install to is missing; for "
                    "example /dev/sda\n"),
            check(without, Mode::kMetal));
}

// Catches: ports out of range, IPv6 without brackets, blank hosts.
TEST(ParseEndpoint, ReadsUrls) {
  auto show = [](kj::StringPtr url) {
    auto result = parseEndpoint(url);
    if (result.problem.size() > 0) return kj::str("bad");
    return kj::str(result.value.scheme, " ", result.value.host, " ",
                   result.value.port.orDefault(0));
  };
  EXPECT_EQ(kj::str("https 10.5.0.2 6443"), show("https://10.5.0.2:6443"));
  EXPECT_EQ(kj::str("https api.example.org 0"), show("https://api.example.org"));
  EXPECT_EQ(kj::str("https api.example.org 443"), show("https://api.example.org:443/path?query"));
  EXPECT_EQ(kj::str("https fd00::1 6443"), show("https://[fd00::1]:6443"));
  EXPECT_EQ(kj::str("http x 0"), show("http://x"));
  for (auto bad : {"", "https", "https://", "https://:6443", "https://x:", "https://x:0",
                   "https://x:65536", "https://x:1e3", "https://fd00::1", "https://[fd00::1",
                   "https://[10.0.0.1]", "https://[]:1", "https://a b", "//x", "1.2.3.4:6443",
                   "https://u:p@x", "https://[fd00::1]6443"}) {
    EXPECT_EQ(kj::str("bad"), show(bad)) << bad;
  }
}

}  // namespace
}  // namespace talos::config
