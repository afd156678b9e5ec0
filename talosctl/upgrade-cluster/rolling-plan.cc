#include "talosctl/upgrade-cluster/rolling-plan.h"

#include <algorithm>

namespace talos::talosctl {
namespace {

unsigned rankOf(const ClusterSurvey& survey, const NodeSurvey& node, NodeAction action) {
  if (action == NodeAction::kFollow) return 0;
  if (survey.leads(node)) return 3;
  return node.sharedAddresses.empty() ? 1 : 2;
}

}  // namespace

size_t RollingPlan::changes() const {
  size_t count = 0;
  for (auto& node : nodes) count += node.action == NodeAction::kNone ? 0 : 1;
  return count;
}

RollingPlan planRolling(const ClusterSurvey& survey, const TargetImage& target) {
  struct Place {
    const NodeSurvey* node;
    NodeAction action;
    unsigned group, rank;
  };
  kj::Vector<Place> places;
  for (auto& node : survey.nodes) {
    auto action = actionFor(node, target);
    unsigned group = action == NodeAction::kNone ? 2 : node.controlPlane ? 0 : 1;
    unsigned rank = action == NodeAction::kFollow ? 0 : 1;
    if (node.controlPlane) rank = rankOf(survey, node, action);
    places.add(Place{&node, action, group, action == NodeAction::kNone ? 0 : rank});
  }
  std::stable_sort(places.begin(), places.end(), [](auto& a, auto& b) {
    return a.group == b.group ? a.rank < b.rank : a.group < b.group;
  });
  RollingPlan plan;
  for (auto& place : places) {
    auto& node = *place.node;
    plan.nodes.add(
        PlannedNode{kj::str(node.address), node.controlPlane, place.action, kj::str(node.version)});
  }
  return plan;
}

kj::Maybe<kj::StringPtr> nextControlPlaneNode(const ClusterSurvey& survey,
                                              const TargetImage& target) {
  kj::Maybe<kj::StringPtr> best;
  unsigned bestRank = 0;
  for (auto& node : survey.nodes) {
    if (!node.controlPlane || node.silence != nullptr) continue;
    auto action = actionFor(node, target);
    if (action == NodeAction::kNone) continue;
    auto rank = rankOf(survey, node, action);
    if (best != nullptr && rank >= bestRank) continue;
    best = node.address;
    bestRank = rank;
  }
  return best;
}

}  // namespace talos::talosctl
