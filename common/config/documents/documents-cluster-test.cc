// The documents of the cluster: its name, networks, secrets and manifests.
#include <gmock/gmock.h>
#include <kj/encoding.h>

#include <set>
#include <string>
#include <vector>

#include "common/config/config-reading.h"
#include "common/config/config-redact.h"
#include "common/config/documents/test-documents.h"
#include "common/config/rules/encryption-keys.h"
#include "common/text/foreign-text.h"
#include "common/tls/pki.h"
#include "common/tls/public-key.h"
#include "common/yaml/yaml-codec.h"

namespace talos::config {
namespace {

using testing::HasSubstr;

constexpr const char *kSecretA = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                     *kSecretB = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA=";

std::string base64(kj::StringPtr text) {
  return kj::encodeBase64(text.asBytes()).cStr();
}
std::string quoted(kj::StringPtr text) {
  return jsonString(text).cStr();
}

// Secrets of a cluster, as documents and the main document have them.
struct ClusterSecrets {
  pki::CertificateAndKey ca = pki::makeAuthority({.organization = "a"}),
                         older = pki::makeAuthority({.organization = "b"}),
                         front = pki::makeAuthority({.organization = "c"});
  pki::Pem account = pki::makeKey(pki::KeyType::kEcdsaP256);
  kj::String olderAccount = pki::publicKeyOf(pki::makeKey(pki::KeyType::kEcdsaP256));
};
const ClusterSecrets& clusterSecrets() {
  static const ClusterSecrets secrets;
  return secrets;
}

std::string issuingCa(const pki::CertificateAndKey& ca) {
  return "issuingCA: {cert: " + quoted(ca.certificate) + ", key: " + quoted(ca.key) + "}";
}

// One right document of each kind.
struct RightDocument {
  const char* key;  // that it replaces; "" if it is added
  std::string text;
};
std::vector<RightDocument> rightDocuments() {
  auto& secrets = clusterSecrets();
  return {
      {"cluster.clusterName",
       "kind: KubeClusterConfig, clusterName: c1, endpoint: 'https://10.5.0.2:6443'"},
      {"cluster.network",
       "kind: KubeNetworkConfig, dnsDomain: c1.lab, podSubnets: [10.8.0.0/16], serviceSubnets: "
       "[10.9.0.0/16], nodeCIDRMaskSizeIPv4: 25"},
      {"cluster.network",
       "kind: KubeFlannelCNIConfig, backendType: vxlan, backendPort: 4789, extraArgs: "
       "[--iface=eth1]"},
      {"cluster.ca", "kind: KubeAPIServerCAConfig, " + issuingCa(secrets.ca) + ", acceptedCAs: [" +
                         quoted(secrets.ca.certificate) + ", " + quoted(secrets.older.certificate) +
                         "]"},
      {"cluster.aggregatorCA", "kind: KubeAggregatorCAConfig, " + issuingCa(secrets.front) +
                                   ", acceptedCAs: [" + quoted(secrets.older.certificate) + "]"},
      {"cluster.serviceAccount",
       "kind: KubeServiceAccountConfig, issuer: {privateKey: " + quoted(secrets.account) +
           ", issuerURL: 'https://id.lab'}, accepted: {publicKeys: [" +
           quoted(secrets.olderAccount) +
           "], issuers: ['https://id.lab'], audiences: ['https://id.lab', vault]}"},
      {"cluster.secretboxEncryptionSecret",
       std::string("kind: KubeEtcdEncryptionConfig, config: {resources: [{resources: [secrets], "
                   "providers: [{secretbox: {keys: [{name: key2, secret: ") +
           kSecretA + "}, {name: key2, secret: " + kSecretB +
           "}]}}, {aescbc: {keys: [{name: key1, secret: " + kSecretB + "}]}}, {identity: {}}]}]}"},
      {"", "kind: KubeInlineManifestConfig, name: m, manifest: 'kind: Secret'"},
      {"",
       "kind: KubeExternalManifestConfig, name: e, url: 'https://m.lab/e.yaml', headers: {A: "
       "password-of-e}"},
      {"machine.features.kubernetesTalosAPIAccess",
       "kind: KubeTalosAPIAccessConfig, allowedRoles: [os:reader], allowedKubernetesNamespaces: "
       "[apps]"},
  };
}

std::string mainOf(const std::string& features = "") {
  auto& ca = clusterSecrets().ca;
  return mainDocument() + "  ca: {crt: " + base64(ca.certificate) + ", key: " + base64(ca.key) +
         "}\n" + features;
}

std::string allDocuments() {
  auto text = mainOf();
  for (auto& document : rightDocuments()) text += oneDocument(document.text);
  return text;
}

std::string viewOf(const MachineConfig& config) {
  return codec::writeYaml(config.get(), {.empties = codec::Empties::kOmit}).cStr();
}

// Returns the same cluster in the keys of the main document.
std::string classicConfig() {
  auto& secrets = clusterSecrets();
  auto ca = [](const pki::CertificateAndKey& one) {
    return "{crt: " + base64(one.certificate) + ", key: " + base64(one.key) + "}";
  };
  auto older = "[{crt: " + base64(secrets.older.certificate) + "}]";
  return mainOf(
             "  features: {kubernetesTalosAPIAccess: {enabled: true, allowedRoles: [os:reader], "
             "allowedKubernetesNamespaces: [apps]}}\n") +
         "cluster:\n"
         "  clusterName: c1\n"
         "  controlPlane: {endpoint: 'https://10.5.0.2:6443'}\n"
         "  network:\n"
         "    dnsDomain: c1.lab\n"
         "    podSubnets: [10.8.0.0/16]\n"
         "    serviceSubnets: [10.9.0.0/16]\n"
         "    cni: {name: flannel, flannel: {extraArgs: [--iface=eth1]}}\n"
         "  controllerManager: {extraArgs: {node-cidr-mask-size: 25}}\n"
         "  apiServer: {extraArgs: {service-account-issuer: 'https://id.lab', api-audiences: "
         "'https://id.lab,vault'}}\n"
         "  ca: " +
         ca(secrets.ca) + "\n  acceptedCAs: " + older + "\n  aggregatorCA: " + ca(secrets.front) +
         "\n  acceptedAggregatorCAs: " + older +
         "\n  serviceAccount: {key: " + base64(secrets.account) +
         "}\n  acceptedServiceAccountKeys: [{key: " + base64(secrets.olderAccount) +
         "}]\n  secretboxEncryptionSecret: " + kSecretA + "\n  acceptedEncryptionSecrets: [" +
         kSecretB + "]\n  aescbcEncryptionSecret: " + kSecretB +
         "\n  inlineManifests: [{name: m, contents: 'kind: Secret'}]\n"
         "  extraManifests: ['https://m.lab/e.yaml']\n"
         "  extraManifestHeaders: {A: password-of-e}\n";
}

// Catches: a document without an effect, or with another one than its keys; a config that needs a
// cluster section although documents say all that it would.
TEST(ClusterDocuments, GiveTheViewOfTheKeysThatTheyReplace) {
  auto config = parsed(allDocuments()), classic = parsed(classicConfig());
  EXPECT_TRUE(config.good()) << render(config.problems()).cStr();
  EXPECT_TRUE(classic.good()) << render(classic.problems()).cStr();
  EXPECT_EQ(viewOf(classic), viewOf(config));
  std::set<std::string> kinds;
  for (auto kind : config.get().getDocuments()) kinds.insert(kind.cStr());
  EXPECT_EQ(rightDocuments().size(), kinds.size());
}

// Catches: a config without an endpoint that is accepted; one with a document that is refused for
// it.
TEST(ClusterDocuments, ReplaceTheClusterSection) {
  EXPECT_THAT(render(parsed(mainOf()).problems()).cStr(),
              HasSubstr("cluster: required key is missing"));
  auto name = rightDocuments()[0].text;
  for (auto section : {"", "cluster:\n", "cluster: {token: aaaaaa.bbbbbbbbbbbbbbbb}\n",
                       "cluster: {controlPlane: {localAPIServerPort: 6444}}\n"}) {
    auto config = parsed(mainOf() + section + oneDocument(name));
    EXPECT_TRUE(config.good()) << section << render(config.problems()).cStr();
    EXPECT_STREQ("https://10.5.0.2:6443",
                 config.get().getCluster().getControlPlane().getEndpoint().cStr());
  }
  EXPECT_FALSE(parsed(mainOf() + oneDocument("kind: KubeClusterConfig, clusterName: c1")).good());
}

// Catches: two settings of one thing, of which one would be lost.
TEST(ClusterDocuments, AreRefusedBesideTheirKeys) {
  for (auto& document : rightDocuments()) {
    std::string key = document.key;
    if (key.empty()) continue;
    EXPECT_THAT(problemsIn(classicConfig() + oneDocument(document.text)),
                HasSubstr(": " + key + " is set as well; remove one of the two"));
  }
  const std::pair<const char*, const char*> rows[] = {
      {"controlPlane: {endpoint: 'https://a:6443'}", "cluster.controlPlane.endpoint is set"},
      {"acceptedCAs: [{crt: QQ==}]", "KubeAPIServerCAConfig: cluster.acceptedCAs is set as well"},
      {"acceptedAggregatorCAs: [{crt: QQ==}]", "cluster.acceptedAggregatorCAs is set as well"},
      {"acceptedServiceAccountKeys: [{key: QQ==}]", "cluster.acceptedServiceAccountKeys is set"},
      {"aescbcEncryptionSecret: a", "cluster.aescbcEncryptionSecret is set as well"},
      {"acceptedEncryptionSecrets: [a]", "cluster.acceptedEncryptionSecrets is set as well"},
      {"apiServer: {extraArgs: {api-audiences: a}}",
       "KubeServiceAccountConfig: cluster.apiServer.extraArgs.api-audiences is set as well"},
      {"controllerManager: {extraArgs: {node-cidr-mask-size: 26}}",
       "KubeNetworkConfig.nodeCIDRMaskSizeIPv4: "
       "cluster.controllerManager.extraArgs.node-cidr-mask-size is set as well"},
  };
  for (auto& [key, problem] : rows) {
    auto text = mainOf() + "cluster: {" + key + "}\n";
    for (auto& document : rightDocuments()) text += oneDocument(document.text);
    EXPECT_THAT(problemsIn(text), HasSubstr(problem));
  }
}

// Catches: a document of a control plane on a worker; the key of a CA on one; a worker that does
// not verify the API server.
TEST(ClusterDocuments, OfWorkers) {
  auto worker = mainDocument("", "worker");
  for (auto& document : rightDocuments()) {
    auto kind = document.text.substr(6, document.text.find(',') - 6);
    bool refused = kind == "KubeFlannelCNIConfig" || kind == "KubeAggregatorCAConfig" ||
                   kind == "KubeServiceAccountConfig" || kind == "KubeEtcdEncryptionConfig" ||
                   kind == "KubeTalosAPIAccessConfig";
    auto problems = problemsIn(worker + oneDocument(document.text));
    EXPECT_EQ(refused, problems.find("only control-plane nodes have such a document; remove it") !=
                           problems.npos)
        << problems;
  }
  auto& secrets = clusterSecrets();
  EXPECT_THAT(
      problemsIn(worker + oneDocument("kind: KubeAPIServerCAConfig, " + issuingCa(secrets.ca))),
      HasSubstr("KubeAPIServerCAConfig.issuingCA: a worker issues no certificates"));
  EXPECT_THAT(problemsIn(worker + oneDocument("kind: KubeAPIServerCAConfig")),
              HasSubstr("KubeAPIServerCAConfig.acceptedCAs: the CA of Kubernetes is missing"));
  auto text = worker + oneDocument("kind: KubeAPIServerCAConfig, acceptedCAs: [" +
                                   quoted(secrets.ca.certificate) + ", " +
                                   quoted(secrets.older.certificate) + "]");
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  auto cluster = config.get().getCluster();
  EXPECT_EQ(secrets.ca.certificate.asBytes(), cluster.getCa().getCrt());
  EXPECT_EQ(0u, cluster.getCa().getKey().size());
  ASSERT_EQ(1u, cluster.getAcceptedCAs().size());
  EXPECT_EQ(secrets.older.certificate.asBytes(), cluster.getAcceptedCAs()[0].getCrt());
}

// Catches: a mistake that is reported in the main document, or not at all; a setting that this
// system would ignore.
TEST(ClusterDocuments, MistakesAreFoundInThem) {
  const std::pair<const char*, const char*> rows[] = {
      {"kind: KubeClusterConfig, clusterName: a, endpoint: 10.5.0.2",
       "KubeClusterConfig.endpoint:"},
      {"kind: KubeNetworkConfig, podSubnets: [10.0.0.0/16]",
       "KubeNetworkConfig.serviceSubnets: required key is missing"},
      {"kind: KubeNetworkConfig, podSubnets: [], serviceSubnets: []",
       "KubeNetworkConfig.podSubnets: there is no network"},
      {"kind: KubeNetworkConfig, podSubnets: [10.8.0.1/16], serviceSubnets: [10.9.0.0/16]",
       "KubeNetworkConfig.podSubnets[0]: \"10.8.0.1/16\" has bits after its prefix length; use "
       "10.8.0.0/16"},
      {"kind: KubeNetworkConfig, podSubnets: [10.8.0.0/16], serviceSubnets: [10.9.0.0/29]",
       "KubeNetworkConfig.serviceSubnets[0]: \"10.9.0.0/29\" is too small; use /28 or shorter"},
      {"kind: KubeNetworkConfig, podSubnets: [10.8.0.0/16, 'fd00:8::/56'], serviceSubnets: "
       "[10.9.0.0/16]",
       "KubeNetworkConfig.serviceSubnets: podSubnets has another number of networks"},
      {"kind: KubeNetworkConfig, podSubnets: [10.8.0.0/16], serviceSubnets: [10.9.0.0/16], "
       "nodeCIDRMaskSizeIPv4: 12",
       "KubeNetworkConfig.podSubnets[0]: each node gets a /12 of \"10.8.0.0/16\"; use another "
       "network, or /16 to /32 in nodeCIDRMaskSizeIPv4"},
      {"kind: KubeNetworkConfig, podSubnets: [10.8.0.0/16], serviceSubnets: [10.9.0.0/16], "
       "nodeCIDRMaskSizeIPv6: 80",
       "KubeNetworkConfig.nodeCIDRMaskSizeIPv6: podSubnets has no network of IPv6; remove it"},
      {"kind: KubeNetworkConfig, podSubnets: [x], serviceSubnets: [10.9.0.0/16]",
       "KubeNetworkConfig.podSubnets[0]: \"x\" is not a valid address with a prefix length"},
      {"kind: KubeNetworkConfig, dnsDomain: 'a b', podSubnets: [10.8.0.0/16], serviceSubnets: "
       "[10.9.0.0/16]",
       "KubeNetworkConfig.dnsDomain: \"a b\" is not a DNS name"},
      {"kind: KubeFlannelCNIConfig, backendType: wireguard",
       "KubeFlannelCNIConfig.backendType: flannel has the backend vxlan here; for another"},
      {"kind: KubeFlannelCNIConfig, backendType: vxlan, backendPort: 8472",
       "KubeFlannelCNIConfig.backendPort: flannel uses port 4789 here"},
      {"kind: KubeFlannelCNIConfig, backendType: vxlan, backendMTU: 1400",
       "KubeFlannelCNIConfig.backendMTU: flannel takes the MTU of the node's link here"},
      {"kind: KubeFlannelCNIConfig, backendType: vxlan, backendExtraConfig: {VNI: 2}",
       "KubeFlannelCNIConfig.backendExtraConfig: flannel's backend has no other settings"},
      {"kind: KubeFlannelCNIConfig, backendType: vxlan, resources: {limits: {cpu: 1}}",
       "KubeFlannelCNIConfig.resources: flannel has neither requests nor limits here"},
      {"kind: KubeFlannelCNIConfig, backendType: vxlan, kubeNetworkPoliciesEnabled: true",
       "KubeFlannelCNIConfig.kubeNetworkPoliciesEnabled: flannel does not enforce"},
      {"kind: KubeFlannelCNIConfig, backendType: vxlan, extraArgs: [iface]",
       "KubeFlannelCNIConfig.extraArgs[0]: \"iface\" is not an argument of flanneld"},
      {"kind: KubeAPIServerCAConfig",
       "KubeAPIServerCAConfig.issuingCA.key: a control-plane node needs it"},
      {"kind: KubeAPIServerCAConfig, issuingCA: {cert: QQ==, key: QQ==}",
       "KubeAPIServerCAConfig.issuingCA.cert: there is no certificate; use certificates in PEM"},
      {"kind: KubeAggregatorCAConfig, acceptedCAs: [a]",
       "KubeAggregatorCAConfig.acceptedCAs[0]: there is no certificate; use certificates in PEM"},
      {"kind: KubeServiceAccountConfig, issuer: {privateKey: a, issuerURL: b}",
       "KubeServiceAccountConfig.issuer.privateKey: not a private key of RSA or ECDSA"},
      {"kind: KubeServiceAccountConfig, issuer: {privateKey: a, issuerURL: 'https://a'}, accepted: "
       "{publicKeys: [b]}",
       "KubeServiceAccountConfig.accepted.publicKeys[0]: not a public key of RSA or ECDSA"},
      {"kind: KubeServiceAccountConfig, issuer: {privateKey: a, issuerURL: 'https://a'}, accepted: "
       "{issuers: ['https://a', 'https://b']}",
       "KubeServiceAccountConfig.accepted.issuers[1]: tokens have one issuer here"},
      {"kind: KubeServiceAccountConfig, issuer: {privateKey: a, issuerURL: 'https://a'}, accepted: "
       "{audiences: ['a,b']}",
       "KubeServiceAccountConfig.accepted.audiences[0]: \"a,b\" is not an audience"},
      {"kind: KubeInlineManifestConfig, name: ' ', manifest: a",
       "KubeInlineManifestConfig[ ].name: the manifest has no name"},
      {"kind: KubeExternalManifestConfig, name: a, url: 'ftp://a'",
       "KubeExternalManifestConfig[a].url: "},
      {"kind: KubeTalosAPIAccessConfig, allowedRoles: [os:reader], allowedKubernetesNamespaces: "
       "[A_b]",
       "KubeTalosAPIAccessConfig.allowedKubernetesNamespaces[0]: \"A_b\" is not a valid name"},
      {"kind: KubeTalosAPIAccessConfig, allowedRoles: [root]",
       "KubeTalosAPIAccessConfig.allowedRoles[0]"},
  };
  for (auto& [document, problem] : rows) {
    EXPECT_THAT(problemsIn(mainOf() + "cluster: {}\n" + oneDocument(document)), HasSubstr(problem));
  }
}

// Catches: the key of another CA; a mistake that a check of the whole config finds, and that is
// reported at another place than the document's.
TEST(ClusterDocuments, MistakesHaveTheirPlaces) {
  auto& secrets = clusterSecrets();
  auto text = mainDocument() +
              "---\napiVersion: v1alpha1\nkind: KubeClusterConfig\nclusterName: c\n"
              "endpoint: https://10.5.0.2:64430000\n"  // line 9
              "---\napiVersion: v1alpha1\nkind: KubeFlannelCNIConfig\nbackendType: vxlan\n"
              "extraArgs:\n  - iface\n"  // line 15
              "---\napiVersion: v1alpha1\nkind: KubeAPIServerCAConfig\nissuingCA:\n  cert: " +
              quoted(secrets.ca.certificate) + "\n  key: " + quoted(secrets.older.key) + "\n";
  auto problems = problemsIn(text);
  EXPECT_THAT(problems, HasSubstr("c.yaml:9:1: KubeClusterConfig.endpoint: "));
  EXPECT_THAT(problems, HasSubstr("c.yaml:15:5: KubeFlannelCNIConfig.extraArgs[0]: \"iface\" is"));
  EXPECT_THAT(problems, HasSubstr("c.yaml:21:3: KubeAPIServerCAConfig.issuingCA.key: "));
}

// Catches: flannel in a cluster whose documents name no CNI; none in one that has no networks of
// its own.
TEST(ClusterDocuments, NameTheCni) {
  auto documents = rightDocuments();
  auto cluster = oneDocument(documents[0].text), network = oneDocument(documents[1].text),
       flannel = oneDocument(documents[2].text);
  auto cniOf = [](const std::string& text) {
    auto config = parsed(text);
    EXPECT_TRUE(config.good()) << render(config.problems()).cStr();
    auto found = config.get().getCluster().getNetwork();
    return !found.hasCni()                             ? std::string("default")
           : found.getCni().getName() == CniName::NONE ? "none"
                                                       : "flannel";
  };
  EXPECT_EQ("default", cniOf(mainOf() + cluster));
  EXPECT_EQ("flannel", cniOf(mainOf() + cluster + flannel));
  EXPECT_EQ("none", cniOf(mainOf() + cluster + network));
  EXPECT_EQ("flannel", cniOf(mainOf() + cluster + network + flannel));
  EXPECT_EQ("flannel", cniOf(mainOf() + cluster + flannel + network));
}

// Catches: the mask of one family for the other; arguments for what kube-controller-manager and
// kube-apiserver do anyway.
TEST(ClusterDocuments, SetArgumentsOfComponents) {
  auto argumentsOf = [](const std::string& network) {
    auto config = parsed(mainOf() + oneDocument("kind: KubeNetworkConfig, " + network));
    std::string all;
    for (auto one : config.get().getCluster().getControllerManager().getExtraArgs()) {
      all += std::string(one.getKey().cStr()) + "=" + one.getValue().cStr() + " ";
    }
    return all;
  };
  std::string both =
      "podSubnets: [10.8.0.0/16, 'fd00:8::/56'], serviceSubnets: [10.9.0.0/16, "
      "'fd00:9::/112']";
  EXPECT_EQ("", argumentsOf(both + ", nodeCIDRMaskSizeIPv4: 24, nodeCIDRMaskSizeIPv6: 64"));
  EXPECT_EQ("node-cidr-mask-size-ipv4=26 node-cidr-mask-size-ipv6=72 ",
            argumentsOf(both + ", nodeCIDRMaskSizeIPv4: 26, nodeCIDRMaskSizeIPv6: 72"));
  EXPECT_EQ("node-cidr-mask-size=72 ",
            argumentsOf("podSubnets: ['fd00:8::/56'], serviceSubnets: ['fd00:9::/112'], "
                        "nodeCIDRMaskSizeIPv6: 72"));
  auto account =
      "kind: KubeServiceAccountConfig, issuer: {privateKey: " + quoted(clusterSecrets().account) +
      ", issuerURL: 'https://10.5.0.2:6443'}";
  auto config = parsed(mainOf() + oneDocument(account) + oneDocument(rightDocuments()[0].text));
  EXPECT_TRUE(config.good()) << render(config.problems()).cStr();
  EXPECT_EQ(0u, config.get().getCluster().getApiServer().getExtraArgs().size());
}

// Catches: Secrets that are written with another key than the document's first, or whose key no
// longer reads.
TEST(ClusterDocuments, EncryptSecretsWithTheFirstKey) {
  auto textOf = [](const std::string& providers) {
    return mainOf() + oneDocument(rightDocuments()[0].text) +
           oneDocument(
               "kind: KubeEtcdEncryptionConfig, config: {resources: "
               "[{resources: [secrets], providers: [" +
               providers + "]}]}");
  };
  auto key = [](const char* provider, kj::StringPtr name, const char* secret) {
    return std::string("{") + provider + ": {keys: [{name: " + name.cStr() + ", secret: " + secret +
           "}]}}, ";
  };
  auto keysOf = [&](const std::string& providers) {
    auto text = textOf(providers);
    EXPECT_EQ("", problemsIn(text));
    auto config = parsed(text);
    auto cluster = config.get().getCluster();
    kj::Vector<kj::StringPtr> accepted;
    for (auto one : cluster.getAcceptedEncryptionSecrets()) accepted.add(one);
    auto keys = secretsKeys(cluster.getSecretboxEncryptionSecret(),
                            cluster.getAescbcEncryptionSecret(), accepted);
    std::string all;
    for (auto& one : keys) {
      all += std::string(one.provider.cStr()) + " " + one.name.cStr() + " " +
             std::string(one.secret.cStr()).substr(0, 1) + "\n";
    }
    return all;
  };
  auto ownA = ownKeyName(kSecretA);
  std::string identity = "{identity: {}}", own = ownA.cStr();
  EXPECT_EQ("secretbox key2 A\nsecretbox " + own + " A\n",
            keysOf(key("secretbox", "key2", kSecretA) + identity));
  EXPECT_EQ("secretbox " + own + " A\nsecretbox key2 A\n",
            keysOf(key("secretbox", ownA, kSecretA) + identity));
  EXPECT_EQ("aescbc key1 B\n", keysOf(key("aescbc", "key1", kSecretB) + identity));
  auto replaced = keysOf(key("secretbox", ownA, kSecretA) + key("secretbox", "key2", kSecretB) +
                         key("aescbc", "key1", kSecretB) + identity);
  EXPECT_EQ(0u, replaced.find("secretbox " + own + " A\naescbc key1 B\nsecretbox key2 A\n"));
  EXPECT_THAT(replaced, HasSubstr("secretbox key2 B\n"));

  const std::pair<std::string, const char*> rows[] = {
      {identity, "[0].identity: Secrets would be written as they are; name it after secretbox"},
      {"{identity: {}}, {secretbox: {keys: []}}", "providers: there is no key; add secretbox"},
      {key("secretbox", "key2", kSecretA) + "{kms: {name: a}}, " + identity,
       "[1].kms: this system encrypts with secretbox, or with aescbc; use secretbox"},
      {key("secretbox", "key2", kSecretA), "also reads Secrets that are not encrypted; add"},
      {key("secretbox", "mine", kSecretA) + identity,
       "KubeEtcdEncryptionConfig.config.resources[0].providers[0].secretbox.keys[0].name: this "
       "system gives keys other names, which are in etcd before each Secret; use key2"},
      {key("secretbox", "key2", "QQ==") + identity,
       "providers[0].secretbox.keys[0].secret: not valid base64 of 32 bytes"},
      {key("aescbc", "key1", kSecretA) + key("secretbox", "key2", kSecretA) + identity,
       "providers[0].aescbc.keys[0].secret: beside secretbox, this system reads with aescbc"},
      {key("aescbc", "key1", kSecretA) + key("aescbc", "key1", kSecretB) + identity,
       "providers[1].aescbc.keys[0].secret: this system has one key of aescbc"},
  };
  for (auto& [providers, problem] : rows) {
    auto problems = problemsIn(textOf(providers));
    EXPECT_THAT(problems, HasSubstr(problem));
    EXPECT_EQ(problems.npos, problems.find("AAAA")) << problems;
  }
  EXPECT_THAT(problemsIn(mainOf() + oneDocument("kind: KubeEtcdEncryptionConfig, config: "
                                                "{resources: [{resources: [secrets, configmaps], "
                                                "providers: [{identity: {}}]}]}")),
              HasSubstr("config.resources: this system encrypts Secrets, and nothing else"));
}

// Catches: a credential of one server that is sent to another.
TEST(ClusterDocuments, ManifestsHaveTheSameHeaders) {
  auto external = [](const char* name, const char* headers) {
    return oneDocument(std::string("kind: KubeExternalManifestConfig, name: ") + name +
                       ", url: 'https://" + name + "'" + headers);
  };
  auto same = mainOf() + external("a", ", headers: {A: b, C: d}") +
              external("b", ", headers: {C: d, A: b}");
  EXPECT_EQ("", problemsIn(same));
  EXPECT_EQ(2u, parsed(same).get().getCluster().getExtraManifests().size());
  EXPECT_EQ(2u, parsed(same).get().getCluster().getExtraManifestHeaders().size());
  EXPECT_THAT(problemsIn(mainOf() + external("a", "") + external("b", ", headers: {A: b}")),
              HasSubstr("KubeExternalManifestConfig[b].headers: every manifest is fetched with the "
                        "same headers, and KubeExternalManifestConfig[a] has others"));
  auto main = mainOf() + "cluster: {extraManifests: ['https://c'], extraManifestHeaders: {A: b}}\n";
  EXPECT_THAT(problemsIn(main + external("a", "")),
              HasSubstr("and cluster.extraManifestHeaders has others"));
  EXPECT_EQ("", problemsIn(main + external("a", ", headers: {A: b}")));
  EXPECT_EQ(1u, parsed(main + external("a", "")).get().getCluster().getExtraManifests().size());
}

// Catches: a node that does not boot with the documents that the release before ignored, or that
// takes other networks and secrets than those with which its cluster was made.
TEST(ClusterDocuments, OfAKeptConfigDoNothingBesideTheirKeys) {
  auto text = classicConfig();
  for (auto& document : rightDocuments()) {
    std::string key = document.key;
    if (!key.empty()) text += oneDocument(document.text);
  }
  auto kept = parsed(text);
  EXPECT_EQ(viewOf(parsed(classicConfig())), viewOf(kept));
  EXPECT_FALSE(kept.get().hasDocuments());
  for (auto& problem : problemsOfKept(kept, "c.yaml")) {
    EXPECT_EQ(Problem::Severity::kWarning, problem.severity) << problem.toString().cStr();
  }
}

// Catches: a mistake that stops a boot; a cluster that loses its CNI by a mistake in flannel's
// document.
TEST(ClusterDocuments, OfAKeptConfigDoNothingAfterAMistake) {
  auto network = oneDocument(
      "kind: KubeNetworkConfig, podSubnets: [10.8.0.0/16], serviceSubnets: "
      "[10.9.0.0/16]");
  auto wrongNetwork = oneDocument(
      "kind: KubeNetworkConfig, podSubnets: [x], serviceSubnets: "
      "[10.9.0.0/16]");
  auto cluster = oneDocument(rightDocuments()[0].text);
  for (auto wrong : {"backendType: host-gw", "backendType: vxlan, extraArgs: [iface]"}) {
    auto config = parsed(mainOf() + cluster + network +
                         oneDocument(std::string("kind: KubeFlannelCNIConfig, ") + wrong));
    EXPECT_FALSE(config.get().getCluster().getNetwork().hasCni()) << wrong;
    EXPECT_EQ(1u, config.get().getCluster().getNetwork().getPodSubnets().size());
    for (auto& problem : problemsOfKept(config, "c.yaml")) {
      if (!isInDocument(problem.path)) continue;
      EXPECT_EQ(Problem::Severity::kWarning, problem.severity) << problem.toString().cStr();
    }
  }
  EXPECT_FALSE(parsed(mainOf() + cluster + wrongNetwork).get().getCluster().hasNetwork());
}

// Catches: a secret of a document that `get machineconfig` or a diagnosis shows.
TEST(ClusterDocuments, HideTheirSecrets) {
  auto text = allDocuments();
  std::string shown = redact(kj::arrayPtr(text.data(), text.size())).cStr();
  auto& secrets = clusterSecrets();
  for (kj::StringPtr secret : {kj::StringPtr(secrets.ca.key), kj::StringPtr(secrets.front.key),
                               kj::StringPtr(secrets.account)}) {
    EXPECT_THAT(text, HasSubstr(quoted(secret)));
    EXPECT_EQ(shown.npos, shown.find(quoted(secret)));
  }
  for (auto secret : {kSecretA, kSecretB, "kind: Secret", "password-of-e"}) {
    EXPECT_THAT(text, HasSubstr(secret));
    EXPECT_EQ(shown.npos, shown.find(secret)) << secret;
  }
  EXPECT_THAT(shown, HasSubstr(quoted(secrets.ca.certificate)));
  EXPECT_THAT(shown, HasSubstr("https://m.lab/e.yaml"));
}

// Catches: a credential that is sent to the server of another one of the same name.
TEST(ClusterDocuments, AHeaderIsItsNameAndItsValue) {
  auto external = [](const char* name, const char* value) {
    return oneDocument(std::string("kind: KubeExternalManifestConfig, name: ") + name +
                       ", url: 'https://" + name + "', headers: {A: " + value + "}");
  };
  EXPECT_THAT(problemsIn(mainOf() + external("a", "b") + external("b", "c")),
              HasSubstr("KubeExternalManifestConfig[b].headers: every manifest is fetched with the "
                        "same headers"));
  EXPECT_EQ("", problemsIn(mainOf() + external("a", "b") + external("b", "b")));
}

// Catches: a mask for which kube-controller-manager ends.
TEST(ClusterDocuments, AMaskIsAtMost16BitsLonger) {
  auto text = mainOf() + "cluster: {}\n" +
              oneDocument(
                  "kind: KubeNetworkConfig, podSubnets: [11.0.0.0/8], serviceSubnets: "
                  "[10.9.0.0/16], nodeCIDRMaskSizeIPv4: 25");
  EXPECT_THAT(problemsIn(text), HasSubstr("KubeNetworkConfig.podSubnets[0]: each node gets a /25 "
                                          "of \"11.0.0.0/8\"; use another network, or /8 to /24"));
}

// Catches: a CA that is issued with and another that is taken for it.
TEST(ClusterDocuments, TheIssuingCaIsOne) {
  auto& secrets = clusterSecrets();
  auto both = kj::str(secrets.ca.certificate, secrets.older.certificate);
  auto text = mainOf() + "cluster: {}\n" +
              oneDocument("kind: KubeAPIServerCAConfig, issuingCA: {cert: " + quoted(both) +
                          ", key: " + quoted(secrets.ca.key) + "}");
  EXPECT_THAT(problemsIn(text),
              HasSubstr("KubeAPIServerCAConfig.issuingCA.cert: there are 2 certificates; make the "
                        "others items of acceptedCAs"));
}

// Catches: an only audience that is lost.
TEST(ClusterDocuments, OneAudienceIsTheOnlyOne) {
  auto account =
      "kind: KubeServiceAccountConfig, issuer: {privateKey: " + quoted(clusterSecrets().account) +
      ", issuerURL: 'https://10.5.0.2:6443'}, accepted: {audiences: [vault]}";
  auto config = parsed(mainOf() + oneDocument(account) + oneDocument(rightDocuments()[0].text));
  auto arguments = config.get().getCluster().getApiServer().getExtraArgs();
  ASSERT_EQ(1u, arguments.size());
  EXPECT_STREQ("api-audiences", arguments[0].getKey().cStr());
  EXPECT_STREQ("vault", arguments[0].getValue().cStr());
}

}  // namespace
}  // namespace talos::config
