#include "talosctl/upgrade-k8s/kube-objects.h"

#include <gmock/gmock.h>

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

kube::Json json(kj::StringPtr text) {
  return kube::readJson(text, "the test");
}

TEST(UpgradeK8sObjects, Nodes) {
  auto node =
      json(R"({"metadata":{"name":"m1","labels":{"node-role.kubernetes.io/control-plane":""}},
    "status":{"addresses":[{"type":"Hostname","address":"m1"},{"type":"InternalIP","address":"10.0.0.2"},
    {"type":"InternalIP","address":"fd00::2"}],"nodeInfo":{"kubeletVersion":"v1.34.4"},
    "conditions":[{"type":"DiskPressure","status":"True"},{"type":"Ready","status":"False"}]}})");
  auto state = readNode(node);
  EXPECT_EQ(state.name, "m1");
  EXPECT_EQ(state.address, "10.0.0.2");
  EXPECT_TRUE(state.controlPlane);
  EXPECT_EQ(state.kubeletVersion, "v1.34.4");
  EXPECT_FALSE(readKubelet(node).ready);
  node["status"]["conditions"][1]["status"] = "True";
  EXPECT_TRUE(readKubelet(node).ready);
  node["metadata"]["labels"] = json(R"({"node-role.kubernetes.io/master":""})");
  EXPECT_TRUE(readNode(node).controlPlane) << "before 1.20";
  node["metadata"].erase("labels");
  EXPECT_FALSE(readNode(node).controlPlane);
  node["status"].erase("addresses");
  EXPECT_NE(kj::runCatchingExceptions([&]() { readNode(node); }), nullptr);
}

TEST(UpgradeK8sObjects, Pods) {
  auto pod = readPod(json(R"({"metadata":{"annotations":{"talos.dev/config-version":"3"}},
    "status":{"conditions":[{"type":"Ready","status":"True"}]}})"));
  EXPECT_EQ(pod.configVersion, "3");
  EXPECT_TRUE(pod.ready);
  EXPECT_EQ(pod.problem, "");
  pod = readPod(json(R"({"status":{"containerStatuses":[{"state":{"waiting":
    {"reason":"CrashLoopBackOff","message":"back-off 10s"}}}]}})"));
  EXPECT_FALSE(pod.ready);
  EXPECT_EQ(pod.problem, "CrashLoopBackOff: back-off 10s");
  EXPECT_EQ(readPod(json("[]")).configVersion, "");
}

// Catches: a status of the previous template that is taken for the status of the new template.
TEST(UpgradeK8sObjects, DaemonSets) {
  auto set = json(R"({"metadata":{"generation":2},"spec":{"template":{"spec":{"containers":[
    {"name":"other","image":"a"},{"name":"kube-proxy","image":"r/kube-proxy:v1.34.4"}]}}},
    "status":{"observedGeneration":1,"desiredNumberScheduled":3,"updatedNumberScheduled":2,
    "numberAvailable":1,"currentNumberScheduled":3}})");
  auto state = readDaemonSet(set);
  EXPECT_FALSE(state.observed);
  EXPECT_EQ(state.desired, 3u);
  EXPECT_EQ(state.updated, 2u);
  EXPECT_EQ(state.available, 1u);
  EXPECT_EQ(state.pods, 3u);
  set["status"]["observedGeneration"] = 2;
  EXPECT_TRUE(readDaemonSet(set).observed);
  EXPECT_EQ(proxyImageOf(set), "r/kube-proxy:v1.34.4");
  EXPECT_NE(kj::runCatchingExceptions([&]() { proxyImageOf(json("{}")); }), nullptr);
  EXPECT_EQ(kube::writeJson(proxyImagePatch("r/kube-proxy:v1.35.4")),
            "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"kube-proxy\",\"image\":"
            "\"r/kube-proxy:v1.35.4\"}]}}}}"_kj);
}

}  // namespace
}  // namespace talos::talosctl
