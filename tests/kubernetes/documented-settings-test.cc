// Settings of the users' documents and of the machine config, each read where it acts: in the
// running kubelet, in pods of the control plane, in Node objects and certificates. One cluster has
// all of them, and its endpoint is a name of a name server that this test runs.
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <optional>
#include <regex>

#include "tests/harness/web.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr const char *kApiName = "api.documents.example", *kNameServer = "10.5.0.53",
                     *kUninitialized = "node.cloudprovider.kubernetes.io/uninitialized",
                     *kWorkerName = "worker.documents.example",
                     *kCloud = "http://10.5.0.1:8098/cloud.yaml";

constexpr const char* kOfAll = R"(
cluster:
  controlPlane: {endpoint: 'https://api.documents.example:6443'}
  externalCloudProvider: {enabled: true, manifests: ['http://10.5.0.1:8098/cloud.yaml']}
)";

// Each component reads a file of its volume: the API server the text of its warnings, the scheduler
// the name of another profile.
constexpr const char* kOfControlPlane = R"(
machine:
  files:
    - path: /var/lib/documents/admission.yaml
      op: create
      permissions: 0644
      content: |
        apiVersion: apiserver.config.k8s.io/v1
        kind: AdmissionConfiguration
        plugins:
        - name: PodSecurity
          configuration:
            apiVersion: pod-security.admission.config.k8s.io/v1
            kind: PodSecurityConfiguration
            defaults: {warn: baseline}
    - path: /var/lib/documents/scheduler.yaml
      op: create
      permissions: 0644
      content: |
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        clientConnection: {kubeconfig: /system/secrets/kubernetes/kube-scheduler/kubeconfig}
        profiles: [{schedulerName: default-scheduler}, {schedulerName: documents}]
cluster:
  allowSchedulingOnControlPlanes: true
  apiServer:
    extraVolumes: [{hostPath: /var/lib/documents, mountPath: /etc/documents, readonly: true}]
    extraArgs: {admission-control-config-file: /etc/documents/admission.yaml}
  scheduler:
    extraVolumes: [{hostPath: /var/lib/documents, mountPath: /etc/documents, readonly: true}]
    extraArgs: {config: /etc/documents/scheduler.yaml}
)";

constexpr const char* kOfWorker = R"(
machine:
  files: [{path: /var/mnt/documents/word, op: create, permissions: 0644, content: mounted}]
  kubelet:
    registerWithFQDN: true
    nodeIP: {validSubnets: [10.5.0.192/26]}
    extraMounts:
      - destination: /var/mnt/documents
        type: bind
        source: /var/mnt/documents
        options: [rbind, rshared, rw]
)";
// The second of its addresses is the one to be chosen.
constexpr const char* kAddressesOfWorker = R"([
  {"op": "replace", "path": "/machine/network/hostname", "value": "worker.documents.example"},
  {"op": "replace", "path": "/machine/network/interfaces/0", "value":
    {"interface": "eth0", "addresses": ["10.5.0.3/24", "10.5.0.203/24"],
     "routes": [{"network": "0.0.0.0/0", "gateway": "10.5.0.1"}]}}])";

// The provider's URL has this object.
constexpr const char* kOfCloud =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cloud, namespace: kube-system}\n";

