#include "talosctl/upgrade-cluster/cluster-survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "talosctl/upgrade-cluster/test-survey.h"

namespace talos::talosctl {
namespace {

using testing::HasSubstr;

std::string judged(const ClusterSurvey& survey, const SurveyOptions& options = {},
                   const TargetImage& target = modelTarget()) {
  kj::String all;
  for (auto& finding : judgeSurvey(survey, target, options)) {
    all = kj::str(all, finding.stops() ? "stop " : "warn ", finding.line(), "\n");
  }
  return all.cStr();
}

EtcdSurvey& etcdOf(ClusterSurvey& survey) {
  return KJ_ASSERT_NONNULL(survey.etcd);
}
KubernetesSurvey& kubernetesOf(ClusterSurvey& survey) {
  return KJ_ASSERT_NONNULL(survey.kubernetes);
}

// Catches: a finding although all is well; a finding without a node or a remedy.
TEST(JudgeSurvey, EachThingThatStops) {
  EXPECT_EQ(judged(modelSurvey()), "");
  struct Row {
    kj::Function<void(ClusterSurvey&)> change;
    const char* expected;
  } rows[] = {
      {[](auto& s) { s.nodes[3].silence = kj::str("no answer within 5s"); },
       "stop 10.5.0.5: it does not answer: no answer within 5s; start it, or repair its network; "
       "of "
       "a node that is gone for good, remove the Node object and its member of etcd\n"},
      {[](auto& s) { s.nodes[3].stage = kj::str("booting"); },
       "stop 10.5.0.5: it is booting; wait until talosctl status says running\n"},
      {[](auto& s) { KJ_ASSERT_NONNULL(s.nodes[3].upgrade).slot = kj::str(); },
       "stop 10.5.0.5: it has no slots: it was not started from its disk; install it first, or "
       "create it anew with the other image\n"},
      {[](auto& s) { s.nodes[3].upgrade = nullptr; },
       "stop 10.5.0.5: its system does not say which slots it has; upgrade it by itself with "
       "talosctl upgrade\n"},
      {[](auto& s) {
         setStage(s.nodes[3], "trying");
         KJ_ASSERT_NONNULL(s.nodes[3].upgrade).digest = kj::str("r/i@sha256:bb");
       },
       "stop 10.5.0.5: an upgrade to another image is under way: trying r/i:v2; wait until "
       "talosctl "
       "get upgradestatus says done or failed\n"},
      {[](auto& s) {
         s.nodes[0].etcdPhase = kj::str("learner");
         s.nodes[0].etcdMessage = kj::str("it receives the data");
       },
       "stop 10.5.0.2: its etcd is no voting member (learner: it receives the data); see talosctl "
       "etcd members\n"},
      {[](auto& s) { etcdOf(s).problem = kj::str("no member answers"); },
       "stop the members of etcd are not known: no member answers; see talosctl etcd members\n"},
      {[](auto& s) { etcdOf(s).quorum = false; },
       "stop etcd has no quorum; start its members; docs: etcd\n"},
      {[](auto& s) { etcdOf(s).members[1].problem = kj::str("no answer within 2 s"); },
       "stop member m-2 of etcd does not answer: no answer within 2 s; start it, or remove it with "
       "talosctl etcd remove-member\n"},
      {[](auto& s) { etcdOf(s).alarms.add(kj::str("m-2: NOSPACE")); },
       "stop etcd has an alarm: m-2: NOSPACE; free space with talosctl etcd defrag, then talosctl "
       "etcd alarm disarm\n"},
      {[](auto& s) { kubernetesOf(s).problem = kj::str("connection refused"); },
       "stop Kubernetes does not answer: connection refused; repair it, or use --kubernetes=false "
       "with all nodes in --nodes\n"},
      {[](auto& s) {
         kubernetesOf(s).nodes[4].ready = false;
         kubernetesOf(s).nodes[4].reason = kj::str("KubeletNotReady");
       },
       "stop 10.5.0.6: its kubelet is not Ready: KubeletNotReady; see talosctl diagnose\n"},
  };
  for (auto& row : rows) {
    auto survey = modelSurvey();
    row.change(survey);
    EXPECT_EQ(judged(survey), row.expected);
  }
}

// Catches: a warning that stops the run; a cluster that cannot be upgraded because of a permanent
// property.
TEST(JudgeSurvey, EachThingThatWarns) {
  struct Row {
    kj::Function<void(ClusterSurvey&)> change;
    const char* expected;
  } rows[] = {
      {[](auto& s) { s.nodes[3].problems.add(kj::str("the clock is not synchronised")); },
       "warn 10.5.0.5: the clock is not synchronised\n"},
      {[](auto& s) { s.nodes[3].freeBytes = 300ull << 20; },
       "warn 10.5.0.5: /var has only 300 MiB free; an archive takes up to 1024 MiB there while it "
       "is fetched\n"},
      {[](auto& s) { setStage(s.nodes[3], "staged", "v1"); },
       "warn 10.5.0.5: the system that is staged is replaced: \n"},
      {[](auto& s) { setStage(s.nodes[3], "failed", "v1"); },
       "warn 10.5.0.5: its last upgrade to this image failed: ; it is tried again\n"},
      {[](auto& s) { kubernetesOf(s).nodes[3].unschedulable = true; },
       "warn 10.5.0.5: it is cordoned; it stays so\n"},
      {[](auto& s) {
         kubernetesOf(s).nodes[3].address = kj::str("10.9.9.9");
         kubernetesOf(s).nodes[3].name = kj::str("other");
       },
       "warn 10.5.0.5: it is no node of Kubernetes; it is not drained\n"},
      {[](auto& s) { kubernetesOf(s).unread.add(kj::str("cannot list pods")); },
       "warn not known: cannot list pods\n"},
      {[](auto& s) {
         etcdOf(s).members.add(EtcdSurvey::Member{kj::str("gone"), kj::str(), false, false});
       },
       "warn member gone of etcd is none of the nodes; it is not upgraded\n"},
  };
  for (auto& row : rows) {
    auto survey = modelSurvey();
    row.change(survey);
    EXPECT_EQ(judged(survey), row.expected);
  }
  EXPECT_THAT(judged(modelSurvey(1, 0)), HasSubstr("warn etcd has 1 voter: while one of them"));
  EXPECT_THAT(judged(modelSurvey(2, 0)), HasSubstr("warn etcd has 2 voters: while one of them"));
}

// Catches: a run that cannot continue because a node is in the middle of its upgrade.
TEST(JudgeSurvey, ANodeOnTrialForThisImageIsNoProblem) {
  auto survey = modelSurvey();
  setStage(survey.nodes[1], "trying");
  survey.nodes[1].stage = kj::str("booting");
  survey.nodes[1].etcdPhase = kj::str("joining");
  survey.nodes[1].etcdApplied = nullptr;
  etcdOf(survey).members[1].problem = kj::str("refused");
  kubernetesOf(survey).nodes[1].ready = false;
  EXPECT_EQ(judged(survey), "");
  // The image of a tag may still be unknown.
  EXPECT_EQ(judged(survey, {}, {kj::str("r/i:v2"), kj::str(), kj::str()}), "");
}

// Catches: a budget without room that is not found; a budget whose pods are on other nodes, or on
// an upgraded node; a budget that cannot be overridden.
TEST(JudgeSurvey, ABudgetThatForbidsTheDrainIsNamedWithItsPods) {
  auto survey = modelSurvey();
  auto& budget = kubernetesOf(survey).budgets.add();
  budget.name = kj::str("a/quorum");
  for (int i = 1; i < 8; ++i) {
    budget.pods.add(KubernetesSurvey::Budget::Pod{kj::str("p-", i), kj::str("w-2")});
  }
  EXPECT_EQ(judged(survey),
            "stop 10.5.0.6: PodDisruptionBudget a/quorum forbids that p-1, p-2, p-3, p-4, p-5 and "
            "2 more leave it now; give it another replica or change the budget; or use "
            "--ignore-budgets, which ends the pods with the reboot\n");
  EXPECT_THAT(judged(survey, {.ignoreBudgets = true}), HasSubstr("warn 10.5.0.6: PodDisruption"));
  EXPECT_TRUE(reasonNotToDrain(survey, "10.5.0.5") == nullptr);
  setStage(survey.nodes[4], "done");
  EXPECT_EQ(judged(survey), "");
  setStage(survey.nodes[4], "none", "v1");
  budget.allowed = 1;
  EXPECT_EQ(judged(survey), "");
}

// Catches: a node that is upgraded while another node is unhealthy; a wait for the node that is
// itself being upgraded.
TEST(ReasonToWait, SaysWhatIsMissing) {
  auto wait = [](const ClusterSurvey& survey, kj::ArrayPtr<const kj::StringPtr> away = nullptr) {
    return std::string(reasonToWait(survey, away).orDefault(kj::str("-")).cStr());
  };
  EXPECT_EQ(wait(modelSurvey()), "-");
  auto survey = modelSurvey();
  survey.nodes[2].etcdApplied = 1;
  EXPECT_EQ(wait(survey), "etcd of 10.5.0.4 is 999 entries behind the others");
  survey.nodes[2].etcdApplied = 1000 - kMostEtcdLag;
  EXPECT_EQ(wait(survey), "-");
  survey.nodes[2].etcdApplied = nullptr;
  EXPECT_EQ(wait(survey), "etcd of 10.5.0.4 does not answer");
  kubernetesOf(survey).nodes[3].ready = false;
  EXPECT_EQ(wait(survey),
            "etcd of 10.5.0.4 does not answer, the kubelet of 10.5.0.5 is not Ready: KubeletReady");
  EXPECT_EQ(wait(survey, {"10.5.0.4"_kj, "10.5.0.5"_kj}), "-");
  survey = modelSurvey();
  etcdOf(survey).quorum = false;
  survey.nodes[3].silence = kj::str("off");
  survey.nodes[4].stage = kj::str("booting");
  EXPECT_EQ(wait(survey), "10.5.0.5 does not answer: off, 10.5.0.6 is booting, etcd has no quorum");
}

// Catches: an image that one node refuses and that is written to the others; an older system that
// cannot be called and stops the run.
TEST(JudgeFetches, ARefusalStops) {
  FetchOutcome outcomes[3];
  outcomes[0].node = kj::str("10.5.0.2"), outcomes[0].digest = kj::str("x");
  outcomes[1].node = kj::str("10.5.0.3"), outcomes[1].error = kj::str("no space left on device");
  outcomes[2].node = kj::str("10.5.0.4"), outcomes[2].unknown = true;
  auto survey = modelSurvey();
  auto found = judgeFetches(outcomes, survey);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].stops());
  EXPECT_EQ(found[0].line(), "10.5.0.3: it cannot take the image: no space left on device");
  EXPECT_FALSE(found[1].stops());
  EXPECT_EQ(found[1].line(),
            "10.5.0.4: its system cannot fetch an image before its upgrade; it "
            "fetches and verifies it in its turn");
}

}  // namespace
}  // namespace talos::talosctl
