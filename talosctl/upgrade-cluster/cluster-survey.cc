#include "talosctl/upgrade-cluster/cluster-survey.h"

#include "common/text/texts.h"

namespace talos::talosctl {
namespace {

using Kind = PreflightFinding::Kind;

constexpr kj::StringPtr kRunning = "running"_kj, kMember = "member"_kj;
// Largest size of an archive: 1 GiB (docs/upgrades.md).
constexpr uint64_t kLeastFree = 1ull << 30;
constexpr size_t kMostNamed = 5;

// Lists the first names, and the number of the others.
kj::String listed(kj::ArrayPtr<const kj::String> names) {
  auto shown = names.slice(0, kj::min(names.size(), kMostNamed));
  auto more = names.size() - shown.size();
  return kj::str(kj::strArray(shown, ", "), more > 0 ? kj::str(" and ", more, " more") : kj::str());
}

class Judge {
 public:
  Judge(const ClusterSurvey& survey, const TargetImage& target, const SurveyOptions& options)
      : survey(survey), target(target), options(options) {}

  kj::Vector<PreflightFinding> all() {
    for (auto& node : survey.nodes) judgeNode(node);
    KJ_IF_MAYBE (etcd, survey.etcd) judgeEtcd(*etcd);
    KJ_IF_MAYBE (kubernetes, survey.kubernetes) judgeKubernetes(*kubernetes);
    return kj::mv(findings);
  }

 private:
  const ClusterSurvey& survey;
  const TargetImage& target;
  const SurveyOptions& options;
  kj::Vector<PreflightFinding> findings;

  void stop(kj::StringPtr node, kj::String text, kj::StringPtr remedy) {
    findings.add(PreflightFinding{Kind::kStops, kj::str(node), kj::mv(text), kj::str(remedy)});
  }
  void stopIfItStays(kj::StringPtr node, kj::String text, kj::StringPtr remedy) {
    findings.add(
        PreflightFinding{Kind::kStopsIfItStays, kj::str(node), kj::mv(text), kj::str(remedy)});
  }
  void warn(kj::StringPtr node, kj::String text, kj::StringPtr remedy = "") {
    findings.add(PreflightFinding{Kind::kWarning, kj::str(node), kj::mv(text), kj::str(remedy)});
  }

  // Returns true if the image is the target, or may be: the image of a tag may still be unknown.
  bool isTarget(const UpgradeState& upgrade) const {
    return target.digest.size() == 0 || upgrade.digest == target.digest ||
           (upgrade.digest.size() == 0 && upgrade.image == target.text);
  }
  bool changes(const NodeSurvey& node) const {
    return node.silence == nullptr &&
           (target.digest.size() == 0 || actionFor(node, target) == NodeAction::kUpgrade);
  }

  void judgeNode(const NodeSurvey& node) {
    KJ_IF_MAYBE (why, node.silence) {
      return stopIfItStays(
          node.address, kj::str("it does not answer: ", *why),
          "start it, or repair its network; of a node that is gone for good, remove the "
          "Node object and its member of etcd");
    }
    KJ_IF_MAYBE (upgrade, node.upgrade) {
      judgeUpgradeState(node, *upgrade);
    } else {
      stop(node.address, kj::str("its system does not say which slots it has"),
           "upgrade it by itself with talosctl upgrade");
    }
    for (auto& problem : node.problems) warn(node.address, kj::str(problem));
    if (node.controlPlane && node.etcdPhase != kMember && !isAway(node)) {
      stopIfItStays(node.address,
                    kj::str("its etcd is no voting member (", node.etcdPhase,
                            node.etcdMessage.size() > 0 ? ": " : "", node.etcdMessage, ")"),
                    "see talosctl etcd members");
    }
    KJ_IF_MAYBE (bytes, node.freeBytes) {
      if (*bytes < kLeastFree && changes(node)) {
        warn(node.address, kj::str("/var has only ", *bytes >> 20, " MiB free"),
             "an archive takes up to 1024 MiB there while it is fetched");
      }
    }
  }

  bool isAway(const NodeSurvey& node) const {
    KJ_IF_MAYBE (upgrade, node.upgrade) return upgrade->isUnderWay();
    return false;
  }

  void judgeUpgradeState(const NodeSurvey& node, const UpgradeState& upgrade) {
    if (upgrade.slot.size() == 0) {
      return stop(node.address, kj::str("it has no slots: it was not started from its disk"),
                  "install it first, or create it anew with the other image");
    }
    if (upgrade.isUnderWay()) {
      if (isTarget(upgrade)) return;
      return stop(node.address,
                  kj::str("an upgrade to another image is under way: ", upgrade.stage, " ",
                          upgrade.image, upgrade.reason.size() > 0 ? ": " : "", upgrade.reason),
                  "wait until talosctl get upgradestatus says done or failed");
    }
    if (node.stage != kRunning) {
      stopIfItStays(node.address, kj::str("it is ", node.stage),
                    "wait until talosctl status says running");
    }
    if (upgrade.stage == "staged" && changes(node)) {
      warn(node.address, kj::str("the system that is staged is replaced: ", upgrade.reason));
    }
    if (upgrade.stage == "failed" && target.digest.size() > 0 && upgrade.digest == target.digest) {
      warn(node.address, kj::str("its last upgrade to this image failed: ", upgrade.reason),
           "it is tried again");
    }
  }

