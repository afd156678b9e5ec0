// A cluster whose configs say nothing of Kubernetes in the main document but what has no document,
// the bootstrap token and etcd's CA: documents beside it say the rest, and each acts.
#include <gmock/gmock.h>
#include <kj/encoding.h>

#include <fstream>
#include <memory>
#include <regex>
#include <string>

#include "common/config/config.h"
#include "common/config/rules/config-values.h"
#include "common/text/foreign-text.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;
using testing::Not;

constexpr double kTrial = 420;  // s; beside other tests

std::string document(const std::string& keys) {
  return "---\n{apiVersion: v1alpha1, kind: " + keys + "}\n";
}
std::string pem(capnp::Data::Reader text) {
  return jsonString(kj::str(text.asChars())).cStr();
}
std::string issuing(config::CertificateAndKey::Reader ca) {
  return "issuingCA: {cert: " + pem(ca.getCrt()) + ", key: " + pem(ca.getKey()) + "}";
}
template <typename Component>
std::string imageOf(Component component) {
  return ", image: '" + std::string(component.getImage().cStr()) + "'";
}

// The same on each node.
std::string common(config::Config::Reader config) {
  std::string endpoint = config.getCluster().getControlPlane().getEndpoint().cStr();
  return document("KubeClusterConfig, clusterName: documents, endpoint: '" + endpoint + "'") +
         document("KubePrismConfig, port: 7446") +
         document(
             "KubeNetworkConfig, dnsDomain: documents.lab, podSubnets: [10.8.0.0/16], "
             "serviceSubnets: [10.112.0.0/16], nodeCIDRMaskSizeIPv4: 25") +
         document("KubeletConfig" + imageOf(config.getMachine().getKubelet()) +
                  ", config: {maxPods: 77}");
}

std::string ofControlPlane(config::Config::Reader config) {
  auto cluster = config.getCluster();
  std::string secret = cluster.getAescbcEncryptionSecret().cStr();
  return document("KubeFlannelCNIConfig, backendType: vxlan") +
         document("KubeAPIServerCAConfig, " + issuing(cluster.getCa())) +
         document("KubeAggregatorCAConfig, " + issuing(cluster.getAggregatorCA())) +
         document("KubeServiceAccountConfig, issuer: {privateKey: " +
                  pem(cluster.getServiceAccount().getKey()) +
                  ", issuerURL: 'https://id.documents.lab'}, accepted: {audiences: "
                  "['https://id.documents.lab', vault]}") +
         document(
             "KubeEtcdEncryptionConfig, config: {resources: [{resources: [secrets], providers: "
             "[{secretbox: {keys: [{name: key2, secret: '" +
             secret + "'}]}}, {identity: {}}]}]}") +
         document("KubeAPIServerConfig" + imageOf(cluster.getApiServer()) +
                  ", extraArgs: {goaway-chance: '0.001'}, certExtraSANs: [api.documents.lab]") +
         document("KubeAuthenticationConfig, configuration: {}") +
         document("KubeControllerManagerConfig" + imageOf(cluster.getControllerManager()) +
                  ", extraArgs: {node-monitor-grace-period: 45s}") +
         document("KubeSchedulerConfig" + imageOf(cluster.getScheduler()) +
                  ", config: {profiles: [{schedulerName: default-scheduler}, {schedulerName: "
                  "documents}]}") +
         document("KubeProxyConfig" + imageOf(cluster.getProxy()) +
                  ", mode: nftables, config: {nodePortAddresses: [10.5.0.0/24]}") +
         document("KubeCoreDNSConfig, enabled: true") +
         document(
             "KubeNodeConfig, labels: {node-role.kubernetes.io/control-plane: '', rack: r1}, "
             "taints: {node-role.kubernetes.io/control-plane: NoSchedule}") +
         document(
             "KubeInlineManifestConfig, name: noted, manifest: '{apiVersion: v1, kind: "
             "ConfigMap, metadata: {name: noted, namespace: kube-system}}'") +
         document(
             "KubeTalosAPIAccessConfig, allowedRoles: [os:reader], allowedKubernetesNamespaces: "
             "[default]");
}

std::string ofWorker(config::Config::Reader config) {
  return document("KubeAPIServerCAConfig, acceptedCAs: [" +
                  pem(config.getCluster().getCa().getCrt()) + "]") +
         document(
             "KubeNodeConfig, labels: {rack: r2}, annotations: {documents.lab/note: here}, "
             "taints: {documents.lab/slow: 'yes:PreferNoSchedule'}");
}

