#include "kubed/nodes/node-plan.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include "common/base/date.h"
#include "common/kube/drain-plan.h"

namespace talos::kubed {
namespace {

struct Wanted {
  capnp::MallocMessageBuilder message;
  rpc::NodeSpecSpec::Builder spec = message.initRoot<rpc::NodeSpecSpec>();

  Wanted(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> labels,
         std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> taints = {}) {
    spec.setControlPlane(true);
    fill(spec.initLabels(labels.size()), labels);
    fill(spec.initTaints(taints.size()), taints);
  }
  static void fill(capnp::List<config::StringPair>::Builder out,
                   std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> pairs) {
    size_t i = 0;
    for (auto& [key, value] : pairs) {
      out[i].setKey(key);
      out[i++].setValue(value);
    }
  }
};

kube::Json nodeWith(kj::StringPtr more) {
  return kube::readJson(
      kj::str(
          R"({"metadata":{"name":"w-1","resourceVersion":"7","labels":{"kubernetes.io/hostname":"m-1")",
          more),
      "the node");
}

kj::String planned(Wanted& wanted, const kube::Json& node) {
  auto plan = planNode(wanted.spec, node);
  KJ_IF_MAYBE (patch, plan.patch) return kube::writeJson(*patch);
  return kj::str("nothing");
}

// Applies a plan to the node; then a second plan is empty.
kube::Json applied(Wanted& wanted, kube::Json node) {
  auto plan = planNode(wanted.spec, node);
  KJ_IF_MAYBE (patch, plan.patch) node.merge_patch(*patch);
  EXPECT_EQ(planned(wanted, node), "nothing"_kj);
  return node;
}

kj::String notApplied(Wanted& wanted, const kube::Json& node) {
  return kj::strArray(planNode(wanted.spec, node).notApplied, "\n");
}

// Catches: a node that is never adjusted again, because its label of the kubelet was removed.
TEST(NodePlan, ANodeWithoutItsHostnameLabelIsAdjusted) {
  Wanted wanted({{"a", "b"}}, {{"t", ":NoSchedule"}});
  auto node = kube::readJson(R"({"metadata":{"name":"w-1","resourceVersion":"7"}})"_kj, "the node");
  node = applied(wanted, kj::mv(node));
  EXPECT_EQ(kube::writeJson(node["metadata"]["labels"]), R"({"a":"b"})"_kj);
  EXPECT_EQ(kube::writeJson(node["spec"]["taints"]), R"([{"key":"t","effect":"NoSchedule"}])"_kj);
}

// Catches: a patch that removes what others have set, or that is sent again and again.
TEST(NodePlan, OursIsAddedAndTheRestIsLeft) {
  Wanted wanted({{"role", ""}, {"zone", "a"}}, {{"role", ":NoSchedule"}});
  auto node = nodeWith(R"(,"zone":"b"}},"spec":{"taints":[{"key":"gpu","effect":"NoExecute"}]}})");
  EXPECT_EQ(
      planned(wanted, node),
      R"({"metadata":{"labels":{"role":""},"annotations":{)"
      R"("talos.dev/owned-labels":"[\"role\"]","talos.dev/owned-taints":"[\"role:NoSchedule\"]"},)"
      R"("resourceVersion":"7"},"spec":{"taints":[{"key":"gpu","effect":"NoExecute"},)"
      R"({"key":"role","effect":"NoSchedule"}]}})"_kj);
  applied(wanted, node);
}

// Catches: a label that stays when the config has it no more; a foreign label that is removed.
TEST(NodePlan, UnwantedLabelIsRemovedIfWeSetIt) {
  Wanted before({{"a", "1"}, {"b", "2"}}, {{"t", "v:NoSchedule"}, {"u", ":NoExecute"}});
  auto node = applied(before, nodeWith(R"(,"other":"x"}}})"));
  Wanted after({{"b", "2"}}, {{"t", "w:NoSchedule"}});
  node = applied(after, kj::mv(node));
  EXPECT_EQ(kube::writeJson(node["metadata"]["labels"]),
            R"({"kubernetes.io/hostname":"m-1","other":"x","b":"2"})"_kj);
  EXPECT_EQ(kube::writeJson(node["spec"]["taints"]),
            R"([{"key":"t","value":"w","effect":"NoSchedule"}])"_kj);
}

// Catches: an annotation that stays when the config has it no more; a foreign annotation that is
// removed; a list of keys, or the mark of a cordon, that is removed because a list names it.
TEST(NodePlan, AnnotationsOfTheConfigComeAndGo) {
  Wanted wanted({});
  Wanted::fill(wanted.spec.initAnnotations(2), {{"contact", "Jo, room 17"}, {"rack", "r7"}});
  auto node = nodeWith(R"(},"annotations":{"node.alpha.kubernetes.io/ttl":"0"}}})");
  node = applied(wanted, kj::mv(node));
  EXPECT_EQ(kube::textAt(node, {"metadata", "annotations", "contact"}), "Jo, room 17"_kj);
  EXPECT_EQ(kube::textAt(node, {"metadata", "annotations", "rack"}), "r7"_kj);
  auto& annotations = node["metadata"]["annotations"];
  annotations["talos.dev/cordoned"] = "true";
  annotations["talos.dev/owned-annotations"] =
      R"(["contact","rack","talos.dev/cordoned","talos.dev/owned-labels"])";
  Wanted::fill(wanted.spec.initAnnotations(1), {{"rack", "r7"}});
  node = applied(wanted, kj::mv(node));
  EXPECT_EQ(kube::writeJson(node["metadata"]["annotations"]),
            R"({"node.alpha.kubernetes.io/ttl":"0","rack":"r7",)"
            R"("talos.dev/owned-annotations":"[\"rack\"]",)"
            R"("talos.dev/cordoned":"true"})"_kj);
}

// Catches: a machine that was reset and joins again under its name, and keeps values of its last
// config, or stays cordoned by the earlier drain; a machine that loses what others have set.
TEST(NodePlan, ANodeThatJoinsAnewFollowsItsNewConfig) {
  Wanted before({{"disk", "fast"}, {"rack", "r7"}});
  before.spec.setControlPlane(false);
  Wanted::fill(before.spec.initAnnotations(1), {{"contact", "Jo"}});
  auto node = applied(before, nodeWith(R"(,"zone":"a"}}})"));
  node.merge_patch(KJ_ASSERT_NONNULL(kube::planCordon(node, kube::CordonBy::kNode)));

  Wanted after({{"rack", "r8"}}, {{"role", ":NoSchedule"}});  // a control plane now
  node = applied(after, kj::mv(node));
  node.merge_patch(KJ_ASSERT_NONNULL(kube::planUncordon(node, kube::CordonBy::kNode)));
  EXPECT_EQ(kube::writeJson(node["metadata"]["labels"]),
            R"({"kubernetes.io/hostname":"m-1","zone":"a","rack":"r8"})"_kj);
  EXPECT_TRUE(kube::find(node, {"metadata", "annotations", "contact"}) == nullptr);
  EXPECT_FALSE(kube::flagAt(node, {"spec", "unschedulable"}));
  EXPECT_EQ(kube::writeJson(node["spec"]["taints"]),
            R"([{"key":"role","effect":"NoSchedule"}])"_kj);
}

// Catches: a foreign taint that is removed because the config has one of the same key; our taint
// that stays when its effect changes; a list that an earlier release has written.
TEST(NodePlan, ATaintIsOursWithItsEffect) {
  Wanted before({}, {{"gpu", "a:NoSchedule"}});
  auto node =
      applied(before, nodeWith(R"(}},"spec":{"taints":[{"key":"gpu","effect":"NoExecute"}]}})"));
  EXPECT_EQ(
      kube::writeJson(node["spec"]["taints"]),
      R"([{"key":"gpu","effect":"NoExecute"},{"key":"gpu","value":"a","effect":"NoSchedule"}])"_kj);
  Wanted changed({}, {{"gpu", "a:PreferNoSchedule"}});
  node = applied(changed, kj::mv(node));
  EXPECT_EQ(kube::writeJson(node["spec"]["taints"]),
            R"([{"key":"gpu","effect":"NoExecute"},)"
            R"({"key":"gpu","value":"a","effect":"PreferNoSchedule"}])"_kj);
  Wanted none({});
  auto earlier = node;
  node = applied(none, kj::mv(node));
  EXPECT_EQ(kube::writeJson(node["spec"]["taints"]), R"([{"key":"gpu","effect":"NoExecute"}])"_kj);
  earlier["metadata"]["annotations"]["talos.dev/owned-taints"] = R"(["gpu"])";
  EXPECT_EQ(applied(none, kj::mv(earlier))["spec"]["taints"].size(), 0u);
}

// Catches: a label or annotation of another client that is overwritten, or removed when the config
// no longer has it; a config that is said to be in effect; a node that does not set its own value
// after the other one was removed.
TEST(NodePlan, AnEntryOfAnotherClientStays) {
  Wanted wanted({{"zone", "a"}, {"rack", "r7"}});
  Wanted::fill(wanted.spec.initAnnotations(1), {{"contact", "Jo"}});
  auto node = nodeWith(R"(,"zone":"b","rack":"r7"},"annotations":{"contact":"Al"}}})");
  EXPECT_EQ(planned(wanted, node), "nothing"_kj);
  EXPECT_EQ(notApplied(wanted, node),
            "machine.nodeLabels: another client has set the label zone; kubectl label nodes w-1 "
            "zone- lets the node set it\n"
            "machine.nodeAnnotations: another client has set the annotation contact; kubectl "
            "annotate nodes w-1 contact- lets the node set it"_kj);
  Wanted none({});
  EXPECT_EQ(planned(none, node), "nothing"_kj);
  EXPECT_EQ(notApplied(none, node), ""_kj);

  node["metadata"]["labels"].erase(std::string("zone"));
  node = applied(wanted, kj::mv(node));
  EXPECT_EQ(kube::textAt(node, {"metadata", "labels", "zone"}), "a"_kj);
  node = applied(none, kj::mv(node));
  EXPECT_EQ(kube::writeJson(node["metadata"]["labels"]),
            R"({"kubernetes.io/hostname":"m-1","rack":"r7"})"_kj);
}

// Catches: a worker that never changes or removes a label with which its kubelet has registered it.
TEST(NodePlan, AWorkersLabelsOfItsRegistrationAreItsOwn) {
  Wanted wanted({{"disk", "fast"}, {"rack", "r7"}});
  wanted.spec.setControlPlane(false);
  auto node = applied(wanted, nodeWith(R"(,"disk":"fast","rack":"r8"}}})"));
  EXPECT_EQ(kube::textAt(node, {"metadata", "annotations", "talos.dev/owned-labels"}),
            R"(["disk"])"_kj);
  Wanted none({});
  none.spec.setControlPlane(false);
  node = applied(none, kj::mv(node));
  EXPECT_EQ(kube::writeJson(node["metadata"]["labels"]),
            R"({"kubernetes.io/hostname":"m-1","rack":"r8"})"_kj);
}

// Catches: a node without kubernetes.io/hostname, because an earlier release has taken the label
// over and the config no longer has it; a node that changes it because its config was kept; a taint
// of a cordon that is removed.
TEST(NodePlan, ReservedNamesAreLeftAlone) {
  auto node = nodeWith(
      R"(,"rack":"r7"},"annotations":{"node.alpha.kubernetes.io/ttl":"0",)"
      R"("talos.dev/owned-labels":"[\"kubernetes.io/hostname\",\"rack\"]",)"
      R"("talos.dev/owned-annotations":"[\"node.alpha.kubernetes.io/ttl\"]",)"
      R"("talos.dev/owned-taints":"[\"node.kubernetes.io/unschedulable:NoSchedule\"]"}},)"
      R"("spec":{"taints":[{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"}]}})");
  Wanted none({});
  Wanted kept({{"kubernetes.io/hostname", "bar"}});
  Wanted::fill(kept.spec.initAnnotations(1), {{"node.alpha.kubernetes.io/ttl", "7"}});
  for (auto wanted : {&none, &kept}) {
    EXPECT_EQ(planned(*wanted, node),
              R"({"metadata":{"labels":{"rack":null},"annotations":{"talos.dev/owned-labels":"[]",)"
              R"("talos.dev/owned-annotations":"[]","talos.dev/owned-taints":"[]"},)"
              R"("resourceVersion":"7"}})"_kj);
    EXPECT_EQ(notApplied(*wanted, node), ""_kj);
    applied(*wanted, node);
  }
}

