// The rights of credentials on a node or in a pod, on real Kubernetes: the default service account,
// the bootstrap token, a node, a pod that reads the node's files.
#include <gmock/gmock.h>
#include <kj/encoding.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "common/base/date.h"
#include "common/kube/node-proof.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// One more than an API server, its controller manager and kubed need on a busy machine.
constexpr double kDecided = 60;
// A boot, the minute in which the old Node object is kept, and the 40 s after which it is NotReady.
constexpr double kRenamed = 420;

std::string decoded(const std::string& base64) {
  return kj::heapString(kj::decodeBase64(kj::StringPtr(base64.c_str())).asChars()).cStr();
}

class Access {
 public:
  explicit Access(const KubeCluster& cluster) : cluster(cluster) {
    server = cluster.ok({"config", "view", "-o", "jsonpath={.clusters[0].name}"});
  }

  // kubectl as the user of this name, which useToken() or usePair() has made.
  Result as(const std::string& user, std::vector<std::string> words) const {
    words.push_back("--context=" + user);
    return cluster.kubectl(words);
  }
  void useToken(const std::string& user, const std::string& token) {
    cluster.ok({"config", "set-credentials", user, "--token=" + token});
    makeContext(user);
  }
  void usePair(const std::string& user, const std::string& file) {
    cluster.ok({"config", "set-credentials", user, "--client-certificate=" + file,
                "--client-key=" + file});
    makeContext(user);
  }

  // "RESOURCE: VERBS" for each resource that `auth can-i --list` names.
  std::set<std::string> rights(const std::string& user) const {
    auto listed = as(user, {"auth", "can-i", "--list", "--namespace=kube-system", "--no-headers"});
    EXPECT_EQ(listed.status, 0) << user << ": " << listed.err;
    std::set<std::string> all;
    for (auto& line : harness::lines(listed.out)) {
      auto verbs = line.substr(line.rfind('['));
      // Paths that are no resources begin with an empty column.
      if (!line.starts_with(" ")) all.insert(line.substr(0, line.find(' ')) + ": " + verbs);
    }
    return all;
  }

 private:
  const KubeCluster& cluster;
  std::string server;

  void makeContext(const std::string& user) {
    cluster.ok({"config", "set-context", user, "--user=" + user, "--cluster=" + server});
  }
};

// Every account may query its own identity and its own rights.
const std::set<std::string> kOfEverybody = {
    "selfsubjectreviews.authentication.k8s.io: [create]",
    "selfsubjectaccessreviews.authorization.k8s.io: [create]",
    "selfsubjectrulesreviews.authorization.k8s.io: [create]"};
constexpr const char* kRequestRights =
    "certificatesigningrequests.certificates.k8s.io: [create get list watch]";

std::set<std::string> besides(const std::set<std::string>& rights) {
  std::set<std::string> more;
  for (auto& right : rights) {
    if (kOfEverybody.count(right) == 0) more.insert(right);
  }
  return more;
}

struct BootstrapToken {
  std::string id, secret, end;
};
BootstrapToken bootstrapToken(const KubeCluster& cluster) {
  auto field = [&](const std::string& key) {
    return decoded(cluster.ok({"get", "secrets", "-n", "kube-system",
                               "--field-selector=type=bootstrap.kubernetes.io/token", "-o",
                               "jsonpath={.items[*].data." + key + "}"}));
  };
  return {field("token-id"), field("token-secret"), field("expiration")};
}

// A certificate request of a kubelet, made as this user.
struct Request {
  std::string name, node;        // name of the object, and of the node in its request
  std::string certificate, key;  // of the API of the machine that shows itself; empty: no proof
};
Result request(const KubeCluster& cluster, const Access& access, const std::string& user,
               const Request& wanted) {
  auto common = kj::str(kube::kNodeUser, wanted.node.c_str());
  auto pkcs10 =
      pki::makeRequest(pki::makeKey(pki::KeyType::kEcdsaP256),
                       {.commonName = common, .organizations = kj::arr(kj::str(kube::kNodeGroup))});
  kube::Json object{{"apiVersion", "certificates.k8s.io/v1"},
                    {"kind", "CertificateSigningRequest"},
                    {"metadata", {{"name", wanted.name}}},
                    {"spec",
                     {{"request", kj::encodeBase64(pkcs10.asBytes()).cStr()},
                      {"signerName", "kubernetes.io/kube-apiserver-client-kubelet"},
                      {"usages", {"key encipherment", "digital signature", "client auth"}}}}};
  if (!wanted.key.empty()) {
    auto signature = kube::signRequestAsNode(kj::StringPtr(wanted.key.c_str()), pkcs10);
    object["metadata"]["annotations"] = {
        {kube::kNodeCertificateAnnotation.cStr(), wanted.certificate},
        {kube::kNodeSignatureAnnotation.cStr(), kj::encodeBase64(signature).cStr()}};
  }
  auto path = cluster.talos.folder() + "/" + wanted.name + ".json";
  std::ofstream(path) << object.dump();
  return access.as(user, {"create", "-f", path});
}
std::string decisionOn(const KubeCluster& cluster, const std::string& name) {
  return cluster.ok({"get", "csr", name, "-o", "jsonpath={.status.conditions[*].type}"});
}
bool isIssued(const KubeCluster& cluster, const std::string& name) {
  return !cluster.ok({"get", "csr", name, "-o", "jsonpath={.status.certificate}"}).empty();
}

