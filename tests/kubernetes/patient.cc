#include <fstream>

#include "common/kube/json.h"
#include "tests/kubernetes/illness.h"

namespace talos {
namespace {

using harness::eventually;
using harness::Result;

constexpr double kHeals = 120;  // seconds, for a change that the node makes at once
constexpr int kServed = 8099;

void writeText(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
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

}  // namespace

Patient::Patient(const KubeCluster& cluster)
    : cluster(cluster), master(cluster.nodes.front()), worker(cluster.nodes.back()) {}

Result Patient::talosctl(const KubeNode& node, std::vector<std::string> arguments) const {
  return cluster.talos.talosctl(cluster.at(node, std::move(arguments)), 60);
}

Result Patient::diagnose(const std::vector<std::string>& flags) const {
  std::vector<std::string> words = {"diagnose", "-o", "json"};
  words.insert(words.end(), flags.begin(), flags.end());
  return cluster.talos.talosctl(words, 120);
}

std::string Patient::configPath(const KubeNode& node) const {
  return cluster.talos.stateFolder() + "/" + node.name + "/state/config.yaml";
}

Patient::Config& Patient::configOf(const KubeNode& node) {
  for (auto& one : configs) {
    if (one.node == &node) return one;
  }
  configs.push_back({&node, harness::slurp(configPath(node))});
  return configs.back();
}

void Patient::patch(const KubeNode& node, const std::string& patch) {
  configOf(node);
  auto result = talosctl(node, {"patch", "mc", "--mode=no-reboot", "-p", patch});
  EXPECT_EQ(result.status, 0) << patch << "\n" << result.out << result.err;
}

void Patient::apply(const std::string& yaml) {
  cluster.apply(yaml);
  objects.push_back(yaml);
}

void Patient::keep(const std::string& kind, const std::string& name) {
  kept.push_back(portable(cluster.ok({"-n", "kube-system", "get", kind, name, "-o", "json"})));
}

void Patient::service(const KubeNode& node, const std::string& id, bool runs) {
  if (!runs) stopped.emplace_back(&node, id);
  cluster.talos.ok(cluster.at(node, {"service", id, runs ? "start" : "stop"}));
}

void Patient::serve(harness::Manner manner, const std::string& body) {
  webs.push_back(std::make_unique<harness::Web>(cluster.segment(), "10.5.0.1", kServed));
  webs.back()->answer("", manner, body);
}

void Patient::power(const KubeNode& node, bool on) {
  if (!on) off.push_back(&node);
  cluster.talos.ok({"cluster", "node", on ? "start" : "kill", node.name}, kHeals);
}

void Patient::kube(std::vector<std::string> arguments) const {
  cluster.ok(std::move(arguments));
}

// Undoes first the changes that impair the nodes, then those that keep Kubernetes from taking its
// objects back.
void Patient::restore() {
  webs.clear();
  for (auto node : off) power(*node, true);
  off.clear();
  for (auto& config : configs) {
    auto& node = *config.node;
    auto path = cluster.talos.folder() + "/restored.yaml";
    writeText(path, config.text);
    cluster.talos.ok(cluster.at(node, {"apply-config", "--mode=no-reboot", "-f", path}));
  }
  configs.clear();
  for (auto& [node, id] : stopped) service(*node, id, true);
  stopped.clear();
  auto path = cluster.talos.folder() + "/objects.yaml";
  auto again = [&](std::vector<std::string> words) {
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
    again({"delete", "--ignore-not-found", "--now", "-f", path});
  }
  for (auto& one : kept) {
    writeText(path, one);
    again({"apply", "-f", path});
  }
  objects.clear();
  kept.clear();
}

}  // namespace talos