// Returns the config with documents in place of all that has one.
std::string inDocuments(const std::string& classic) {
  auto parsed = config::parse(kj::arrayPtr(classic.data(), classic.size()), "classic.yaml");
  auto config = parsed.get();
  auto cluster = config.getCluster();
  auto base64 = [](capnp::Data::Reader text) { return std::string(kj::encodeBase64(text).cStr()); };
  bool controlPlane = config::isControlPlane(config.getMachine().getType());
  auto machine = classic.substr(0, classic.find("\ncluster:") + 1);
  auto text = std::regex_replace(machine, std::regex("\n    kubelet:(\n     [^\n]*)*"), "") +
              "cluster:\n  token: " + cluster.getToken().cStr() + "\n";
  if (!controlPlane) return text + common(config) + ofWorker(config);
  auto ca = cluster.getEtcd().getCa();
  return text + "  etcd: {ca: {crt: " + base64(ca.getCrt()) + ", key: " + base64(ca.getKey()) +
         "}}\n" + common(config) + ofControlPlane(config);
}

struct KubernetesDocuments : public KubeHost {
  ~KubernetesDocuments() noexcept override {}
  std::unique_ptr<KubeCluster> cluster;

  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }
  const KubeNode& master() const { return cluster->nodes[0]; }
  const KubeNode& worker() const { return cluster->nodes[1]; }
  std::string at(const KubeNode& node, std::vector<std::string> words) const {
    return cluster->talos.ok(cluster->at(node, std::move(words)));
  }
  std::string argumentsOf(const KubeNode& node, const char* program) const {
    auto pid = std::to_string(cluster->talos.program(node.name, program));
    auto text = harness::slurp("/proc/" + pid + "/cmdline");
    for (char& c : text) c = c == '\0' ? '\n' : c;
    return text;
  }
  std::string ofNode(const KubeNode& node, const std::string& path) const {
    return cluster->ok({"get", "node", node.name, "-o", "jsonpath={" + path + "}"});
  }
  std::string rootOf(const KubeNode& node) const {
    return "/proc/" + std::to_string(cluster->talos.process(node.name)) + "/root";
  }
  // Returns the value of this key of the local etcd.
  std::string stored(const std::string& key) const {
    auto pki = rootOf(master()) + "/etc/kubernetes/pki/etcd/";
    return cluster
        ->in(cluster->talos.process(master().name),
             {"etcdctl", "--endpoints=https://127.0.0.1:2379", "--cacert=" + pki + "ca.crt",
              "--cert=" + pki + "peer.crt", "--key=" + pki + "peer.key", "get", key},
             30)
        .out;
  }
  void patch(const KubeNode& node, const std::string& text) const {
    auto result = cluster->talos.talosctl(
        cluster->at(node, {"patch", "mc", "--mode=no-reboot", "--wait", "--trial-timeout=1m", "-p",
                           "{apiVersion: v1alpha1, kind: " + text + "}"}),
        kTrial);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("confirmed: the config stays"));
  }

  void giveDocuments(const KubeNode& node) const;
  void checkControlPlane() const;
  void checkNodes() const;
  void checkObjects() const;
  void checkPatches() const;
};

void KubernetesDocuments::giveDocuments(const KubeNode& node) const {
  auto file = cluster->talos.folder() + "/" + node.name + ".yaml";
  std::ofstream(file) << inDocuments(
      harness::slurp(cluster->talos.stateFolder() + "/" + node.name + ".yaml"));
  auto valid = cluster->talos.talosctl({"validate", "-c", file, "-m", "container"});
  EXPECT_EQ(valid.status, 0) << valid.err;
  EXPECT_THAT(valid.out + valid.err, Not(HasSubstr("arning"))) << harness::slurp(file);
  auto before = cluster->bootId(node);
  harness::Result applied;
  EXPECT_TRUE(eventually(
      [&] {
        applied = cluster->talos.talosctl(cluster->at(
            node, {"apply-config", "-f", file, "--no-trial", "--mode=reboot", "--wait=false"}));
        return applied.status == 0;
      },
      kPodsUp, 1))
      << applied.out << applied.err;
  EXPECT_TRUE(eventually(
      [&] {
        auto now = cluster->bootId(node);
        return now != "" && now != before;
      },
      kClusterUp, 0.5));
}

void KubernetesDocuments::checkControlPlane() const {
  auto api = argumentsOf(master(), "kube-apiserver");
  for (auto argument : {"goaway-chance=0.001", "service-account-issuer=https://id.documents.lab",
                        "api-audiences=https://id.documents.lab,vault",
                        "authentication-config=/var/lib/kube-apiserver/authentication.yaml"}) {
    EXPECT_THAT(api, HasSubstr(std::string("\n--") + argument + "\n"));
  }
  auto manager = argumentsOf(master(), "kube-controller-manager");
  EXPECT_THAT(manager, HasSubstr("\n--node-monitor-grace-period=45s\n"));
  EXPECT_THAT(manager, HasSubstr("\n--node-cidr-mask-size=25\n"));
  auto anonymous = [&](const std::string& path) {
    return cluster
        ->in(cluster->segment(),
             {"sh", "-c",
              "printf 'GET /" + path +
                  " HTTP/1.0\\r\\n\\r\\n' | openssl s_client -quiet -connect 10.5.0.2:6443"},
             30)
        .out;
  };
  EXPECT_THAT(anonymous("readyz"), HasSubstr(" 200 OK"));
  EXPECT_THAT(anonymous("version"), HasSubstr(" 401 Unauthorized"));
  auto named = cluster->kubectl({"get", "nodes", "--tls-server-name=api.documents.lab"});
  EXPECT_EQ(named.status, 0) << named.err;
  cluster->ok({"create", "secret", "generic", "hidden", "--from-literal=word=plainword"});
  auto secret = stored("/registry/secrets/default/hidden");
  EXPECT_THAT(secret, HasSubstr("k8s:enc:secretbox:v1:key2:"));
  EXPECT_THAT(secret, Not(HasSubstr("plainword")));
}

