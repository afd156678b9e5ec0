// A control plane and a worker that are virtual machines with a boot loader, with etcd and
// Kubernetes, are upgraded and brought back, and lose their power in each phase of an upgrade.
// Emulated, this takes an hour: it runs with MACHINE_UPGRADES=1, and the power cuts alone with
// MACHINE_UPGRADES=cuts.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <regex>

#include "tests/bad-images/system-images.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kSlowness = 4, kUpgrade = 2400, kWell = 2400;  // s, emulated on a busy machine
constexpr const char* kVersion = "v9.9.1";

struct Cut {
  const char* phase;
  const char* text;    // the client's line with which it begins
  const char* slots;   // of which the node runs one in the end
  const char* stages;  // a regular expression: the record after that
};

// From the trial on the node has one try: a power cut during it brings back the old system. Before
// that, the new one may have been chosen already, and is then tried.
const Cut kCuts[] = {
    {"send", "sending", "A", "none|failed"},
    {"write", "writing", "A", "none|failed"},
    {"reboot", "no answer", "AB", "failed|done"},
    {"trial", "trying slot", "A", "failed"},
};

// A single control plane needs no election, and an emulated one renews its lease too late.
constexpr const char* kAlone =
    R"([{"op": "add", "path": "/cluster/controllerManager/extraArgs", "value": {"leader-elect": "false"}},
        {"op": "add", "path": "/cluster/scheduler/extraArgs", "value": {"leader-elect": "false"}}])";

class MachineUpgrade : public KubeHost {
 protected:
  std::unique_ptr<KubeCluster> cluster;
  std::string archive;

  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }

  std::vector<std::string> upgrade(const KubeNode& node) const {
    return cluster->at(node, {"upgrade", "--image", archive, "--preserve"});
  }
  // Returns a field of the command's output; empty if the node does not answer.
  std::string field(const KubeNode& node, std::vector<std::string> command,
                    const char* pattern) const {
    auto text = cluster->talos.talosctl(cluster->at(node, std::move(command)), 60).out;
    std::smatch match;
    return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "";
  }
  std::string slot(const KubeNode& node) const {
    return field(node, {"read", "/proc/cmdline"}, "talos.slot=([AB])");
  }
  std::string stage(const KubeNode& node) const {
    return field(node, {"get", "upgradestatus", "-o", "yaml"}, "stage: (\\w+)");
  }
  void expectWell(const KubeNode& node) const;
  void thereAndBack(const KubeNode& node) const;
  void cut(const KubeNode& node, const Cut& cut) const;
};

// Expects that etcd has the earlier writes, the node is Ready, and pods run again.
void MachineUpgrade::expectWell(const KubeNode& node) const {
  cluster->awaitSystem();
  EXPECT_EQ(cluster->ok({"get", "configmap", "kept", "-o", "jsonpath={.data.key}"}, 240), "value");
  auto cordoned =
      cluster->ok({"get", "node", node.name, "-o", "jsonpath={.spec.unschedulable}"}, 240);
  EXPECT_EQ(cordoned, "") << node.name << " is left cordoned";
}

void MachineUpgrade::thereAndBack(const KubeNode& node) const {
  SCOPED_TRACE(node.name);
  ASSERT_EQ(slot(node), "A");
  auto there = cluster->talos.talosctl(upgrade(node), kUpgrade);
  fprintf(stderr, "    %s: %.0f s\n%s", node.name.c_str(), there.seconds, there.err.c_str());
  ASSERT_EQ(there.status, 0) << there.err << cluster->talos.console(node.name);
  EXPECT_EQ(slot(node), "B");
  EXPECT_EQ(stage(node), "done");
  expectWell(node);
  auto back = cluster->talos.talosctl(cluster->at(node, {"rollback"}), kUpgrade);
  fprintf(stderr, "    %s: back in %.0f s\n", node.name.c_str(), back.seconds);
  ASSERT_EQ(back.status, 0) << back.err << cluster->talos.console(node.name);
  EXPECT_EQ(slot(node), "A");
  expectWell(node);
}

void MachineUpgrade::cut(const KubeNode& node, const Cut& cut) const {
  SCOPED_TRACE(node.name + ": power cut, phase " + cut.phase);
  ASSERT_EQ(slot(node), "A");
  {
    harness::Background run(cluster->talos.command(upgrade(node)));
    ASSERT_TRUE(run.waitFor([&](auto&, auto& err) { return contains(err, cut.text); }, kUpgrade))
        << run.err();
    cluster->talos.ok({"cluster", "node", "kill", node.name}, 120);
  }
  cluster->talos.ok({"cluster", "node", "start", node.name}, 120);
  auto settled = [&] {
    auto now = slot(node);
    return !now.empty() && contains(cut.slots, now) &&
           std::regex_match(stage(node), std::regex(cut.stages));
  };
  EXPECT_TRUE(eventually(settled, kWell, 2))
      << "slot " << slot(node) << ", " << stage(node) << cluster->talos.console(node.name);
  fprintf(stderr, "    %s, power cut, phase %s: slot %s, %s\n", node.name.c_str(), cut.phase,
          slot(node).c_str(), stage(node).c_str());
  expectWell(node);
  if (slot(node) == "B") {
    cluster->talos.ok(cluster->at(node, {"rollback"}), kUpgrade);
    expectWell(node);
  }
}

}  // namespace

// Catches: a machine whose etcd or kubelet is not back in the new system, and that is confirmed all
// the same; a record of the boot loader that a power cut leaves without a system; data of etcd that
// a system on trial has lost.
TEST_F(MachineUpgrade, ThereAndBackAndPowerCuts) {
  auto* given = getenv("MACHINE_UPGRADES");
  if (given == nullptr) GTEST_SKIP() << "takes an hour: MACHINE_UPGRADES=1";
  SystemImages images(folder);
  archive = images.make(kVersion, {});
  cluster = std::make_unique<KubeCluster>(
      "machines", 1, 1,
      std::vector<std::string>{"--virtual-machines=2", "--with-bootloader", "--memory=3072",
                               "--disk=8192", "--config-patch-control-plane", kAlone},
      kSlowness);
  cluster->awaitSystem();
  cluster->apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\ndata: {key: value}\n");
  bool cutsAlone = given == std::string("cuts");
  for (auto& node : cluster->nodes) {
    if (!HasFailure() && !cutsAlone) thereAndBack(node);
  }
  for (auto& node : cluster->nodes) {
    for (auto& each : kCuts) {
      if (!HasFailure()) cut(node, each);
    }
  }
}

}  // namespace talos