  void judgeEtcd(const EtcdSurvey& etcd) {
    constexpr auto kSee = "see talosctl etcd members"_kj;
    if (etcd.problem.size() > 0) {
      return stopIfItStays("", kj::str("the members of etcd are not known: ", etcd.problem), kSee);
    }
    if (!etcd.quorum)
      stopIfItStays("", kj::str("etcd has no quorum"), "start its members; docs: etcd");
    unsigned voters = 0;
    for (auto& member : etcd.members) {
      if (member.learner) {
        stopIfItStays("", kj::str("member ", member.name, " of etcd is a learner"),
                      "wait until it votes, or remove it with talosctl etcd remove-member");
      } else {
        ++voters;
      }
      bool away = false, known = false;
      for (auto& node : survey.nodes) {
        known = known || node.hostname == member.name || node.silence != nullptr;
        away = away || (node.hostname == member.name && isAway(node));
      }
      if (member.problem.size() > 0 && !away) {
        stopIfItStays("",
                      kj::str("member ", member.name, " of etcd does not answer: ", member.problem),
                      "start it, or remove it with talosctl etcd remove-member");
      }
      if (!known) {
        warn("", kj::str("member ", member.name, " of etcd is none of the nodes"),
             "it is not upgraded");
      }
    }
    for (auto& alarm : etcd.alarms) {
      stop("", kj::str("etcd has an alarm: ", alarm),
           "free space with talosctl etcd defrag, then talosctl etcd alarm disarm");
    }
    if (voters == 1 || voters == 2) {
      warn("", kj::str("etcd has ", voters, voters == 1 ? " voter" : " voters",
                       ": while one of them restarts there is no quorum, and nothing is written"));
    }
  }

  void judgeKubernetes(const KubernetesSurvey& kubernetes) {
    if (kubernetes.problem.size() > 0) {
      return stopIfItStays("", kj::str("Kubernetes does not answer: ", kubernetes.problem),
                           "repair it, or use --kubernetes=false with all nodes in --nodes");
    }
    for (auto& part : kubernetes.unread) warn("", kj::str("not known: ", part));
    for (auto& node : survey.nodes) {
      KJ_IF_MAYBE (entry, kubernetes.at(node)) {
        if (!entry->ready && !isAway(node) && node.silence == nullptr) {
          stopIfItStays(node.address, kj::str("its kubelet is not Ready: ", entry->reason),
                        "see talosctl diagnose");
        }
        if (entry->unschedulable && !isAway(node)) {
          warn(node.address, kj::str("it is cordoned"), "it stays so");
        }
      } else {
        warn(node.address, kj::str("it is no node of Kubernetes"), "it is not drained");
      }
    }
    for (auto& node : survey.nodes) {
      if (changes(node)) judgeBudgets(node);
    }
  }