// The certificate of a machine's API and its key, as an administrator, or a thief, reads them.
Request machineOf(const KubeCluster& cluster, const KubeNode& node) {
  auto text = cluster.talos.ok(cluster.at(node, {"get", "apicertificates", "-o", "yaml"}));
  auto server = text.substr(text.find("server:"));
  auto field = [&](const std::string& key) {
    auto at = server.find(key + ": ") + key.size() + 2;
    return decoded(server.substr(at, server.find('\n', at) - at));
  };
  return {.name = "", .node = "", .certificate = field("crt"), .key = field("key")};
}

// The kubelet's pair on a worker's disk, as a path of the host.
std::string kubeletPair(const KubeCluster& cluster, const KubeNode& node) {
  auto root = "/proc/" + std::to_string(cluster.talos.process(node.name)) + "/root";
  std::filesystem::path pki = "/var/lib/kubelet/pki";
  auto link = std::filesystem::read_symlink(root + (pki / "kubelet-client-current.pem").string());
  return root + (pki / link).string();
}

std::string kubedLog(const KubeCluster& cluster) {
  return cluster.talos.talosctl(cluster.at(cluster.nodes[0], {"logs", "kubed"})).out;
}

void checkRights(const KubeCluster& cluster, Access& access) {
  access.useToken("account", cluster.ok({"create", "token", "default", "-n", "kube-system"}));
  EXPECT_THAT(besides(access.rights("account")), IsEmpty());
  auto secrets = access.as("account", {"get", "secrets", "-n", "kube-system"});
  EXPECT_NE(secrets.status, 0) << secrets.out;

  auto token = bootstrapToken(cluster);
  access.useToken("bootstrap", token.id + "." + token.secret);
  EXPECT_THAT(besides(access.rights("bootstrap")), UnorderedElementsAre(kRequestRights));
  auto now = kj::systemPreciseCalendarClock().now();
  KJ_IF_MAYBE (end, parseDate(kj::StringPtr(token.end.c_str()))) {
    EXPECT_GT(*end, now);
    EXPECT_LE(*end, now + 1 * kj::HOURS);
  } else {
    ADD_FAILURE() << "the token has no end: \"" << token.end << "\"\n" << kubedLog(cluster);
  }

  // The Node authorizer, which knows pods and their Secrets, lists nothing: these rights come from
  // roles.
  access.usePair("node", kubeletPair(cluster, cluster.nodes.back()));
  EXPECT_THAT(besides(access.rights("node")),
              UnorderedElementsAre(
                  kRequestRights,
                  "certificatesigningrequests.certificates.k8s.io/selfnodeclient: [create]"));
}

