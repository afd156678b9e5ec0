#include "kubed/nodes/node-drain-plan.h"

#include <gmock/gmock.h>

namespace talos::kubed {
namespace {

using kube::Json;
using testing::ElementsAre;

Json object(kj::StringPtr text) {
  return kube::readJson(text, "the test");
}

// Catches: a pod that is ended and made anew nowhere; one of a DaemonSet, which comes back at once;
// one that is on its way and is asked again.
TEST(NodeDrainPlan, WhoLeavesAndWhoStays) {
  Json pods[] = {object(R"({"metadata": {"name": "web", "namespace": "a", "uid": "1",
                 "ownerReferences": [{"kind": "ReplicaSet", "controller": true}]}})"),
                 object(R"({"metadata": {"name": "proxy", "namespace": "kube-system", "uid": "2",
                 "ownerReferences": [{"kind": "DaemonSet", "controller": true}]}})"),
                 object(R"({"metadata": {"name": "bare", "namespace": "a", "uid": "3"}})"),
                 object(R"({"metadata": {"name": "owned", "namespace": "a", "uid": "4",
                 "ownerReferences": [{"kind": "Thing", "controller": false}]}})"),
                 object(R"({"metadata": {"name": "api", "namespace": "kube-system", "uid": "5",
                 "annotations": {"kubernetes.io/config.mirror": "x"},
                 "ownerReferences": [{"kind": "Node", "controller": true}]}})"),
                 object(R"({"metadata": {"name": "db", "namespace": "a", "uid": "6",
                 "deletionTimestamp": "2026-01-01T00:00:00Z",
                 "ownerReferences": [{"kind": "DaemonSet", "controller": false},
                                     {"kind": "StatefulSet", "controller": true}]}})"),
                 object("{}")};
  auto plan = planDrain(pods);
  std::vector<std::string> leave, stay;
  for (auto& pod : plan.leave) {
    leave.push_back(kj::str(pod.id(), " ", pod.uid, pod.ending ? " ends" : "").cStr());
  }
  for (auto& pod : plan.stay) stay.push_back(kj::str(pod.id, ": ", pod.reason).cStr());
  EXPECT_THAT(leave, ElementsAre("a/web 1", "a/db 6 ends"));
  EXPECT_THAT(stay, ElementsAre("kube-system/proxy: it belongs to a DaemonSet",
                                "a/bare: it has no controller", "a/owned: it has no controller",
                                "kube-system/api: it is a static pod", ": it has no controller"));
}

// Catches: a node that an administrator has cordoned and that is uncordoned by its reboot; one of
// ours that is never uncordoned; a patch that undoes what was changed meanwhile.
TEST(NodeDrainPlan, WhatWeCordonedWeUncordon) {
  auto node = object(R"({"metadata": {"name": "w", "resourceVersion": "7"}, "spec": {}})");
  auto patch = KJ_ASSERT_NONNULL(planCordon(node));
  EXPECT_STREQ(kube::writeJson(patch).cStr(),
               R"({"metadata":{"annotations":{"talos.dev/cordoned":"true"},)"
               R"("resourceVersion":"7"},"spec":{"unschedulable":true}})");
  EXPECT_TRUE(planUncordon(node) == nullptr);
  node.merge_patch(patch);
  EXPECT_TRUE(planCordon(node) == nullptr);
  EXPECT_TRUE(cordonedByUs(node));
  auto back = KJ_ASSERT_NONNULL(planUncordon(node));
  EXPECT_STREQ(kube::writeJson(back).cStr(),
               R"({"metadata":{"annotations":{"talos.dev/cordoned":null},)"
               R"("resourceVersion":"7"},"spec":{"unschedulable":null}})");
  node.merge_patch(back);
  EXPECT_TRUE(planUncordon(node) == nullptr);

  auto others = object(R"({"metadata": {"name": "w"}, "spec": {"unschedulable": true}})");
  EXPECT_TRUE(planCordon(others) == nullptr);
  EXPECT_TRUE(planUncordon(others) == nullptr);
}

}  // namespace
}  // namespace talos::kubed
