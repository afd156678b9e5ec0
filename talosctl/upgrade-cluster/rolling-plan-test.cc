#include "talosctl/upgrade-cluster/rolling-plan.h"

#include <gtest/gtest.h>

#include "talosctl/upgrade-cluster/test-survey.h"

namespace talos::talosctl {
namespace {

std::string text(const RollingPlan& plan) {
  auto nodes = KJ_MAP(node, plan.nodes) {
    auto action = node.action == NodeAction::kNone     ? "-"
                  : node.action == NodeAction::kFollow ? "follow"
                                                       : "upgrade";
    return kj::str(node.address, node.controlPlane ? " cp " : " worker ", action);
  };
  return kj::strArray(nodes, ", ").cStr();
}

// Catches: etcd's leader, or the address's holder, before the others; workers in between; a
// finished node that is upgraded again.
TEST(RollingPlan, HolderAndLeaderComeLast) {
  auto survey = modelSurvey();
  EXPECT_EQ(text(planRolling(survey, modelTarget())),
            "10.5.0.4 cp upgrade, 10.5.0.3 cp upgrade, 10.5.0.2 cp upgrade, "
            "10.5.0.5 worker upgrade, 10.5.0.6 worker upgrade");
  setStage(survey.nodes[0], "done");
  setStage(survey.nodes[4], "trying");
  auto plan = planRolling(survey, modelTarget());
  EXPECT_EQ(text(plan),
            "10.5.0.4 cp upgrade, 10.5.0.3 cp upgrade, 10.5.0.6 worker follow, "
            "10.5.0.5 worker upgrade, 10.5.0.2 cp -");
  EXPECT_EQ(plan.changes(), 4u);
}

// Catches: the initial order although another member leads now.
TEST(RollingPlan, TheNextOneIsChosenAnew) {
  auto survey = modelSurvey();
  auto next = [&]() { return nextControlPlaneNode(survey, modelTarget()).orDefault("none"); };
  EXPECT_EQ(next(), "10.5.0.4");
  setStage(survey.nodes[2], "done");
  EXPECT_EQ(next(), "10.5.0.3");
  auto& members = KJ_ASSERT_NONNULL(survey.etcd).members;
  members[0].leader = false, members[1].leader = true;
  EXPECT_EQ(next(), "10.5.0.2");
  setStage(survey.nodes[1], "writing", "v1");
  EXPECT_EQ(next(), "10.5.0.3");
  survey.nodes[1].silence = kj::str("off");
  EXPECT_EQ(next(), "10.5.0.2");
  setStage(survey.nodes[0], "done");
  EXPECT_EQ(next(), "none");
}

// Catches: an upgrade of a node that runs the image; a node that counts as done because another
// image has the same version, or because it has fallen back to this version.
TEST(RollingPlan, WhatANodeRunsDecides) {
  auto survey = modelSurvey();
  auto& node = survey.nodes[0];
  auto target = modelTarget();
  struct Row {
    const char *stage, *version, *digest;
    NodeAction expected;
  } rows[] = {
      {"none", "v1", "", NodeAction::kUpgrade},
      {"none", "v2", "", NodeAction::kNone},  // installed with the image
      {"done", "v2", "", NodeAction::kNone},  // rolled back to the image
      {"done", "v1", "", NodeAction::kUpgrade},
      {"done", "v2", "r/i@sha256:aa", NodeAction::kNone},
      {"done", "v2", "r/i@sha256:bb", NodeAction::kUpgrade},
      {"failed", "v1", "r/i@sha256:aa", NodeAction::kUpgrade},
      {"failed", "v2", "r/i@sha256:aa", NodeAction::kUpgrade},
      {"failed", "v2", "r/i@sha256:bb", NodeAction::kNone},
      {"staged", "v1", "r/i@sha256:aa", NodeAction::kUpgrade},
      {"fetching", "v1", "", NodeAction::kFollow},
      {"writing", "v1", "r/i@sha256:aa", NodeAction::kFollow},
      {"rebooting", "v1", "r/i@sha256:aa", NodeAction::kFollow},
      {"trying", "v2", "r/i@sha256:aa", NodeAction::kFollow},
  };
  for (auto& row : rows) {
    setStage(node, row.stage, row.version);
    KJ_ASSERT_NONNULL(node.upgrade).digest = kj::str(row.digest);
    EXPECT_EQ(actionFor(node, target), row.expected) << row.stage << row.version << row.digest;
  }
}

}  // namespace
}  // namespace talos::talosctl
