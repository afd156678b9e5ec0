#include "tests/kubernetes/kube-cluster.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace talos {
namespace {

namespace fs = std::filesystem;
using harness::contains;
using harness::eventually;
using harness::Result;

std::string environment(const char* name) {
  auto value = getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The n-th address of the nodes' network; the gateway is the first.
std::string addressOf(unsigned number, bool ipv6Alone) {
  return (ipv6Alone ? "fd74:616c:a05::" : "10.5.0.") + std::to_string(number);
}

bool isIpv6Alone(const std::vector<std::string>& flags) {
  return std::find(flags.begin(), flags.end(), "--ipv4=false") != flags.end();
}

std::vector<std::string> flags(unsigned masters, unsigned workers,
                               const std::vector<std::string>& more) {
  auto registry = "*=" + httpUrl(addressOf(1, isIpv6Alone(more)), 5000);
  std::vector<std::string> all = {"--provisioner=container",
                                  "--masters=" + std::to_string(masters),
                                  "--workers=" + std::to_string(workers),
                                  "--bootstrap",
                                  "--skip-kubeconfig",
                                  "--registry-mirror",
                                  registry};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

std::string httpUrl(const std::string& address, unsigned port) {
  bool six = address.find(':') != std::string::npos;
  return (six ? "http://[" + address + "]:" : "http://" + address + ":") + std::to_string(port);
}

void KubeHost::SetUp() {
  for (auto name : {"KUBERNETES_IMAGES", "KUBECTL"}) {
    ASSERT_TRUE(fs::exists(environment(name))) << "$" << name << " is not there; run make e2e";
  }
  ASSERT_NO_FATAL_FAILURE(RegistryHost::SetUp());
  fs::create_directories(folder + "/" + kRegistryAddress);
  fs::create_directory_symlink(environment("KUBERNETES_IMAGES"),
                               folder + "/" + kRegistryAddress + "/data");
  registry = std::make_unique<harness::Registry>(folder, kRegistryAddress);
}

bool KubeHost::hasRelease(const std::string& release) {
  return fs::exists(environment("KUBERNETES_IMAGES") +
                    "/docker/registry/v2/repositories/kube-apiserver/_manifests/tags/v" + release);
}

KubeCluster::KubeCluster(const std::string& name, unsigned masters, unsigned workers,
                         const std::vector<std::string>& more, double slowness)
    : talos(name, flags(masters, workers, more), 600 * slowness),
      kubeconfig(talos.folder() + "/kubeconfig"),
      supervisor(talos.supervisor()),
      slowness(slowness) {
  for (unsigned i = 0; i < masters + workers; ++i) {
    bool master = i < masters;
    nodes.push_back({name + (master ? "-master-" : "-worker-") +
                         std::to_string(master ? i + 1 : i - masters + 1),
                     addressOf(i + 2, isIpv6Alone(more)), master});
  }
  Result last;
  bool written = eventually(
      [&] {
        last = talos.talosctl(
            {"-n", nodes[0].address, "kubeconfig", "--force", "--merge=false", kubeconfig});
        return last.status == 0;
      },
      60 * slowness, 1);
  EXPECT_TRUE(written) << last.out << last.err;
}

Result KubeCluster::inside(std::vector<std::string> flags) const {
  flags.insert(flags.begin(), {"-e", nodes[0].address, "-n", nodes[0].address, "health"});
  return in(supervisor, talos.command(flags), 120);
}

Result KubeCluster::in(pid_t process, std::vector<std::string> words,
                       double deadlineSeconds) const {
  std::vector<std::string> all = {"nsenter", "--net=/proc/" + std::to_string(process) + "/ns/net"};
  all.insert(all.end(), words.begin(), words.end());
  return harness::run(all, deadlineSeconds);
}

std::string KubeCluster::fetched(pid_t process, const std::string& address, unsigned port) const {
  auto answer =
      in(process,
         {"bash", "-c",
          "exec 3<>\"/dev/tcp/$0/$1\" && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3",
          address, std::to_string(port)},
         5);
  auto body = answer.out.find("\r\n\r\n");
  return body == std::string::npos ? "" : answer.out.substr(body + 4);
}

std::vector<std::string> KubeCluster::kubectlCommand(std::vector<std::string> arguments) const {
  std::vector<std::string> words = {environment("KUBECTL"), "--kubeconfig", kubeconfig};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

Result KubeCluster::onNode(std::vector<std::string> words, double deadlineSeconds) const {
  words.insert(words.begin() + 1, {"--kubeconfig", kubeconfig});
  return in(talos.process(nodes[0].name), words, deadlineSeconds);
}

Result KubeCluster::kubectl(std::vector<std::string> arguments, double deadlineSeconds) const {
  return in(supervisor, kubectlCommand(std::move(arguments)), deadlineSeconds * slowness);
}

std::string KubeCluster::ok(std::vector<std::string> arguments, double deadlineSeconds) const {
  auto result = kubectl(arguments, deadlineSeconds);
  EXPECT_EQ(result.status, 0) << "kubectl " << testing::PrintToString(arguments) << ": "
                              << result.err;
  return result.out;
}

std::vector<std::string> KubeCluster::each(const std::string& kind, const std::string& path) const {
  auto result = kubectl({"get", kind, "-A", "--request-timeout=5s", "-o",
                         "jsonpath={range .items[*]}" + path + "{\"\\n\"}{end}"});
  return result.status == 0 ? harness::lines(result.out) : std::vector<std::string>();
}

void KubeCluster::apply(const std::string& yaml) const {
  auto path = talos.folder() + "/objects.yaml";
  std::ofstream(path) << yaml;
  ok({"apply", "-f", path});
}

void KubeCluster::awaitReady(size_t nodes, double deadlineSeconds) const {
  auto ready = [&] {
    size_t count = 0;
    for (auto& line : each("nodes", "{.status.conditions[?(@.type==\"Ready\")].status}")) {
      count += line == "True";
    }
    return count == nodes;
  };
  EXPECT_TRUE(eventually(ready, deadlineSeconds * slowness, 0.5))
      << nodes << " nodes are not Ready within " << deadlineSeconds * slowness << " s:\n"
      << overview();
}

void KubeCluster::awaitPods(const std::string& nameSpace, const std::string& label, size_t count,
                            double deadlineSeconds) const {
  auto running = [&] {
    auto result = kubectl({"get", "pods", "-n", nameSpace, "-l", label, "-o",
                           "jsonpath={range .items[*]}{.status.phase}"
                           "{.status.conditions[?(@.type==\"Ready\")].status}{\"\\n\"}{end}"});
    size_t good = 0, all = 0;
    for (auto& line : harness::lines(result.out)) {
      // Pods that a node has ended while it shut down stay in the list, beside their replacements.
      all += !line.starts_with("Succeeded") && !line.starts_with("Failed");
      good += line == "RunningTrue";
    }
    return good == count && all == count;
  };
  EXPECT_TRUE(eventually(running, deadlineSeconds * slowness, 0.5))
      << count << " pods with " << label << " are not ready within " << deadlineSeconds * slowness
      << " s:\n"
      << overview();
}

void KubeCluster::awaitSystem(const std::string& networkNamespace,
                              const std::string& networkLabel) const {
  size_t masters =
      std::count_if(nodes.begin(), nodes.end(), [](auto& n) { return n.controlPlane; });
  awaitReady(nodes.size(), kClusterUp);
  for (auto part : {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}) {
    awaitPods("kube-system", std::string("k8s-app=") + part, masters, kPodsUp);
  }
  awaitPods("kube-system", "k8s-app=kube-proxy", nodes.size(), kPodsUp);
  awaitPods(networkNamespace, networkLabel, nodes.size(), kPodsUp);
  awaitPods("kube-system", "k8s-app=kube-dns", dnsPods, kPodsUp);
}

std::map<std::string, KubePod> KubeCluster::pods() const {
  std::map<std::string, KubePod> all;
  for (auto& line : each("pods",
                         "{.metadata.namespace}/{.metadata.name} {.status.phase}"
                         "{.status.conditions[?(@.type==\"Ready\")].status} "
                         "node={.spec.nodeName} {.status.containerStatuses[*].restartCount}")) {
    std::istringstream words(line);
    std::string name, state, node;
    words >> name >> state >> node;
    KubePod pod{.node = node.substr(node.find('=') + 1), .good = state == "RunningTrue"};
    pod.over = contains(state, "Failed") || contains(state, "Succeeded");
    for (unsigned count; words >> count;) pod.restarts += count;
    all.emplace(name, pod);
  }
  return all;
}

std::vector<std::string> KubeCluster::at(const KubeNode& node,
                                         std::vector<std::string> arguments) const {
  std::vector<std::string> words = {"-n", node.address};
  if (node.controlPlane) words.insert(words.end(), {"-e", talos.endpoint(node.address)});
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

std::string KubeCluster::bootId(const KubeNode& node) const {
  return talos
      .talosctl(at(node, {"--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}), 20)
      .out;
}

std::string KubeCluster::overview() const {
  std::string text;
  for (auto what : {"nodes", "pods"}) {
    auto result = kubectl({"get", what, "-A", "-o", "wide"});
    text += result.out + result.err;
  }
  auto events = kubectl({"get", "events", "-A", "--sort-by=.lastTimestamp"});
  auto all = harness::lines(events.out);
  for (size_t i = all.size() > 25 ? all.size() - 25 : 0; i < all.size(); ++i) text += all[i] + "\n";
  text += talos.talosctl({"services"}).out;
  return text;
}

std::string KubeCluster::placesOf(const std::string& label) const {
  return kubectl({"get", "pods", "-l", label, "--request-timeout=5s", "-o",
                  "jsonpath={range .items[*]}{.spec.nodeName} {end}"})
      .out;
}

std::string guardedByABudget(const std::string& name, const std::string& node) {
  return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + R"(}
spec:
  replicas: 1
  selector: {matchLabels: {app: )" +
         name + R"(}}
  template:
    metadata: {labels: {app: )" +
         name + R"(}}
    spec:
      terminationGracePeriodSeconds: 5
      tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            preference:
              matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [)" +
         node + R"(]}]
      containers:
      - {name: main, image: "busybox:1.37", command: [sh, -c, "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: )" +
         name + R"(}
spec: {minAvailable: 1, selector: {matchLabels: {app: )" +
         name + R"(}}}
)";
}

}  // namespace talos
