#include "machined/kubernetes/manifests/node-spec-controller.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace talos::machined {
namespace {

using Texts = std::map<std::string, std::string>;

struct Filled {
  Texts labels, taints;
  bool schedulable = false;
};

Filled filled(config::MachineType type, bool workloads, config::KubernetesVersion version) {
  capnp::MallocMessageBuilder config, out;
  auto root = config.initRoot<config::Config>();
  root.getMachine().setType(type);
  root.getCluster().setAllowSchedulingOnControlPlanes(workloads);
  auto fill = [](auto list, std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> pairs) {
    size_t i = 0;
    for (auto& [key, value] : pairs) {
      list[i].setKey(key);
      list[i++].setValue(value);
    }
  };
  fill(
      root.getMachine().initNodeLabels(3),
      {{"disk", "fast"}, {"topology.kubernetes.io/zone", "a"}, {"node-role.kubernetes.io/db", ""}});
  fill(root.getMachine().initNodeTaints(1), {{"gpu", "yes:NoExecute"}});
  fill(root.getMachine().initNodeAnnotations(1), {{"contact", "Jo, room 17"}});
  auto spec = out.initRoot<rpc::NodeSpecSpec>();
  fillNodeSpec(spec, root, "n-1", version);
  EXPECT_STREQ(spec.getNodename().cStr(), "n-1");
  EXPECT_EQ(spec.getAnnotations().size(), 1u);
  EXPECT_STREQ(spec.getAnnotations()[0].getValue().cStr(), "Jo, room 17");
  EXPECT_EQ(spec.getControlPlane(), type != config::MachineType::WORKER);
  Filled result;
  result.schedulable = spec.getSchedulable();
  for (auto one : spec.getLabels()) result.labels[one.getKey().cStr()] = one.getValue().cStr();
  for (auto one : spec.getTaints()) result.taints[one.getKey().cStr()] = one.getValue().cStr();
  return result;
}

// Catches: a missing role, or its taint where workloads are wanted; the names of another release.
TEST(NodeSpec, AControlPlaneHasItsRole) {
  const Texts settings = {
      {"disk", "fast"}, {"topology.kubernetes.io/zone", "a"}, {"node-role.kubernetes.io/db", ""}};
  auto now = filled(config::MachineType::CONTROLPLANE, false, {1, 34, 4});
  Texts labels = settings;
  labels["node-role.kubernetes.io/control-plane"] = "";
  EXPECT_EQ(now.labels, labels);
  EXPECT_EQ(now.taints, (Texts{{"gpu", "yes:NoExecute"},
                               {"node-role.kubernetes.io/control-plane", ":NoSchedule"}}));
  auto both = filled(config::MachineType::CONTROLPLANE, true, {1, 20, 6});
  labels["node-role.kubernetes.io/master"] = "";
  EXPECT_EQ(both.labels, labels);
  EXPECT_EQ(both.taints, (Texts{{"gpu", "yes:NoExecute"}}));
  EXPECT_TRUE(both.schedulable);
}

// Catches: a kept config of an earlier release that takes over a label of the kubelet, or
// annotations with which kubed knows its own entries; names that only begin like a reserved one and
// are left out; a node that does not say what it leaves out.
TEST(NodeSpec, ReservedNamesOfAKeptConfigAreLeftOut) {
  for (auto type : {config::MachineType::CONTROLPLANE, config::MachineType::WORKER}) {
    capnp::MallocMessageBuilder config, out;
    auto root = config.initRoot<config::Config>();
    auto machine = root.getMachine();
    machine.setType(type);
    root.getCluster().setAllowSchedulingOnControlPlanes(true);
    auto set = [](config::StringPair::Builder pair, kj::StringPtr key, kj::StringPtr value) {
      pair.setKey(key);
      pair.setValue(value);
    };
    auto labels = machine.initNodeLabels(2);
    set(labels[0], "kubernetes.io/hostname", "bar");
    set(labels[1], "rack", "r7");
    auto annotations = machine.initNodeAnnotations(2);
    set(annotations[0], "talos.dev/owned-labels", "[]");
    set(annotations[1], "talos.dev/ann1", "x");
    set(machine.initNodeTaints(1)[0], "node.kubernetes.io/not-ready", "NoExecute");
    auto spec = out.initRoot<rpc::NodeSpecSpec>();
    fillNodeSpec(spec, root, "n-1", {1, 34, 4});
    Texts found;
    for (auto one : spec.getLabels()) found[one.getKey().cStr()] = one.getValue().cStr();
    found.erase("node-role.kubernetes.io/control-plane");
    EXPECT_EQ(found, (Texts{{"rack", "r7"}}));
    ASSERT_EQ(spec.getAnnotations().size(), 1u);
    EXPECT_STREQ(spec.getAnnotations()[0].getKey().cStr(), "talos.dev/ann1");
    EXPECT_EQ(spec.getTaints().size(), 0u);
    std::string leftOut;
    for (auto text : spec.asReader().getLeftOut()) leftOut += std::string(text.cStr()) + "\n";
    EXPECT_EQ(leftOut,
              "machine.nodeLabels: kubernetes.io/hostname is a label of the kubelet; use another "
              "name\n"
              "machine.nodeTaints: node.kubernetes.io/not-ready is a taint of "
              "kube-controller-manager; use another name\n"
              "machine.nodeAnnotations: talos.dev/owned-labels is an annotation of the system; use "
              "another name\n");
  }
}

// Catches: a worker with a role of the control plane; a label that no kubelet may set and that
// kubed does not report, because it does not know of it.
TEST(NodeSpec, AWorkerHasTheSettingsOfItsConfig) {
  auto worker = filled(config::MachineType::WORKER, true, {1, 34, 4});
  EXPECT_EQ(worker.labels, (Texts{{"disk", "fast"},
                                  {"topology.kubernetes.io/zone", "a"},
                                  {"node-role.kubernetes.io/db", ""}}));
  EXPECT_EQ(worker.taints, (Texts{{"gpu", "yes:NoExecute"}}));
  EXPECT_FALSE(worker.schedulable);
}

}  // namespace
}  // namespace talos::machined