// Catches: a control plane that does not get its role because another client has set the label.
TEST(NodePlan, TheRoleOfAControlPlaneIsItsOwn) {
  Wanted wanted({{"node-role.kubernetes.io/control-plane", ""}});
  auto node = applied(wanted, nodeWith(R"(,"node-role.kubernetes.io/control-plane":"true"}}})"));
  EXPECT_EQ(kube::writeJson(node["metadata"]["labels"]),
            R"({"kubernetes.io/hostname":"m-1","node-role.kubernetes.io/control-plane":""})"_kj);
  EXPECT_EQ(kube::textAt(node, {"metadata", "annotations", "talos.dev/owned-labels"}),
            R"(["node-role.kubernetes.io/control-plane"])"_kj);
}

// Catches: a taint of another client that is overwritten or removed; a taint of the node's
// registration that stays when the config no longer has it.
TEST(NodePlan, ATaintOfAnotherClientStays) {
  Wanted wanted({}, {{"gpu", "a:NoSchedule"}, {"slow", ":NoExecute"}});
  auto node = applied(
      wanted, nodeWith(R"(}},"spec":{"taints":[{"key":"gpu","value":"b","effect":"NoSchedule"},)"
                       R"({"key":"slow","effect":"NoExecute"}]}})"));
  EXPECT_EQ(node["spec"]["taints"].size(), 2u);
  EXPECT_EQ(notApplied(wanted, node),
            "machine.nodeTaints: another client has set the taint gpu:NoSchedule; kubectl taint "
            "nodes w-1 gpu:NoSchedule- lets the node set it"_kj);
  EXPECT_EQ(kube::textAt(node, {"metadata", "annotations", "talos.dev/owned-taints"}),
            R"(["slow:NoExecute"])"_kj);
  Wanted none({});
  EXPECT_EQ(kube::writeJson(applied(none, kj::mv(node))["spec"]["taints"]),
            R"([{"key":"gpu","value":"b","effect":"NoSchedule"}])"_kj);
}

