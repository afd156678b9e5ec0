#include "tests/kubernetes/self-hosted.h"

#include <gmock/gmock.h>
#include <kj/encoding.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "common/config/config.h"
#include "common/tls/pki.h"
#include "tests/kubernetes/self-hosted-objects.h"

namespace talos {
namespace {

namespace fs = std::filesystem;
using harness::contains;
using harness::eventually;
using harness::Result;

constexpr const char* kSecretsFolder = "/etc/kubernetes/bootstrap-secrets";
// Seconds; each part waits for the one before it, and for images.
constexpr double kHandedOver = 600;
constexpr const char* kCheckpointerFolder = "/var/lib/checkpointer";
const std::vector<std::string> kParts = {"kube-apiserver", "kube-controller-manager",
                                         "kube-scheduler"};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string encoded(const std::string& text) {
  auto bytes = kj::ArrayPtr<const char>(text.data(), text.size()).asBytes();
  return kj::encodeBase64(bytes).cStr();
}

std::string specOf(const std::string& part) {
  return part == "kube-apiserver"            ? kApiServerSpec
         : part == "kube-controller-manager" ? kControllerManagerSpec
                                             : kSchedulerSpec;
}

// A spec below "template:".
std::string deeper(const std::string& spec) {
  return replaced(spec, "\n", "\n    ");
}

std::string daemonSet(const std::string& name, const std::string& spec) {
  return "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: " + name +
         ", namespace: kube-system, labels: {tier: control-plane, k8s-app: " + name +
         "}}\nspec:\n  selector: {matchLabels: {k8s-app: " + name +
         "}}\n  template:\n    metadata: {labels: {tier: control-plane, k8s-app: " + name +
         "}, annotations: {checkpointer.alpha.coreos.com/checkpoint: \"true\"}}\n    spec:\n"
         "      nodeSelector: {node-role.kubernetes.io/master: \"\"}" +
         deeper(spec) + "\n---\n";
}

std::string kubeconfigOf(const pki::CertificateAndKey& client, const std::string& ca) {
  auto text = [](kj::StringPtr pem) { return encoded(pem.cStr()); };
  return "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: "
         "\"https://10.5.0.2:6443\", certificate-authority-data: " +
         encoded(ca) +
         "}}]\nusers: [{name: u, user: {client-certificate-data: " + text(client.certificate) +
         ", client-key-data: " + text(client.key) +
         "}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
}

std::vector<std::string> flagsOf() {
  return {"--kubernetes-version", kSelfHostedRelease, "--wait-kubernetes=false",
          "--config-patch-control-plane",
          R"([{"op": "remove", "path": "/cluster/aggregatorCA"},
              {"op": "remove", "path": "/cluster/serviceAccount"}])"};
}

}  // namespace

SelfHosted::SelfHosted(const std::string& name, unsigned masters, unsigned workers)
    : cluster(name, masters, workers, flagsOf()), folder(cluster.talos.folder() + "/bootkube") {
  fs::create_directories(folder);
  config = cluster.talos.ok({"read", "-n", cluster.nodes[0].address, "/system/state/config.yaml"});
  EXPECT_THAT(config, testing::Not(testing::HasSubstr("aggregatorCA")));
  makeSecrets();
  bool members = eventually(
      [&] {
        auto all = etcdctl(cluster.nodes[0], {"member", "list"}).out;
        return harness::lines(all).size() == masters && !contains(all, "unstarted");
      },
      180, 1);
  EXPECT_TRUE(members) << "etcd has not got its members";
  EXPECT_EQ(etcdctl(cluster.nodes[0], {"put", "initialized", "true"}).status, 0);
  for (auto& node : this->masters()) {
    EXPECT_TRUE(eventually([&] { return selfHosted(node) == "true"; }, 120, 1)) << node.name;
  }
  if (testing::Test::HasFailure()) return;
  startTemporary();
  createObjects();
  removeTemporary();
  awaitHandedOver();
}

std::vector<KubeNode> SelfHosted::masters() const {
  std::vector<KubeNode> all;
  for (auto& node : cluster.nodes) {
    if (node.controlPlane) all.push_back(node);
  }
  return all;
}