// Returns a pod of the control plane with a name from the scheduler's file, and a pod of the worker
// with a folder that the kubelet requires before it starts the pod.
std::string pods(const std::string& master) {
  return R"(apiVersion: v1
kind: Pod
metadata: {name: placed, labels: {app: placed}}
spec:
  schedulerName: documents
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: )" +
         master + R"(}
  containers: [{name: main, image: "busybox:1.37", command: [sleep, "100000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: mounted, labels: {app: mounted}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: worker.documents.example}
  containers:
  - name: main
    image: "busybox:1.37"
    command: [sh, -c, "echo $(cat /it/word); sleep 100000"]
    volumeMounts: [{name: it, mountPath: /it}]
  volumes: [{name: it, hostPath: {path: /var/mnt/documents, type: Directory}}]
)";
}

struct DocumentedSettings : public KubeHost {
  ~DocumentedSettings() noexcept override {}
  std::unique_ptr<KubeCluster> cluster;
  std::optional<harness::Background> names;

  void TearDown() override {
    names.reset();
    cluster = nullptr;
    KubeHost::TearDown();
  }
  const KubeNode& master() const { return cluster->nodes[0]; }
  const KubeNode& worker() const { return cluster->nodes[1]; }
  std::string at(const KubeNode& node, std::vector<std::string> words) const {
    return cluster->talos.ok(cluster->at(node, std::move(words)));
  }
  // A name server on the nodes' segment, for which the endpoint has these addresses.
  void serveNames(const std::string& addresses) {
    names.reset();
    auto hosts = cluster->talos.folder() + "/hosts";
    std::ofstream out(hosts);
    for (auto& address : harness::lines(addresses)) out << address << " " << kApiName << "\n";
    out.close();
    auto place = "--net=/proc/" + std::to_string(cluster->segment()) + "/ns/net";
    names.emplace(std::vector<std::string>{
        "nsenter", place, "/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null",
        "--no-resolv", "--no-hosts", "--addn-hosts=" + hosts, "--user=root", "--group=root",
        "--pid-file", "--bind-interfaces", "--listen-address=" + std::string(kNameServer),
        "--log-facility=/dev/null"});
  }
  // Reads a file as the node's own process sees it.
  std::string fileOf(const KubeNode& node, const char* program, const std::string& path) const {
    return harness::slurp("/proc/" + std::to_string(cluster->talos.program(node.name, program)) +
                          path);
  }
  std::string argumentsOf(const KubeNode& node, const char* program) const {
    auto text = fileOf(node, program, "/cmdline");
    for (char& c : text) c = c == '\0' ? '\n' : c;
    return text;
  }
  std::vector<std::string> ofNodes(const std::string& path) const {
    return cluster->each("nodes", "{.metadata.name} " + path);
  }

  void create();
  void checkEndpoint() const;
  void checkNodes() const;
  void initialize() const;
  void checkMounts() const;
  void checkStaticPods() const;
  void checkExitedContainer() const;
  void checkFailedNode();
};

void DocumentedSettings::create() {
  cluster = std::make_unique<KubeCluster>(
      "settings", 1, 1,
      std::vector<std::string>{"--bootstrap=false", "--wait=false", "--nameservers", kNameServer,
                               "--config-patch", kOfAll, "--config-patch-control-plane",
                               kOfControlPlane, "--config-patch-worker", kOfWorker,
                               "--config-patch-worker", kAddressesOfWorker});
  auto address =
      cluster->in(cluster->segment(),
                  {"ip", "address", "add", std::string(kNameServer) + "/32", "dev", "lo"}, 10);
  ASSERT_EQ(address.status, 0) << address.err;
  serveNames("10.5.0.2\n");
  // kubectl of this test asks no name server; it still expects the name in the certificate.
  auto kubeconfig = harness::slurp(cluster->kubeconfigPath());
  EXPECT_THAT(kubeconfig, HasSubstr("server: https://api.documents.example:6443"));
  auto name = cluster->ok({"config", "view", "-o", "jsonpath={.clusters[0].name}"});
  cluster->ok({"config", "set-cluster", name, "--server=https://10.5.0.2:6443",
               std::string("--tls-server-name=") + kApiName});
}

// The certificates of both APIs have the name, and a worker uses it.
void DocumentedSettings::checkEndpoint() const {
  auto other = cluster->kubectl({"get", "nodes", "--tls-server-name=other.documents.example"});
  EXPECT_NE(other.status, 0) << "no name was compared";
  EXPECT_THAT(other.err, HasSubstr("certificate is valid for"));
  auto shown = cluster->in(cluster->segment(),
                           {"sh", "-c",
                            "openssl s_client -connect 10.5.0.2:50000 </dev/null 2>/dev/null | "
                            "openssl x509 -noout -ext subjectAltName"},
                           30);
  EXPECT_THAT(shown.out, HasSubstr(std::string("DNS:") + kApiName)) << shown.err;
  auto kubelet = at(worker(), {"read", "/etc/kubernetes/kubeconfig-kubelet"});
  EXPECT_THAT(kubelet, HasSubstr("https://api.documents.example:6443"));
}

void DocumentedSettings::checkNodes() const {
  EXPECT_THAT(
      ofNodes("{.status.addresses[?(@.type==\"InternalIP\")].address}"),
      UnorderedElementsAre(master().name + " 10.5.0.2", std::string(kWorkerName) + " 10.5.0.203"));
  // No node has another taint: a control plane that takes workloads does not taint itself.
  std::vector<std::string> taints;
  EXPECT_TRUE(eventually(
      [&] {
        taints = ofNodes("{.spec.taints[*].key}:{.spec.taints[*].effect}");
        std::vector<std::string> wanted = {
            master().name + " " + kUninitialized + ":NoSchedule",
            std::string(kWorkerName) + " " + kUninitialized + ":NoSchedule"};
        return taints == wanted;
      },
      60, 0.5))
      << testing::PrintToString(taints);
  for (auto& node : cluster->nodes) {
    EXPECT_THAT(argumentsOf(node, "kubelet"), HasSubstr("\n--cloud-provider=external\n"));
  }
  EXPECT_THAT(argumentsOf(master(), "kube-controller-manager"),
              HasSubstr("\n--cloud-provider=external\n"));
  EXPECT_THAT(at(master(), {"get", "manifests", "--namespace=extras"}),
              HasSubstr(std::string("30-") + kCloud));
  cluster->ok({"-n", "kube-system", "get", "configmap", "cloud"});
}

// Stands for the provider's controller.
void DocumentedSettings::initialize() const {
  auto message = [&] {
    return cluster->ok({"get", "pod", "placed", "-o",
                        "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}"});
  };
  EXPECT_TRUE(eventually([&] { return contains(message(), "untolerated taint"); }, 60, 0.5))
      << message();
  for (auto& name : {master().name, std::string(kWorkerName)}) {
    cluster->ok(
        {"patch", "node", name, "-p", R"({"spec": {"providerID": "example://)" + name + R"("}})"});
    cluster->ok({"taint", "nodes", name, std::string(kUninitialized) + ":NoSchedule-"});
  }
  cluster->awaitPods("default", "app=placed", 1, kPodsUp);
  EXPECT_EQ(cluster->placesOf("app=placed"), master().name + " ");
}

void DocumentedSettings::checkMounts() const {
  cluster->awaitPods("default", "app=mounted", 1, kPodsUp);
  EXPECT_EQ(fileOf(worker(), "kubelet", "/root/var/mnt/documents/word"), "mounted");
  // The API server calls the kubelet at the address of this subnet.
  EXPECT_EQ(cluster->ok({"logs", "mounted"}), "mounted\n");
  for (auto program : {"kube-apiserver", "kube-scheduler"}) {
    EXPECT_THAT(fileOf(master(), program, "/root/etc/documents/scheduler.yaml"),
                HasSubstr("schedulerName: documents"))
        << program;
  }
  auto warned = cluster->kubectl({"run", "warned", "--image=busybox:1.37", "--dry-run=server",
                                  R"(--overrides={"spec": {"hostNetwork": true}})"});
  EXPECT_THAT(warned.err, HasSubstr("would violate PodSecurity \"baseline:latest\""));
}

// The documents: "complete status can be fetched by adding -o yaml flag".
void DocumentedSettings::checkStaticPods() const {
  for (auto part : {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}) {
    auto status =
        at(master(), {"get", "staticpodstatus",
                      std::string("kube-system/") + part + "-" + master().name, "-o", "yaml"});
    for (auto piece : {"conditions:", "containerStatuses:", "type: Ready", "startedAt:",
                       "hostIP: 10.5.0.2", "podIP: 10.5.0.2", "phase: Running", "startTime:"}) {
      EXPECT_THAT(status, HasSubstr(piece)) << part;
    }
    EXPECT_THAT(status, HasSubstr(std::string("name: ") + part));
  }
}

// The API server gets an argument that it does not know, and then the config from before.
void DocumentedSettings::checkExitedContainer() const {
  auto set = [&](const std::string& operation) {
    at(master(), {"patch", "mc", "--immediate", "-p",
                  R"([{"op": ")" + operation +
                      R"(", "path": "/cluster/apiServer/extraArgs/no-such-flag", "value": "1"}])"});
  };
  auto log = "kube-system/kube-apiserver-" + master().name + ":kube-apiserver";
  std::regex exited("kube-apiserver-" + master().name +
                    ":kube-apiserver .*/kube-apiserver:\\S+ +0 +CONTAINER_EXITED");
  std::string containers, said;
  set("add");
  EXPECT_TRUE(eventually(
      [&] {
        containers = at(master(), {"containers", "-k"});
        said = cluster->talos.talosctl(cluster->at(master(), {"logs", "-k", log})).out;
        return std::regex_search(containers, exited) &&
               contains(said, "unknown flag: --no-such-flag");
      },
      kPodsUp, 0.5))
      << containers << said;
  set("remove");
  EXPECT_TRUE(
      eventually([&] { return cluster->kubectl({"get", "nodes"}).status == 0; }, kPodsUp, 1))
      << at(master(), {"containers", "-k"});
}

// A worker with a wrong endpoint gets the right one for its next boot. The name has the address of
// a machine without an API server as well, as when one control plane of several is down.
void DocumentedSettings::checkFailedNode() {
  // A boot refuses it until it has come to its services.
  auto endpoint = [&](const std::string& value) {
    harness::Result patched;
    EXPECT_TRUE(eventually(
        [&] {
          patched = cluster->talos.talosctl(cluster->at(
              worker(),
              {"patch", "mc", "--on-reboot", "-p",
               R"([{"op": "replace", "path": "/cluster/controlPlane/endpoint", "value": ")" +
                   value + R"("}])"}));
          return patched.status == 0;
        },
        kPodsUp, 0.5))
        << patched.err;
  };
  auto reboot = [&] {
    auto before = cluster->bootId(worker());
    at(worker(), {"reboot", "--wait=false"});
    EXPECT_TRUE(eventually(
        [&] {
          auto now = cluster->bootId(worker());
          return now != "" && now != before;
        },
        kClusterUp, 0.5));
  };
  auto ready = [&] {
    return cluster->ok({"get", "node", kWorkerName, "-o",
                        "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}"});
  };
  endpoint("https://10.5.0.77:6443");
  EXPECT_EQ(ready(), "True");
  reboot();
  EXPECT_TRUE(eventually([&] { return ready() != "True"; }, kClusterUp, 1)) << cluster->overview();
  serveNames("10.5.0.1\n10.5.0.2\n");
  endpoint("https://api.documents.example:6443");
  reboot();
  cluster->awaitReady(2, kClusterUp);
  // The node keeps the provider's fields, and is not tainted again.
  EXPECT_EQ(cluster->ok({"get", "node", kWorkerName, "-o", "jsonpath={.spec.providerID}"}),
            std::string("example://") + kWorkerName);
  EXPECT_THAT(cluster->ok({"get", "node", kWorkerName, "-o", "jsonpath={.spec.taints}"}),
              Not(HasSubstr(kUninitialized)));
}

