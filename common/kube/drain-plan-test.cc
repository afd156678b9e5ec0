#include "common/kube/drain-plan.h"

#include <gmock/gmock.h>

namespace talos::kube {
namespace {

using testing::ElementsAre;

Json drainObject(kj::StringPtr text) {
  return readJson(text, "the test");
}

// Catches: a pod without a controller to create it again that is evicted; a pod of a DaemonSet that
// is evicted and comes back at once; a pod that is being deleted and is evicted again.
TEST(DrainPlan, EvictablePodsLeaveAndOthersStay) {
  Json pods[] = {
      drainObject(R"({"metadata": {"name": "web", "namespace": "a", "uid": "1",
                 "ownerReferences": [{"kind": "ReplicaSet", "controller": true}]}})"),
      drainObject(R"({"metadata": {"name": "proxy", "namespace": "kube-system", "uid": "2",
                 "ownerReferences": [{"kind": "DaemonSet", "controller": true}]}})"),
      drainObject(R"({"metadata": {"name": "bare", "namespace": "a", "uid": "3"}})"),
      drainObject(R"({"metadata": {"name": "owned", "namespace": "a", "uid": "4",
                 "ownerReferences": [{"kind": "Thing", "controller": false}]}})"),
      drainObject(R"({"metadata": {"name": "api", "namespace": "kube-system", "uid": "5",
                 "annotations": {"kubernetes.io/config.mirror": "x"},
                 "ownerReferences": [{"kind": "Node", "controller": true}]}})"),
      drainObject(R"({"metadata": {"name": "db", "namespace": "a", "uid": "6",
                 "deletionTimestamp": "2026-01-01T00:00:00Z",
                 "ownerReferences": [{"kind": "DaemonSet", "controller": false},
                                     {"kind": "StatefulSet", "controller": true}]}})"),
      drainObject("{}")};
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

// Catches: a node that an administrator has cordoned and that its reboot uncordons; a node that
// cordoned itself and is never uncordoned; a patch that undoes concurrent changes.
TEST(DrainPlan, OnlyANodeThatWeCordonedIsUncordoned) {
  auto node = drainObject(R"({"metadata": {"name": "w", "resourceVersion": "7"}, "spec": {}})");
  auto patch = KJ_ASSERT_NONNULL(planCordon(node, CordonBy::kNode));
  EXPECT_STREQ(writeJson(patch).cStr(),
               R"({"metadata":{"annotations":{"talos.dev/cordoned":"true"},)"
               R"("resourceVersion":"7"},"spec":{"unschedulable":true}})");
  EXPECT_TRUE(planUncordon(node, CordonBy::kNode) == nullptr);
  node.merge_patch(patch);
  EXPECT_TRUE(planCordon(node, CordonBy::kNode) == nullptr);
  EXPECT_TRUE(cordonedByItself(node));
  auto back = KJ_ASSERT_NONNULL(planUncordon(node, CordonBy::kNode));
  EXPECT_STREQ(writeJson(back).cStr(), R"({"metadata":{"annotations":{"talos.dev/cordoned":null},)"
                                       R"("resourceVersion":"7"},"spec":{"unschedulable":null}})");
  node.merge_patch(back);
  EXPECT_TRUE(planUncordon(node, CordonBy::kNode) == nullptr);

  auto others = drainObject(R"({"metadata": {"name": "w"}, "spec": {"unschedulable": true}})");
  EXPECT_TRUE(planCordon(others, CordonBy::kNode) == nullptr);
  EXPECT_TRUE(planUncordon(others, CordonBy::kNode) == nullptr);
}

// Catches: a user's cordon that the node's next boot undoes; an uncordon by a user that leaves a
// node which its own drain has cordoned; a patch where there is nothing to do.
TEST(DrainPlan, AUserCordonsForGood) {
  auto node = drainObject(R"({"metadata": {"name": "w", "resourceVersion": "7"}, "spec": {}})");
  EXPECT_TRUE(planUncordon(node, CordonBy::kUser) == nullptr);
  auto patch = KJ_ASSERT_NONNULL(planCordon(node, CordonBy::kUser));
  EXPECT_STREQ(writeJson(patch).cStr(),
               R"({"metadata":{"resourceVersion":"7"},"spec":{"unschedulable":true}})");
  node.merge_patch(patch);
  EXPECT_TRUE(planCordon(node, CordonBy::kUser) == nullptr);
  EXPECT_TRUE(planUncordon(node, CordonBy::kNode) == nullptr);
  node.merge_patch(KJ_ASSERT_NONNULL(planUncordon(node, CordonBy::kUser)));

  node.merge_patch(KJ_ASSERT_NONNULL(planCordon(node, CordonBy::kNode)));
  auto taken = node;
  taken.merge_patch(KJ_ASSERT_NONNULL(planCordon(node, CordonBy::kUser)));
  EXPECT_TRUE(flagAt(taken, {"spec", "unschedulable"}));
  EXPECT_TRUE(planUncordon(taken, CordonBy::kNode) == nullptr);
  node.merge_patch(KJ_ASSERT_NONNULL(planUncordon(node, CordonBy::kUser)));
  EXPECT_FALSE(flagAt(node, {"spec", "unschedulable"}));
  EXPECT_FALSE(cordonedByItself(node));
}