// A program that reads a worker's disk, with the bootstrap token, the kubelet's certificate and the
// certificate of the machine's API, can become this worker again, and no other node.
void checkRequests(const KubeCluster& cluster, const Access& access) {
  auto &worker = cluster.nodes.back(), &master = cluster.nodes.front();
  auto machine = machineOf(cluster, worker);
  auto by = [&](const std::string& name, const std::string& node, bool shows) {
    return Request{.name = name,
                   .node = node,
                   .certificate = shows ? machine.certificate : "",
                   .key = shows ? machine.key : ""};
  };
  auto make = [&](const std::string& user, const Request& wanted) {
    auto created = request(cluster, access, user, wanted);
    EXPECT_EQ(created.status, 0) << wanted.name << ": " << created.err;
  };
  make("bootstrap", by("token-master", master.name, false));
  make("bootstrap", by("token-worker", worker.name, false));
  make("bootstrap", by("machine-master", master.name, true));
  make("bootstrap", by("machine-other", "another-worker", true));
  auto refused = request(cluster, access, "node", by("node-master", master.name, true));
  EXPECT_THAT(refused.err,
              testing::HasSubstr("can only create a node CSR with CN=system:node:" + worker.name));
  // These come after the requests that must stay pending; kubed approves the first and the
  // controller manager the second.
  make("bootstrap", by("machine-itself", worker.name, true));
  make("node", by("node-itself", worker.name, false));
  for (auto name : {"machine-itself", "node-itself"}) {
    EXPECT_TRUE(eventually([&] { return isIssued(cluster, name); }, kDecided))
        << name << ": " << decisionOn(cluster, name) << "\n"
        << kubedLog(cluster);
  }
  for (auto name : {"token-master", "token-worker", "machine-master", "machine-other"}) {
    EXPECT_EQ(decisionOn(cluster, name), "") << name;
  }
  // The address of the network of pods may follow in the message.
  EXPECT_THAT(cluster.ok({"get", "csr", "machine-itself", "-o",
                          "jsonpath={.status.conditions[0].message}"}),
              testing::StartsWith("the node " + worker.name +
                                  " has shown this name and the address " + worker.address));
  auto root = "/proc/" + std::to_string(cluster.talos.process(worker.name)) + "/root";
  EXPECT_TRUE(std::filesystem::exists(root + "/etc/kubernetes/kubeconfig-kubelet"));
  EXPECT_FALSE(std::filesystem::exists(root + "/etc/kubernetes/bootstrap-kubeconfig"));
}

// The usual form of node-exporter: the node's network and processes, its root read-only, and user
// `nobody`.
void checkExporter(const KubeCluster& cluster) {
  auto secret = bootstrapToken(cluster).secret;
  for (auto& node : cluster.nodes) {
    auto pod = "exporter-" + node.name;
    cluster.apply(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: " + pod +
        "}\nspec:\n  nodeName: " + node.name +
        "\n  hostNetwork: true\n  hostPID: true\n  terminationGracePeriodSeconds: 0\n"
        "  automountServiceAccountToken: false\n"
        "  securityContext: {runAsUser: 65534, runAsGroup: 65534, runAsNonRoot: true}\n"
        "  containers:\n  - name: main\n    image: 'busybox:1.37'\n    command: [sleep, '100000']\n"
        "    volumeMounts: [{name: root, mountPath: /host/root, readOnly: true,"
        " mountPropagation: HostToContainer}]\n"
        "  volumes: [{name: root, hostPath: {path: /}}]\n");
    EXPECT_TRUE(eventually(
        [&] { return cluster.kubectl({"exec", pod, "--", "busybox", "true"}).status == 0; },
        kPodsUp, 0.5))
        << cluster.overview();
    auto inPod = [&](std::vector<std::string> words) {
      words.insert(words.begin(), {"exec", pod, "--"});
      return cluster.kubectl(words, 120);
    };
    EXPECT_THAT(inPod({"cat", "/host/root/etc/os-release"}).out, testing::HasSubstr("NAME="));
    // A key that root can see.
    auto path = node.controlPlane ? "/system/secrets/kubernetes/kube-apiserver/service-account.key"
                                  : "/var/lib/kubelet/pki/kubelet-client-current.pem";
    auto root = "/proc/" + std::to_string(cluster.talos.process(node.name)) + "/root";
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::symlink_status(root + path))) << path;
    auto key = inPod({"cat", std::string("/host/root") + path});
    EXPECT_NE(key.status, 0);
    EXPECT_THAT(key.err, testing::HasSubstr("Permission denied")) << path;
    auto found = inPod({"sh", "-c",
                        "cd /host/root && busybox find etc opt run system var -type f "
                        "-exec busybox grep -lE 'PRIVATE KEY|client-key-data|" +
                            secret + "' {} + 2>/dev/null; true"});
    EXPECT_EQ(found.out, "") << "of " << node.name << ": " << found.err;
  }
}

