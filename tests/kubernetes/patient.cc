#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "common/kube/json.h"
#include "tests/kubernetes/illness.h"

namespace talos {
namespace {

namespace fs = std::filesystem;
using harness::eventually;
using harness::Result;

constexpr double kHeals = 120;  // seconds, for a change that the node makes at once
constexpr double kTyped = 300;  // seconds, for a remedy that waits for its effect
constexpr int kServed = 8099;

void writeText(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
}

// Returns the object as `kubectl apply` accepts it: not bound to the object that it was.
std::string portable(const std::string& object) {
  auto json = kube::readJson(kj::arrayPtr(object.data(), object.size()), "the object");
  for (auto key : {"resourceVersion", "uid", "creationTimestamp", "generation"}) {
    json["metadata"].erase(key);
  }
  json.erase("status");
  return kube::writeJson(json).cStr();
}

std::string releaseOf(const KubeCluster& cluster) {
  auto releases = cluster.each("nodes", "{.status.nodeInfo.kubeletVersion}");
  return releases.empty() ? std::string() : releases[0];
}

void linkProgram(const std::string& path, const std::string& program) {
  fs::remove(path);
  fs::create_symlink(fs::absolute(program), path);
}

}  // namespace

Patient::Patient(const KubeCluster& cluster)
    : cluster(cluster),
      master(cluster.nodes.front()),
      worker(cluster.nodes.back()),
      release(releaseOf(cluster)) {}

// --- commands

Result Patient::talosctl(const KubeNode& node, std::vector<std::string> arguments) const {
  return cluster.talos.talosctl(cluster.at(node, std::move(arguments)), 60);
}

Result Patient::client(std::vector<std::string> arguments, double deadlineSeconds) const {
  std::vector<std::string> words = {
      harness::talosctlPath(), "--talosconfig",
      talosconfig.empty() ? cluster.talos.talosconfig() : talosconfig};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return harness::run(words, deadlineSeconds);
}

Result Patient::diagnose(const std::vector<std::string>& flags) const {
  std::vector<std::string> words = {"diagnose", "-o", "json"};
  words.insert(words.end(), flags.begin(), flags.end());
  return client(words, 120);
}

Result Patient::type(const std::string& line, const std::string& editor) const {
  auto programs = file("programs"), config = file("operators-talosconfig");
  fs::create_directories(programs);
  linkProgram(programs + "/talosctl", harness::talosctlPath());
  linkProgram(programs + "/kubectl", cluster.kubectlCommand({})[0]);
  fs::copy_file(cluster.talos.talosconfig(), config, fs::copy_options::overwrite_existing);
  std::vector<std::string> words = {harness::talosctlPath(), "--talosconfig", config, "config",
                                    "endpoint"};
  for (auto& node : cluster.nodes) {
    if (node.controlPlane) words.push_back(node.address);
  }
  auto endpoint = harness::run(words);
  EXPECT_EQ(endpoint.status, 0) << endpoint.out << endpoint.err;
  auto path = getenv("PATH");
  return cluster.in(cluster.segment(),
                    {"env", "PATH=" + programs + ":" + (path == nullptr ? "/usr/bin:/bin" : path),
                     "TALOSCONFIG=" + config, "KUBECONFIG=" + cluster.kubeconfigPath(),
                     "TALOS_EDITOR=" + editor, "KUBE_EDITOR=" + editor, "sh", "-c", line},
                    kTyped);
}

std::string Patient::file(const std::string& name) const {
  return cluster.talos.folder() + "/" + name;
}

std::string Patient::configPath(const KubeNode& node) const {
  return cluster.talos.stateFolder() + "/" + node.name + "/state/config.yaml";
}

std::string Patient::configText(const KubeNode& node) const {
  return harness::slurp(configPath(node));
}

std::string Patient::originalConfig(const KubeNode& node) {
  auto path = file("original-" + node.name + ".yaml");
  writeText(path, configOf(node).text);
  return path;
}

// --- changes

Patient::Config& Patient::configOf(const KubeNode& node) {
  for (auto& one : configs) {
    if (one.node == &node) return one;
  }
  configs.push_back({&node, configText(node)});
  return configs.back();
}

void Patient::awaitAnswer(const KubeNode& node) const {
  Result last;
  // A node without a config answers that it is in maintenance.
  auto answers = [&] {
    last = talosctl(node, {"version"});
    return last.status == 0 || harness::contains(last.err, "in maintenance mode");
  };
  EXPECT_TRUE(eventually(answers, kHeals, 1)) << node.name << ": " << last.out << last.err;
}

void Patient::patch(const KubeNode& node, const std::string& patch, const std::string& mode) {
  configOf(node);
  auto boot = cluster.bootId(node);
  // Otherwise the illness ends by itself.
  auto result = talosctl(node, {"patch", "mc", "--mode=" + mode, "--no-trial", "-p", patch});
  EXPECT_EQ(result.status, 0) << patch << "\n" << result.out << result.err;
  if (mode != "reboot") return;
  auto isBack = [&] {
    auto now = cluster.bootId(node);
    return !now.empty() && now != boot;
  };
  EXPECT_TRUE(eventually(isBack, kHeals, 1)) << node.name << " is not back after its reboot";
}

void Patient::apply(const std::string& yaml) {
  cluster.apply(yaml);
  objects.push_back(yaml);
}

void Patient::keep(const std::string& kind, const std::string& name) {
  kept.push_back(portable(cluster.ok({"-n", "kube-system", "get", kind, name, "-o", "json"})));
}

void Patient::stop(const KubeNode& node, const std::string& service) {
  stopped.emplace_back(&node, service);
  cluster.talos.ok(cluster.at(node, {"service", service, "stop"}));
}

void Patient::serve(harness::Manner manner, const std::string& body) {
  webs.push_back(std::make_unique<harness::Web>(cluster.segment(), "10.5.0.1", kServed));
  webs.back()->answer("", manner, body);
}

void Patient::power(const KubeNode& node, bool on) {
  if (!on) off.push_back(&node);
  cluster.talos.ok({"cluster", "node", on ? "start" : "kill", node.name}, kHeals);
}

void Patient::boot(const KubeNode& node, const std::string& config, bool joined) {
  configOf(node).booted = true;
  startWith(node, config, joined);
  awaitAnswer(node);
}

void Patient::replaceMachine(const KubeNode& node, const std::string& config) {
  configOf(node).booted = configOf(node).replaced = true;
  startWith(node, config, false, true);
}

void Patient::freeze(const KubeNode& node, const std::string& program) {
  auto pid = cluster.talos.program(node.name, program);
  ASSERT_GT(pid, 0) << program << " does not run on " << node.name;
  frozen.push_back({&node, program, pid});
  EXPECT_EQ(kill(pid, SIGSTOP), 0);
}

// The launcher gives a node that has stored no config the one in the cluster's folder.
void Patient::startWith(const KubeNode& node, const std::string& config, bool joined,
                        bool erased) const {
  cluster.talos.ok({"cluster", "node", "kill", node.name}, kHeals);
  auto state = fs::path(configPath(node)).parent_path();
  fs::remove(configPath(node));
  if (erased) {
    cluster.talos.erase(node.name);
    for (auto& entry : fs::directory_iterator(state)) fs::remove_all(entry.path());
  }
  if (!joined) {
    for (auto name : {"api-certificate", "join-key"}) fs::remove(state / name);
  }
  writeText(cluster.talos.stateFolder() + "/" + node.name + ".yaml", config);
  if (!config.empty()) writeText(configPath(node), config);
  cluster.talos.ok({"cluster", "node", "start", node.name}, kHeals);
}

void Patient::startAgain(const KubeNode& node) {
  again.push_back(&node);
}

void Patient::useTalosconfig(const std::string& path) {
  talosconfig = path;
}

void Patient::kube(std::vector<std::string> arguments) const {
  cluster.ok(std::move(arguments));
}

// --- taking them back

void Patient::restoreConfigs() {
  for (auto& config : configs) {
    auto& node = *config.node;
    if (!config.booted) {
      auto path = originalConfig(node);
      cluster.talos.ok(cluster.at(node, {"apply-config", "--mode=no-reboot", "-f", path}));
    } else if (config.replaced || configText(node) != config.text) {
      startWith(node, config.text, !config.replaced, config.replaced);
      awaitAnswer(node);
    } else {
      writeText(cluster.talos.stateFolder() + "/" + node.name + ".yaml", config.text);
    }
  }
  configs.clear();
}

void Patient::restoreObjects() {
  auto path = file("objects.yaml");
  auto repeat = [&](std::vector<std::string> words) {
    Result last;
    EXPECT_TRUE(eventually(
        [&] {
          last = cluster.kubectl(words);
          return last.status == 0;
        },
        kHeals, 1))
        << last.err;
  };
  for (auto& one : objects) {
    writeText(path, one);
    repeat({"delete", "--ignore-not-found", "--now", "-f", path});
  }
  for (auto& one : kept) {
    writeText(path, one);
    repeat({"apply", "-f", path});
  }
  objects.clear();
  kept.clear();
}

// Undoes first the changes that impair the nodes, then those that keep Kubernetes from taking its
// objects back. A remedy may have taken back any of them before.
void Patient::restore() {
  talosconfig.clear();
  webs.clear();
  for (auto& [node, program, pid] : frozen) {
    if (cluster.talos.program(node->name, program) == pid) kill(pid, SIGCONT);
  }
  frozen.clear();
  for (auto node : off) power(*node, true);
  off.clear();
  restoreConfigs();
  for (auto& [node, service] : stopped) talosctl(*node, {"service", service, "start"});
  stopped.clear();
  for (auto node : again) {
    cluster.talos.ok({"cluster", "node", "kill", node->name}, kHeals);
    cluster.talos.ok({"cluster", "node", "start", node->name}, kHeals);
    awaitAnswer(*node);
  }
  again.clear();
  restoreObjects();
}

}  // namespace talos