TEST(NodePlan, WorkloadsOnTheControlPlane) {
  Wanted wanted({});
  auto tainted = nodeWith(
      R"(}},"spec":{"taints":[{"key":"node-role.kubernetes.io/master","effect":"NoSchedule"},)"
      R"({"key":"node-role.kubernetes.io/control-plane","effect":"NoExecute"}]}})");
  EXPECT_EQ(applied(wanted, tainted)["spec"]["taints"].size(), 2u);
  wanted.spec.setSchedulable(true);
  auto left = applied(wanted, tainted)["spec"]["taints"];
  EXPECT_EQ(kube::writeJson(left),
            R"([{"key":"node-role.kubernetes.io/control-plane","effect":"NoExecute"}])"_kj);
}

// Catches: damage by annotations whose text is not a list.
TEST(NodePlan, AnnotationsThatAreNoListsCountForNothing) {
  Wanted wanted({{"a", "1"}});
  auto node = nodeWith(
      R"(,"b":"2"},"annotations":{"talos.dev/owned-labels":"{","talos.dev/owned-taints":"[1]"}}})");
  EXPECT_EQ(kube::textAt(applied(wanted, node), {"metadata", "labels", "b"}), "2"_kj);
}

// Catches: a label that admission refuses, so that the whole patch is refused, or that is missing
// without a word; a label that is still reported after an administrator has set it; a role of a
// control plane that a worker forgets without removing it.
TEST(NodePlan, AWorkersLabelThatItMayNotChangeIsForOthers) {
  Wanted wanted({{"disk", "fast"}, {"node-role.kubernetes.io/db", "x"}});
  wanted.spec.setControlPlane(false);
  auto node = applied(wanted, nodeWith("}}}"));
  EXPECT_EQ(kube::writeJson(node["metadata"]["labels"]),
            R"({"kubernetes.io/hostname":"m-1","disk":"fast"})"_kj);
  EXPECT_EQ(notApplied(wanted, node),
            "machine.nodeLabels: a worker may not change its label node-role.kubernetes.io/db; "
            "kubectl label --overwrite nodes w-1 node-role.kubernetes.io/db=x does it"_kj);
  node["metadata"]["labels"]["node-role.kubernetes.io/db"] = "x";
  EXPECT_EQ(planned(wanted, node), "nothing"_kj);
  EXPECT_EQ(notApplied(wanted, node), ""_kj);

  node["metadata"]["annotations"]["talos.dev/owned-labels"] =
      R"(["disk","node-role.kubernetes.io/db"])";
  EXPECT_EQ(planned(wanted, node), "nothing"_kj) << "the label is not forgotten";

  node["metadata"]["annotations"]["talos.dev/owned-labels"] = R"(["node-role.kubernetes.io/db"])";
  Wanted none({});
  none.spec.setControlPlane(false);
  EXPECT_EQ(planned(none, node), "nothing"_kj);
  EXPECT_EQ(notApplied(none, node),
            "machine.nodeLabels: a worker may not change its label node-role.kubernetes.io/db; "
            "kubectl label --overwrite nodes w-1 node-role.kubernetes.io/db- does it"_kj);
}

// Catches: a worker that tries to change its taints, or forgets which of them it once wanted; a
// command with another effect than announced.
TEST(NodePlan, AWorkersTaintsAreForOthers) {
  Wanted before({{"a", "1"}}, {{"t", "v:NoSchedule"}, {"u", ":NoExecute"}});
  before.spec.setControlPlane(false);
  constexpr kj::StringPtr kTaints =
      R"(}},"spec":{"taints":[{"key":"t","value":"v","effect":"NoSchedule"},)"
      R"({"key":"u","effect":"NoExecute"},{"key":"x","effect":"NoExecute"}]}})"_kj;
  auto node = applied(before, nodeWith(kTaints));
  EXPECT_EQ(leftToOthers(before.spec, node), ""_kj);
  EXPECT_EQ(kube::textAt(node, {"metadata", "labels", "a"}), "1"_kj);

  Wanted after({}, {{"t", "w:NoSchedule"}, {"n", "1:NoSchedule"}});
  after.spec.setControlPlane(false);
  auto changed = applied(after, node);
  EXPECT_EQ(changed["spec"], node["spec"]);
  EXPECT_EQ(leftToOthers(after.spec, changed),
            "a worker may not change its own taints: kubectl taint --overwrite nodes w-1 "
            "t=w:NoSchedule n=1:NoSchedule u:NoExecute-"_kj);
  after.spec.setControlPlane(true);
  EXPECT_EQ(leftToOthers(after.spec, node), ""_kj);
}

// Catches: a node that counts as ready after a reboot because of an earlier report of its kubelet;
// a node that is never ready because its kubelet started in the second of the boot.
TEST(NodePlan, AConditionOfTheBootBeforeIsNoReadiness) {
  auto node = nodeWith(R"(}},"status":{"conditions":[{"type":"Ready","status":"True",)"
                       R"("lastHeartbeatTime":"2026-11-20T12:07:35Z"}]}})");
  auto heartbeat = KJ_ASSERT_NONNULL(parseDate("2026-11-20T12:07:35Z"));
  EXPECT_TRUE(stateOf(node, heartbeat - 1 * kj::HOURS).ready);
  EXPECT_TRUE(stateOf(node, heartbeat + 900 * kj::MILLISECONDS).ready);
  EXPECT_FALSE(stateOf(node, heartbeat + 2 * kj::SECONDS).ready);
}

TEST(NodePlan, HowTheNodeIs) {
  auto node = nodeWith(R"(}},"spec":{"unschedulable":true},)"
                       R"("status":{"conditions":[{"type":"Ready","status":"True"}]}})");
  EXPECT_TRUE(stateOf(node).ready);
  EXPECT_TRUE(stateOf(node).unschedulable);
  EXPECT_FALSE(stateOf(nodeWith("}}}")).ready);
}

}  // namespace
}  // namespace talos::kubed