void KubernetesDocuments::checkNodes() const {
  for (auto& node : cluster->nodes) {
    auto pods = ofNode(node, ".spec.podCIDR");
    EXPECT_TRUE(pods.starts_with("10.8.") && pods.ends_with("/25")) << pods;
    EXPECT_EQ(ofNode(node, ".status.capacity.pods"), "77");
    auto proxy = argumentsOf(node, "kube-proxy");
    EXPECT_THAT(proxy, HasSubstr("\n--proxy-mode=nftables\n"));
    EXPECT_THAT(proxy, HasSubstr("\n--nodeport-addresses=10.5.0.0/24\n"));
    auto rules = cluster->in(cluster->talos.process(node.name), {"nft", "list", "tables"}, 30);
    EXPECT_THAT(rules.out, HasSubstr("table ip kube-proxy")) << rules.err;
    EXPECT_THAT(at(node, {"get", "kubeprismstatuses", "-o", "yaml"}), HasSubstr("7446"));
    EXPECT_THAT(at(node, {"get", "mc", "-o", "yaml"}), HasSubstr("kind: KubeNodeConfig"));
    EXPECT_THAT(at(node, {"status"}), Not(HasSubstr("not in effect")));
  }
  EXPECT_EQ(ofNode(master(), ".metadata.labels.rack"), "r1");
  EXPECT_EQ(ofNode(master(), ".spec.taints[*].key"), "node-role.kubernetes.io/control-plane");
  EXPECT_EQ(ofNode(worker(), ".metadata.labels.rack"), "r2");
  EXPECT_EQ(ofNode(worker(), ".metadata.annotations.documents\\.lab/note"), "here");
  EXPECT_EQ(ofNode(worker(), ".spec.taints"),
            R"([{"effect":"PreferNoSchedule","key":"documents.lab/slow","value":"yes"}])");
}

void KubernetesDocuments::checkObjects() const {
  EXPECT_EQ(cluster->ok({"get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"}),
            "10.112.0.1");
  EXPECT_THAT(cluster->ok({"-n", "kube-system", "get", "configmap", "coredns", "-o", "yaml"}),
              HasSubstr("documents.lab"));
  cluster->ok({"-n", "kube-system", "get", "configmap", "noted"});
  EXPECT_TRUE(eventually(
      [&] { return cluster->kubectl({"get", "crd", "serviceaccounts.talos.dev"}).status == 0; },
      kPodsUp, 1));
  cluster->apply(
      "{apiVersion: v1, kind: Pod, metadata: {name: placed, labels: {app: placed}}, spec: "
      "{schedulerName: documents, terminationGracePeriodSeconds: 0, containers: [{name: main, "
      "image: 'busybox:1.37', command: [sleep, '100000']}]}}\n");
  cluster->awaitPods("default", "app=placed", 1, kPodsUp);
  EXPECT_EQ(cluster->placesOf("app=placed"), worker().name + " ");
}

void KubernetesDocuments::checkPatches() const {
  patch(worker(), "KubeNodeConfig, labels: {rack: r3}");
  EXPECT_TRUE(eventually([&] { return ofNode(worker(), ".metadata.labels.rack") == "r3"; }, 60, 1));
  EXPECT_THAT(ofNode(worker(), ".spec.taints"), HasSubstr("documents.lab/slow"));
  patch(master(), "KubeAPIServerConfig, extraArgs: {goaway-chance: '0.002'}");
  EXPECT_THAT(argumentsOf(master(), "kube-apiserver"), HasSubstr("\n--goaway-chance=0.002\n"));
  cluster->awaitReady(2, kPodsUp);
}

}  // namespace

// Catches: a document that is valid and does nothing, or keeps the node from its boot or the
// cluster from its beginning; a patch of one that does not act at once.
TEST_F(KubernetesDocuments, AreEnoughForACluster) {
  cluster = std::make_unique<KubeCluster>(
      "documents", 1, 1, std::vector<std::string>{"--bootstrap=false", "--wait=false"});
  for (auto& node : cluster->nodes) giveDocuments(node);
  if (HasFailure()) return;
  auto made = cluster->talos.talosctl(cluster->at(master(), {"bootstrap"}), kClusterUp);
  ASSERT_EQ(made.status, 0) << made.err;
  cluster->awaitSystem();
  if (HasFailure()) return;
  checkControlPlane();
  checkNodes();
  checkObjects();
  checkPatches();
}

}  // namespace talos