// The answer to GET at the port of a kubelet; empty token: without one. Its certificate is its own.
std::string kubeletAnswer(const KubeCluster& cluster, const KubeNode& node, const std::string& path,
                          const std::string& token) {
  auto proof = token.empty() ? "" : "Authorization: Bearer " + token + "\\r\\n";
  auto request =
      "GET " + path + " HTTP/1.1\\r\\nHost: node\\r\\nConnection: close\\r\\n" + proof + "\\r\\n";
  auto answer =
      cluster.in(cluster.segment(),
                 {"bash", "-c", "printf \"$0\" | openssl s_client -quiet -ign_eof -connect \"$1\"",
                  request, node.address + ":10250"},
                 30);
  return answer.out;
}

// Checks the metrics of Kubernetes' programs, as docs/metrics.md has them: with the token of an
// account that may read them, and with no other token.
void checkProgramMetrics(const KubeCluster& cluster, Access& access) {
  cluster.apply(
      "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: prometheus, namespace: default}\n"
      "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"
      "metadata: {name: prometheus}\nrules:\n"
      "- {apiGroups: [''], resources: [nodes/metrics], verbs: [get]}\n"
      "- {nonResourceURLs: [/metrics], verbs: [get]}\n"
      "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n"
      "metadata: {name: prometheus}\n"
      "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: prometheus}\n"
      "subjects: [{kind: ServiceAccount, name: prometheus, namespace: default}]\n");
  auto tokenOf = [&](const char* account) {
    return cluster.ok({"create", "token", account, "--namespace=default"});
  };
  auto token = tokenOf("prometheus"), other = tokenOf("default");
  access.useToken("prometheus", token);
  auto ofServer = access.as("prometheus", {"get", "--raw", "/metrics"});
  EXPECT_THAT(ofServer.out, testing::HasSubstr("\napiserver_request_total{")) << ofServer.err;
  for (auto& node : cluster.nodes) {
    auto answer = [&](const std::string& path) {
      return kubeletAnswer(cluster, node, path, token);
    };
    EXPECT_THAT(answer("/metrics"), testing::HasSubstr("\nkubelet_running_pods ")) << node.name;
    EXPECT_THAT(answer("/metrics/cadvisor"), testing::HasSubstr("\ncontainer_memory_usage_bytes{"))
        << node.name;
    EXPECT_THAT(answer("/metrics/resource"), testing::HasSubstr("\nnode_memory_working_set_bytes "))
        << node.name;
    EXPECT_THAT(kubeletAnswer(cluster, node, "/metrics", other),
                testing::HasSubstr("403 Forbidden"))
        << node.name;
    EXPECT_THAT(kubeletAnswer(cluster, node, "/metrics", ""),
                testing::HasSubstr("401 Unauthorized"))
        << node.name;
  }
}

// A worker with another name is another node for Kubernetes: it gets the certificate of the new
// name when the old certificate is not used any more, and then the old Node object is removed.
void checkRename(const KubeCluster& cluster) {
  auto &master = cluster.nodes.front(), &worker = cluster.nodes.back();
  auto patched = cluster.talos.talosctl(
      cluster.at(worker, {"patch", "mc", "--mode=reboot", "-p",
                          R"([{"op": "add", "path": "/machine/network/hostname",)"
                          R"( "value": "renamed"}])"}),
      120);
  EXPECT_EQ(patched.status, 0) << patched.out;
  EXPECT_THAT(patched.err, testing::HasSubstr("renames the node from " + worker.name +
                                              " to renamed: Kubernetes will see a new one; the old "
                                              "one is removed when the new one is ready"));
  auto names = [&] {
    return cluster.kubectl({"get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"}).out;
  };
  EXPECT_TRUE(eventually([&] { return names() == master.name + " renamed"; }, kRenamed, 1))
      << kubedLog(cluster) << cluster.overview();
  cluster.awaitReady(2, kClusterUp);
  EXPECT_THAT(kubedLog(cluster),
              testing::HasSubstr("removed the Node object of a machine that has another name now"));
}

// Catches: unneeded rights of an account or a token; a token without an end, or a token that is
// also on the worker's disk; a request for another node's name that is approved; a key of the
// control plane that a pod without rights reads from its node's root; metrics of a kubelet that no
// client gets, or every client; a renamed worker that never joins again, or whose old Node object
// stays.
TEST_F(KubeHost, CredentialsOfAWorkerAndOfPodsAreForThemselves) {
  KubeCluster cluster("access", 1, 1);
  cluster.awaitSystem();
  if (HasFailure()) return;
  Access access(cluster);
  checkRights(cluster, access);
  checkRequests(cluster, access);
  checkExporter(cluster);
  checkProgramMetrics(cluster, access);
  checkRename(cluster);
}

}  // namespace
}  // namespace talos