std::string SelfHosted::rootOf(const KubeNode& node) const {
  return "/proc/" + std::to_string(cluster.talos.process(node.name)) + "/root";
}

Result SelfHosted::etcdctl(const KubeNode& node, std::vector<std::string> arguments) const {
  auto pki = rootOf(node) + "/etc/kubernetes/pki/etcd/";
  std::vector<std::string> command = {"nsenter",
                                      "-t",
                                      std::to_string(cluster.talos.process(node.name)),
                                      "-n",
                                      "etcdctl",
                                      "--endpoints=https://127.0.0.1:2379",
                                      "--cacert=" + pki + "ca.crt",
                                      "--cert=" + pki + "peer.crt",
                                      "--key=" + pki + "peer.key"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return harness::run(command, 30, {"ETCDCTL_API=3"});
}

std::string SelfHosted::selfHosted(const KubeNode& node) const {
  auto shown = cluster.talos.talosctl(cluster.at(node, {"get", "bs"}), 20);
  for (auto& line : harness::lines(shown.out)) {
    std::smatch match;
    if (std::regex_search(line, match, std::regex("control-plane +[0-9]+ +(true|false)"))) {
      return match[1];
    }
  }
  return "";
}

std::vector<std::string> SelfHosted::ownStaticPods(const KubeNode& node) const {
  std::vector<std::string> names;
  std::error_code none;
  for (auto& entry : fs::directory_iterator(rootOf(node) + "/etc/kubernetes/manifests", none)) {
    auto name = entry.path().filename().string();
    if (name.starts_with("talos-")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void SelfHosted::write(const std::string& path, const std::string& content) const {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
  EXPECT_EQ(harness::slurp(path), content) << path;
}

std::string SelfHosted::serviceAccountKey() const {
  return encoded(harness::slurp(folder + "/kube-controller-manager/service-account.key"));
}

// Makes the files of each part, which are also the entries of its Secret.
void SelfHosted::makeSecrets() {
  auto parsed = config::parse(kj::StringPtr(config.c_str()), "the node's config");
  auto spec = parsed.get().getCluster();
  auto text = [](capnp::Data::Reader bytes) { return kj::heapString(bytes.asChars()); };
  auto ca = text(spec.getCa().getCrt()), caKey = text(spec.getCa().getKey()),
       etcdCa = text(spec.getEtcd().getCa().getCrt()),
       etcdKey = text(spec.getEtcd().getCa().getKey());
  bootstrapToken = spec.getToken().cStr();
  auto keep = [&](const std::string& part, const std::string& name, kj::StringPtr content) {
    write(folder + "/" + part + "/" + name, std::string(content.begin(), content.size()));
  };
  auto keepPair = [&](const std::string& part, const std::string& name,
                      const pki::CertificateAndKey& pair) {
    keep(part, name + ".crt", pair.certificate);
    keep(part, name + ".key", pki::toPkcs8(pair.key));
  };
  constexpr auto kLifetime = 365 * kj::DAYS;
  auto client = [&](kj::StringPtr name, kj::StringPtr group) {
    return pki::issue(
        ca, caKey,
        {.commonName = name, .organizations = kj::arr(kj::str(group)), .lifetime = kLifetime});
  };
  auto addresses = kj::heapArrayBuilder<kj::String>(2 + masters().size());
  addresses.add(kj::str("10.96.0.1"));
  addresses.add(kj::str("127.0.0.1"));
  for (auto& node : masters()) addresses.add(kj::str(node.address.c_str()));
  auto server =
      pki::issue(ca, caKey,
                 {.commonName = "kube-apiserver",
                  .dnsNames = kj::arr(kj::str("kubernetes"), kj::str("kubernetes.default"),
                                      kj::str("kubernetes.default.svc"),
                                      kj::str("kubernetes.default.svc.cluster.local")),
                  .addresses = addresses.finish(),
                  .lifetime = kLifetime});
  auto account = folder + "/service-account";
  EXPECT_EQ(
      harness::run({"openssl", "genrsa", "-traditional", "-out", account + ".key", "2048"}).status,
      0);
  EXPECT_EQ(
      harness::run({"openssl", "rsa", "-in", account + ".key", "-pubout", "-out", account + ".pub"})
          .status,
      0);
  auto accountKey = harness::slurp(account + ".key");
  keep("kube-apiserver", "ca.crt", ca);
  keepPair("kube-apiserver", "apiserver", server);
  keepPair("kube-apiserver", "apiserver-kubelet-client",
           client("apiserver-kubelet-client", "system:masters"));
  keep("kube-apiserver", "etcd-client-ca.crt", etcdCa);
  keepPair("kube-apiserver", "etcd-client",
           pki::issue(etcdCa, etcdKey, {.commonName = "kube-apiserver", .lifetime = kLifetime}));
  keep("kube-apiserver", "service-account.key", accountKey.c_str());
  keep("kube-apiserver", "service-account.pub", harness::slurp(account + ".pub").c_str());
  keep("kube-controller-manager", "ca.crt", ca);
  keep("kube-controller-manager", "ca.key", pki::toPkcs8(caKey));
  keep("kube-controller-manager", "service-account.key", accountKey.c_str());
  for (auto part : {"kube-controller-manager", "kube-scheduler"}) {
    auto kubeconfig = kubeconfigOf(client(part, "system:masters"), ca.cStr());
    keep(part, "kubeconfig", kubeconfig.c_str());
  }
}

// Starts the temporary control plane on the first node alone, whose address is the cluster's
// endpoint.
void SelfHosted::startTemporary() const {
  auto root = rootOf(cluster.nodes[0]);
  for (auto& part : kParts) {
    for (auto& entry : fs::directory_iterator(folder + "/" + part)) {
      write(root + kSecretsFolder + "/" + part + "/" + entry.path().filename().string(),
            harness::slurp(entry.path().string()));
    }
    auto spec = replaced(specOf(part), "@PLACE@",
                         std::string("hostPath: {path: ") + kSecretsFolder + "/" + part + "}");
    write(root + "/etc/kubernetes/manifests/bootstrap-" + part + ".yaml",
          "apiVersion: v1\nkind: Pod\nmetadata: {name: bootstrap-" + part +
              ", namespace: kube-system}\nspec:" + replaced(spec, "@NETWORK@", "true"));
  }
  auto answers = [&] {
    size_t registered = 0;
    for (auto& name : cluster.each("nodes", "{.metadata.name}")) registered += !name.empty();
    return registered >= masters().size();
  };
  ASSERT_TRUE(eventually(answers, kClusterUp, 1))
      << cluster.overview() << cluster.talos.talosctl({"-n", "10.5.0.2", "containers", "-k"}).out
      << cluster.talos.talosctl({"-n", "10.5.0.2", "logs", "kubelet", "--tail", "30"}).out;
}

void SelfHosted::createObjects() const {
  auto dot = bootstrapToken.find('.');
  auto id = bootstrapToken.substr(0, dot), secret = bootstrapToken.substr(dot + 1);
  cluster.apply(
      "apiVersion: v1\nkind: Secret\ntype: bootstrap.kubernetes.io/token\nmetadata: {name: "
      "bootstrap-token-" +
      id + ", namespace: kube-system}\nstringData: {token-id: " + id + ", token-secret: " + secret +
      ", usage-bootstrap-authentication: \"true\"}\n---\n"
      "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n"
      "metadata: {name: system-bootstrap-approve-node-client-csr}\n"
      "subjects: [{kind: Group, name: \"system:bootstrappers\", apiGroup: "
      "rbac.authorization.k8s.io}]\nroleRef: {kind: ClusterRole, apiGroup: "
      "rbac.authorization.k8s.io, name: "
      "\"system:certificates.k8s.io:certificatesigningrequests:nodeclient\"}\n");
  // Gives the rights that the manifests of 0.8 gave: with them kube-controller-manager reads which
  // clients may call it.
  cluster.ok({"create", "clusterrolebinding", "system:default-sa", "--clusterrole=cluster-admin",
              "--serviceaccount=kube-system:default"});
  // flannel, kube-proxy, CoreDNS and the rights of kubelets come from the nodes' manifests.
  auto path = folder + "/manifests.json";
  auto listed =
      cluster.talos.ok({"-n", cluster.nodes[0].address, "get", "manifests", "-o", "json"});
  write(path, listed);
  auto items =
      harness::run({"jq", "-s",
                    "{apiVersion: \"v1\", kind: \"List\", items: [.[].spec | .. | objects | "
                    "select(.kind? and .apiVersion? and .metadata? and .kind != \"Secret\")]}",
                    path});
  ASSERT_EQ(items.status, 0) << items.err << listed.substr(0, 2000);
  write(path, items.out);
  cluster.ok({"apply", "-f", path});
  for (auto& node : masters()) {
    cluster.ok({"label", "node", node.name,
                "node-role.kubernetes.io/master=", "node-role.kubernetes.io/control-plane="});
    auto place = rootOf(node) + kCheckpointerFolder;
    write(place + "/run.sh",
          replaced(kCheckpointerProgram, "@GRACE@", std::to_string(kCheckpointGrace)));
    auto copy = replaced(replaced(kCheckpointerSpec, "@ROLE@", "copy"), "@PARENT@", "@NAME@");
    write(place + "/copy.yaml",
          "apiVersion: v1\nkind: Pod\nmetadata:\n  name: \"@NAME@\"\n  namespace: kube-system\n"
          "  annotations: {checkpointer.alpha.coreos.com/checkpoint-of: \"@NAME@\"}\nspec:" +
              copy);
    fs::copy_file(getenv("KUBECTL"), place + "/kubectl", fs::copy_options::overwrite_existing);
    fs::permissions(place + "/kubectl", fs::perms(0755));
  }
  std::string objects;
  for (auto& part : kParts) {
    cluster.ok({"-n", "kube-system", "create", "secret", "generic", part,
                "--from-file=" + folder + "/" + part});
    auto spec = replaced(specOf(part), "@PLACE@", "secret: {secretName: " + part + "}");
    objects += daemonSet(part, replaced(spec, "@NETWORK@", "false"));
  }
  objects += daemonSet("pod-checkpointer",
                       replaced(replaced(kCheckpointerSpec, "@ROLE@", "parent"), "@PARENT@", ""));
  cluster.apply(objects);
}

// Removes the temporary pods as soon as those of the DaemonSets exist on the other nodes: the new
// pods of the first node wait for its ports.
void SelfHosted::removeTemporary() const {
  auto ready = [&](const std::string& part) {
    return cluster
        .kubectl({"-n", "kube-system", "get", "ds", part, "-o",
                  "jsonpath={.status.currentNumberScheduled} {.status.numberReady}"})
        .out;
  };
  auto all = std::to_string(masters().size());
  for (auto& part : {kParts[1], kParts[2]}) {
    EXPECT_TRUE(eventually([&] { return ready(part) == all + " " + all; }, kHandedOver, 1))
        << part << ": " << ready(part) << cluster.overview();
  }
  EXPECT_TRUE(eventually([&] { return ready(kParts[0]).starts_with(all + " "); }, kHandedOver, 1));
  auto root = rootOf(cluster.nodes[0]);
  for (auto& part : kParts)
    fs::remove(root + "/etc/kubernetes/manifests/bootstrap-" + part + ".yaml");
}

void SelfHosted::awaitHandedOver() const {
  cluster.awaitReady(cluster.nodes.size(), kHandedOver);
  for (auto& part : kParts) {
    cluster.awaitPods("kube-system", "k8s-app=" + part, masters().size(), kHandedOver);
  }
  cluster.awaitPods("kube-system", "k8s-app=pod-checkpointer", masters().size(), kPodsUp);
  cluster.awaitPods("kube-system", "k8s-app=kube-proxy", cluster.nodes.size(), kPodsUp);
  cluster.awaitPods("kube-system", "k8s-app=kube-dns", 2, kPodsUp);
  fs::remove_all(rootOf(cluster.nodes[0]) + kSecretsFolder);
}

}  // namespace talos