// Returns "leave …", "stay …" or "refused …" with the kind of the pod, for one pod of so much JSON.
std::string judgedAs(kj::StringPtr pod, const DrainPolicy& policy) {
  constexpr const char* kKinds[] = {"replicated", "daemonset", "unmanaged", "local"};
  Json pods[] = {drainObject(pod)};
  auto plan = planDrain(pods, policy);
  for (auto& one : plan.leave) return std::string("leave ") + kKinds[unsigned(one.kind)];
  for (auto& one : plan.refused) return std::string("refused ") + kKinds[unsigned(one.kind)];
  return std::string("stay: ") + plan.stay[0].reason.cStr();
}

constexpr kj::StringPtr kBarePod = R"({"metadata": {"name": "p", "namespace": "a"}})"_kj,
                        kBareCache = R"({"metadata": {"name": "p", "namespace": "a"},
                          "spec": {"volumes": [{"name": "c", "emptyDir": {}}]}})"_kj,
                        kBareDone = R"({"metadata": {"name": "p", "namespace": "a"},
                          "spec": {"volumes": [{"name": "c", "emptyDir": {}}]},
                          "status": {"phase": "Succeeded"}})"_kj,
                        kCache = R"({"metadata": {"name": "p", "namespace": "a",
                          "ownerReferences": [{"kind": "ReplicaSet", "controller": true}]},
                          "spec": {"volumes": [{"name": "s", "secret": {}},
                                               {"name": "c", "emptyDir": {"medium": "Memory"}}]}})"_kj,
                        kOfSet = R"({"metadata": {"name": "p", "namespace": "a",
                          "ownerReferences": [{"kind": "DaemonSet", "name": "set",
                                               "controller": true}]}})"_kj,
                        kStaticPod = R"({"metadata": {"name": "p", "annotations":
                          {"kubernetes.io/config.mirror": "x"}}, "status": {"phase": "Failed"}})"_kj;

// Catches: a choice that affects another kind of pod; data that is lost without the user's consent;
// a finished pod that blocks a drain; a static pod that is evicted for its phase; a pod of a
// deleted DaemonSet for which a drain waits for ever.
TEST(DrainPlan, EachChoiceIsAboutItsPods) {
  DrainPolicy strict{.daemonSets = Choice::kRefuse,
                     .unmanaged = Choice::kRefuse,
                     .localData = Choice::kRefuse,
                     .finishedLeave = true};
  EXPECT_EQ(judgedAs(kBarePod, strict), "refused unmanaged");
  EXPECT_EQ(judgedAs(kBareCache, strict), "refused local");
  EXPECT_EQ(judgedAs(kBareDone, strict), "leave replicated");
  EXPECT_EQ(judgedAs(kCache, strict), "refused local");
  EXPECT_EQ(judgedAs(kOfSet, strict), "refused daemonset");
  EXPECT_EQ(judgedAs(kStaticPod, strict), "stay: it is a static pod");

  DrainPolicy free{.daemonSets = Choice::kStay,
                   .unmanaged = Choice::kLeave,
                   .localData = Choice::kLeave,
                   .finishedLeave = true};
  EXPECT_EQ(judgedAs(kBarePod, free), "leave unmanaged");
  EXPECT_EQ(judgedAs(kCache, free), "leave local");
  EXPECT_EQ(judgedAs(kOfSet, free), "stay: it belongs to a DaemonSet");
  free.daemonSetsThere = kj::arr(kj::str("a/set"));
  EXPECT_EQ(judgedAs(kOfSet, free), "stay: it belongs to a DaemonSet");
  free.daemonSetsThere = kj::arr(kj::str("b/set"));
  EXPECT_EQ(judgedAs(kOfSet, free), "leave unmanaged");
  free.unmanaged = Choice::kRefuse;
  EXPECT_EQ(judgedAs(kOfSet, free), "refused unmanaged");
  EXPECT_EQ(judgedAs(kBareCache, free), "refused unmanaged");

  // For a node that shuts down.
  EXPECT_EQ(judgedAs(kBareDone, {}), "stay: it has no controller");
  EXPECT_EQ(judgedAs(kCache, {}), "leave local");
}

}  // namespace
}  // namespace talos::kube