  // Without a reboot no pod leaves its node.
  void judgeBudgets(const NodeSurvey& node) {
    if (options.live) return;
    KJ_IF_MAYBE (why, reasonNotToDrain(survey, node.address)) {
      if (options.ignoreBudgets) {
        warn(node.address, kj::mv(*why), "its pods are ended all the same when it reboots");
      } else {
        stop(node.address, kj::mv(*why),
             "give it another replica or change the budget; or use --ignore-budgets, which ends "
             "the pods with the reboot");
      }
    }
  }
};

}  // namespace

bool UpgradeState::isUnderWay() const {
  return stage == "fetching" || stage == "writing" || stage == "rebooting" ||
         stage == "switching" || stage == "trying";
}

kj::Maybe<const KubernetesSurvey::Node&> KubernetesSurvey::at(const NodeSurvey& node) const {
  for (auto& one : nodes) {
    if (one.address == node.address) return one;
  }
  for (auto& one : nodes) {
    if (node.hostname.size() > 0 && one.name == node.hostname) return one;
  }
  return nullptr;
}

kj::Maybe<const NodeSurvey&> ClusterSurvey::at(kj::StringPtr address) const {
  for (auto& node : nodes) {
    if (node.address == address) return node;
  }
  return nullptr;
}

bool ClusterSurvey::leads(const NodeSurvey& node) const {
  KJ_IF_MAYBE (known, etcd) {
    for (auto& member : known->members) {
      if (member.leader && member.name == node.hostname) return true;
    }
  }
  return false;
}

NodeAction actionFor(const NodeSurvey& node, const TargetImage& target) {
  KJ_IF_MAYBE (upgrade, node.upgrade) {
    bool same = upgrade->digest == target.digest;
    if (upgrade->isUnderWay()) return NodeAction::kFollow;
    if (upgrade->stage == "done" && upgrade->digest.size() > 0) {
      return same ? NodeAction::kNone : NodeAction::kUpgrade;
    }
    // After an installation or a rollback, the node does not report which image it runs.
    bool tried = upgrade->stage == "failed" && same;
    bool runs = target.version.size() > 0 && upgrade->version == target.version;
    return runs && !tried ? NodeAction::kNone : NodeAction::kUpgrade;
  }
  return NodeAction::kUpgrade;
}

kj::String PreflightFinding::line() const {
  return kj::str(node, node.size() > 0 ? ": " : "", text, remedy.size() > 0 ? "; " : "", remedy);
}

kj::Vector<PreflightFinding> judgeSurvey(const ClusterSurvey& survey, const TargetImage& target,
                                         const SurveyOptions& options) {
  return Judge(survey, target, options).all();
}

kj::Vector<PreflightFinding> judgeFetches(kj::ArrayPtr<const FetchOutcome> fetches,
                                          const ClusterSurvey& survey) {
  kj::Vector<PreflightFinding> findings;
  for (auto& one : fetches) {
    if (one.unknown) {
      findings.add(PreflightFinding{Kind::kWarning, kj::str(one.node),
                                    kj::str("its system cannot fetch an image before its upgrade"),
                                    kj::str("it fetches and verifies it in its turn")});
    } else if (one.error.size() > 0) {
      findings.add(PreflightFinding{Kind::kStops, kj::str(one.node),
                                    kj::str("it cannot take the image: ", one.error), kj::str()});
    }
  }
  return findings;
}

kj::Maybe<kj::String> reasonToWait(const ClusterSurvey& survey,
                                   kj::ArrayPtr<const kj::StringPtr> away) {
  kj::Vector<kj::String> reasons;
  uint64_t newest = 0;
  for (auto& node : survey.nodes) newest = kj::max(newest, node.etcdApplied.orDefault(0));
  for (auto& node : survey.nodes) {
    if (contains(away, node.address)) continue;
    KJ_IF_MAYBE (why, node.silence) {
      reasons.add(kj::str(node.address, " does not answer: ", *why));
      continue;
    }
    if (node.stage != kRunning) reasons.add(kj::str(node.address, " is ", node.stage));
    if (node.controlPlane && survey.etcd != nullptr) {
      auto applied = node.etcdApplied.orDefault(0);
      if (node.etcdPhase != kMember) {
        reasons.add(kj::str("etcd of ", node.address, " is no voting member (", node.etcdPhase,
                            node.etcdMessage.size() > 0 ? ": " : "", node.etcdMessage, ")"));
      } else if (node.etcdApplied == nullptr) {
        reasons.add(kj::str("etcd of ", node.address, " does not answer"));
      } else if (newest - applied > kMostEtcdLag) {
        reasons.add(kj::str("etcd of ", node.address, " is ", newest - applied,
                            " entries behind the others"));
      }
    }
    KJ_IF_MAYBE (kubernetes, survey.kubernetes) {
      KJ_IF_MAYBE (entry, kubernetes->at(node)) {
        if (!entry->ready) {
          reasons.add(kj::str("the kubelet of ", node.address, " is not Ready: ", entry->reason));
        }
      }
    }
  }
  KJ_IF_MAYBE (etcd, survey.etcd) {
    if (etcd->problem.size() > 0) {
      reasons.add(kj::str("the members of etcd are not known: ", etcd->problem));
    } else if (!etcd->quorum) {
      reasons.add(kj::str("etcd has no quorum"));
    }
    for (auto& member : etcd->members) {
      if (member.problem.size() > 0) {
        reasons.add(kj::str("member ", member.name, " of etcd does not answer: ", member.problem));
      }
    }
    for (auto& alarm : etcd->alarms) reasons.add(kj::str("etcd has an alarm: ", alarm));
  }
  KJ_IF_MAYBE (kubernetes, survey.kubernetes) {
    if (kubernetes->problem.size() > 0) {
      reasons.add(kj::str("Kubernetes does not answer: ", kubernetes->problem));
    }
  }
  if (reasons.empty()) return nullptr;
  return listed(reasons);
}

kj::Maybe<kj::String> reasonNotToDrain(const ClusterSurvey& survey, kj::StringPtr address) {
  auto& node = KJ_REQUIRE_NONNULL(survey.at(address), address);
  KJ_IF_MAYBE (kubernetes, survey.kubernetes) {
    kj::StringPtr name = node.hostname;
    KJ_IF_MAYBE (entry, kubernetes->at(node)) name = entry->name;
    kj::Vector<kj::String> refusals;
    for (auto& budget : kubernetes->budgets) {
      if (budget.allowed > 0) continue;
      kj::Vector<kj::String> pods;
      for (auto& pod : budget.pods) {
        if (pod.node == name) pods.add(kj::str(pod.name));
      }
      if (pods.empty()) continue;
      refusals.add(kj::str("PodDisruptionBudget ", budget.name, " forbids that ", listed(pods),
                           pods.size() == 1 ? " leaves it now" : " leave it now"));
    }
    if (!refusals.empty()) return listed(refusals);
  }
  return nullptr;
}

}  // namespace talos::talosctl