// Catches: a mount, a volume or an argument that stays in the config; a name or an address with
// which a kubelet does not register; a node that its provider has not seen and that takes pods, or
// a cloud that waits for DNS, which waits for the cloud; an endpoint that no certificate has, or of
// which only the first address is tried; an object that was deleted and stays away; a failed
// container or a status that is not shown; a node that a wrong endpoint keeps out for good.
TEST_F(DocumentedSettings, ActWhereTheyAreMeantTo) {
  ASSERT_NO_FATAL_FAILURE(create());
  harness::Web cloud(cluster->segment(), "10.5.0.1", 8098);
  cloud.answer("", harness::Manner::kGood, kOfCloud);
  auto made = cluster->talos.talosctl(cluster->at(master(), {"bootstrap"}), kClusterUp);
  ASSERT_EQ(made.status, 0) << made.err;
  cluster->awaitReady(2, kClusterUp);
  cluster->awaitPods("kube-system", "k8s-app=kube-dns", 2, kPodsUp);
  if (HasFailure()) return;
  auto uid = [&] {
    return cluster
        ->kubectl(
            {"-n", "kube-system", "get", "deployment", "coredns", "-o", "jsonpath={.metadata.uid}"})
        .out;
  };
  auto deleted = uid();
  ASSERT_NE(deleted, "");
  cluster->ok({"-n", "kube-system", "delete", "deployment", "coredns"});

  checkEndpoint();
  checkNodes();
  cluster->apply(pods(master().name));
  initialize();
  checkMounts();
  checkStaticPods();
  // Every three minutes the manifests are looked for.
  EXPECT_TRUE(eventually([&] { return uid() != "" && uid() != deleted; }, kClusterUp, 1))
      << at(master(), {"get", "manifeststatus"});
  cluster->awaitPods("kube-system", "k8s-app=kube-dns", 2, kPodsUp);
  checkExitedContainer();
  checkFailedNode();
}

}  // namespace
}  // namespace talos
