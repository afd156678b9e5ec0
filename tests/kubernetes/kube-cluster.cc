#include "tests/kubernetes/kube-cluster.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace talos {
namespace {

namespace fs = std::filesystem;
using harness::contains;
using harness::eventually;
using harness::Result;

constexpr const char* kRegistry = "127.0.0.1:5000";

std::string environment(const char* name) {
  auto value = getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::string> flags(unsigned masters, unsigned workers,
                               const std::vector<std::string>& more) {
  std::vector<std::string> all = {"--provisioner=container",
                                  "--masters=" + std::to_string(masters),
                                  "--workers=" + std::to_string(workers),
                                  "--bootstrap",
                                  "--registry-mirror",
                                  "*=http://10.5.0.1:5000"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

void KubeHost::SetUp() {
  for (auto name : {"KUBERNETES_IMAGES", "KUBECTL"}) {
    ASSERT_TRUE(fs::exists(environment(name))) << "$" << name << " is not there; run make e2e";
  }
  ASSERT_NO_FATAL_FAILURE(RegistryHost::SetUp());
  fs::create_directories(folder + "/" + kRegistry);
  fs::create_directory_symlink(environment("KUBERNETES_IMAGES"),
                               folder + "/" + kRegistry + "/data");
  registry = std::make_unique<harness::Registry>(folder, kRegistry);
}

KubeCluster::KubeCluster(const std::string& name, unsigned masters, unsigned workers,
                         const std::vector<std::string>& more)
    : talos(name, flags(masters, workers, more)),
      name(name),
      kubeconfig(talos.folder() + "/kubeconfig") {
  Result last;
  bool written = eventually(
      [&] {
        last = talos.talosctl(
            {"-n", "10.5.0.2", "kubeconfig", "--force", "--merge=false", kubeconfig});
        return last.status == 0;
      },
      60, 1);
  EXPECT_TRUE(written) << last.out << last.err;
}

std::vector<std::string> KubeCluster::onFirstNode() const {
  auto node = talos.process(name + "-master-1");
  return {"nsenter", "--net=/proc/" + std::to_string(node) + "/ns/net"};
}

Result KubeCluster::inside(std::vector<std::string> flags) const {
  auto words = onFirstNode();
  flags.insert(flags.begin(), {"-e", "10.5.0.2", "-n", "10.5.0.2", "health"});
  for (auto& word : talos.command(flags)) words.push_back(word);
  return harness::run(words, 120);
}

Result KubeCluster::onNode(std::vector<std::string> words, double deadlineSeconds) const {
  auto all = onFirstNode();
  words.insert(words.begin() + 1, {"--kubeconfig", kubeconfig});
  all.insert(all.end(), words.begin(), words.end());
  return harness::run(all, deadlineSeconds);
}

Result KubeCluster::kubectl(std::vector<std::string> arguments, double deadlineSeconds) const {
  arguments.insert(arguments.begin(), environment("KUBECTL"));
  return onNode(arguments, deadlineSeconds);
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
  EXPECT_TRUE(eventually(ready, deadlineSeconds, 0.5))
      << nodes << " nodes are not Ready within " << deadlineSeconds << " s:\n"
      << overview();
}

void KubeCluster::awaitPods(const std::string& nameSpace, const std::string& label, size_t count,
                            double deadlineSeconds) const {
  auto running = [&] {
    auto result = kubectl({"get", "pods", "-n", nameSpace, "-l", label, "-o",
                           "jsonpath={range .items[*]}{.status.phase}"
                           "{.status.conditions[?(@.type==\"Ready\")].status}{\"\\n\"}{end}"});
    size_t good = 0;
    auto pods = harness::lines(result.out);
    for (auto& line : pods) good += line == "RunningTrue";
    return good == count && pods.size() == count;
  };
  EXPECT_TRUE(eventually(running, deadlineSeconds, 0.5))
      << count << " pods with " << label << " are not ready within " << deadlineSeconds << " s:\n"
      << overview();
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

}  // namespace talos
