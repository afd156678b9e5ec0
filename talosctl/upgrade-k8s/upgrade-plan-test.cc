#include "talosctl/upgrade-k8s/upgrade-plan.h"

#include <gmock/gmock.h>

#include "common/base/error.h"
#include "talosctl/config/patches.h"
#include "talosctl/upgrade-k8s/test-upgrade.h"

namespace talos::talosctl {
namespace {

using testing::HasSubstr;

std::string refusal(kj::Function<void()> act) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { act(); })) {
    return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
  }
  return "";
}

UpgradeIntent intentOf(kj::StringPtr from, kj::StringPtr to, bool kubelets = true) {
  UpgradeIntent intent{.from = nullptr, .to = readRelease(to, "to"), .kubelets = kubelets};
  if (from.size() > 0) intent.from = readRelease(from, "from");
  return intent;
}

std::string refusalOf(const ClusterState& state, kj::StringPtr from, kj::StringPtr to,
                      bool kubelets = true) {
  return refusal([&]() { planUpgrade(intentOf(from, to, kubelets), state); });
}

TEST(UpgradeK8sPlan, ReleasesAsTheyAreTyped) {
  EXPECT_EQ(readRelease("1.35.4", "to").text, "1.35.4");
  EXPECT_EQ(readRelease("v1.35.4", "to").text, "1.35.4");
  EXPECT_EQ(readRelease("v1.35.0-rc.1", "to").text, "1.35.0-rc.1");
  EXPECT_EQ(readRelease("1.35.4", "to").version, (KubernetesVersion{1, 35, 4}));
  // Catches: a tag that no registry has; a text that is a complete reference.
  for (kj::StringPtr word : {"", "v", "1", "1.35", "1.35.x", "latest", "1.35.4/a", "1.35.4+k3s1",
                             "1.35.4 ", "1.35-4.5", "1.35.4-a:b", "1.35.4-a@b"}) {
    auto said = refusal([&]() { readRelease(word, "to"); });
    EXPECT_THAT(said, HasSubstr("InvalidArgument: --to: \"" + std::string(word.cStr()) + "\" is"));
  }
}

TEST(UpgradeK8sPlan, OnlyTheTagOfAnImageChanges) {
  auto to = readRelease("1.35.4", "to");
  auto of = [&](kj::StringPtr image) { return withRelease(image, to, "it", "key"); };
  EXPECT_EQ(of("registry.k8s.io/kube-apiserver:v1.34.4"), "registry.k8s.io/kube-apiserver:v1.35.4");
  EXPECT_EQ(of("10.5.0.1:5000/a/kube-apiserver:v1.34.4-own"),
            "10.5.0.1:5000/a/kube-apiserver:v1.35.4");
  EXPECT_EQ(of("kubelet:1.34.4"), "kubelet:1.35.4");
  for (kj::StringPtr image : {"r/kube-apiserver@sha256:00", "r/kube-apiserver:v1.34.4@sha256:00"}) {
    EXPECT_THAT(refusal([&]() { of(image); }), HasSubstr("named by a digest"));
  }
  for (kj::StringPtr image :
       {"r/kube-apiserver", "r:5000/kube-apiserver", "r/kube-apiserver:own"}) {
    EXPECT_THAT(refusal([&]() { of(image); }), HasSubstr("is not a release"));
  }
}

// Catches: a skipped release, a downgrade, an unknown release; a refusal that does not name both
// releases.
TEST(UpgradeK8sPlan, WhichWaysThereAre) {
  struct Row {
    kj::StringPtr has, to, said;  // empty: the upgrade is allowed
  };
  const Row kRows[] = {
      {"1.19.16", "1.20.6", ""},
      {"1.20.1", "1.20.4", ""},
      {"1.34.4", "1.35.4", ""},
      {"1.34.4", "v1.34.5", ""},
      {"1.34.4", "1.34.4", ""},
      {"1.29.15", "1.30.0", ""},
      {"1.34.4", "1.35.0-rc.1", ""},
      {"1.33.2", "1.35.4",
       "from 1.33.2 to 1.35.4: one minor release at a time; upgrade to 1.34 first"},
      {"1.20.6", "1.30.0",
       "from 1.20.6 to 1.30.0: one minor release at a time, and 1.21 is not supported"},
      {"1.20.6", "1.21.0",
       "from 1.20.6 to 1.21.0: supported releases are 1.19 to 1.20, 1.30 to 1.35"},
      {"1.35.4", "1.36.0", "from 1.35.4 to 1.36.0: supported releases are"},
      {"1.35.4", "2.0.0", "from 1.35.4 to 2.0.0: supported releases are"},
      {"1.35.4", "1.34.4",
       "from 1.35.4 to 1.34.4: kube-apiserver of 10.5.0.2 is 1.35.4, and a downgrade is not "
       "supported; use 1.35.4 or newer"},
      {"1.34.4", "1.34.3", "from 1.34.4 to 1.34.3: kube-apiserver of 10.5.0.2 is 1.34.4"},
  };
  for (auto& row : kRows) {
    auto said = refusalOf(modelCluster(row.has), "", row.to);
    if (row.said.size() == 0) {
      EXPECT_EQ(said, "") << row.has.cStr() << " to " << row.to.cStr();
    } else {
      EXPECT_THAT(said, HasSubstr("FailedPrecondition: cannot upgrade Kubernetes "));
      EXPECT_THAT(said, HasSubstr(row.said.cStr()));
    }
  }
}

// Catches: a part that is left out, or that precedes its API server; a worker's part that precedes
// those of the control plane.
TEST(UpgradeK8sPlan, PartsAndNodesInTheirOrder) {
  auto state = modelCluster("1.34.4");
  auto plan = planUpgrade(intentOf("1.34.4", "1.35.4"), state);
  std::string order;
  for (auto& change : plan.changes) {
    order += kj::str(config::nameOf(change.part), " ", state.nodes[change.node].address, " ",
                     change.image, "\n")
                 .cStr();
    EXPECT_TRUE(change.isChange());
  }
  EXPECT_EQ(order,
            "kube-apiserver 10.5.0.2 registry.k8s.io/kube-apiserver:v1.35.4\n"
            "kube-apiserver 10.5.0.4 registry.k8s.io/kube-apiserver:v1.35.4\n"
            "kube-controller-manager 10.5.0.2 registry.k8s.io/kube-controller-manager:v1.35.4\n"
            "kube-controller-manager 10.5.0.4 registry.k8s.io/kube-controller-manager:v1.35.4\n"
            "kube-scheduler 10.5.0.2 registry.k8s.io/kube-scheduler:v1.35.4\n"
            "kube-scheduler 10.5.0.4 registry.k8s.io/kube-scheduler:v1.35.4\n"
            "kube-proxy 10.5.0.2 registry.k8s.io/kube-proxy:v1.35.4\n"
            "kube-proxy 10.5.0.4 registry.k8s.io/kube-proxy:v1.35.4\n"
            "kubelet 10.5.0.2 ghcr.io/siderolabs/kubelet:v1.35.4\n"
            "kubelet 10.5.0.4 ghcr.io/siderolabs/kubelet:v1.35.4\n"
            "kubelet 10.5.0.3 ghcr.io/siderolabs/kubelet:v1.35.4\n");
  EXPECT_EQ(KJ_ASSERT_NONNULL(plan.daemonSetImage), "registry.k8s.io/kube-proxy:v1.35.4");
  EXPECT_EQ(plan.from, (KubernetesVersion{1, 34, 4}));

  auto some = planUpgrade(intentOf("", "1.35.4", false), state);
  EXPECT_EQ(some.changes.size(), 8u);

  state.proxyImage = nullptr;
  for (auto& node : state.nodes) node.proxy = kj::String();
  EXPECT_EQ(planUpgrade(intentOf("", "1.35.4", false), state).changes.size(), 6u);
  EXPECT_TRUE(planUpgrade(intentOf("", "1.35.4"), state).daemonSetImage == nullptr);
}

// Catches: an interrupted run that is refused when it is started again.
TEST(UpgradeK8sPlan, WhatIsDoneAlreadyIsNoReasonToRefuse) {
  auto state = modelCluster("1.34.4");
  state.nodes[0].apiServer = kj::str("registry.k8s.io/kube-apiserver:v1.35.4");
  for (kj::StringPtr from : {"", "1.34.4"}) {
    auto plan = planUpgrade(intentOf(from, "1.35.4"), state);
    EXPECT_EQ(plan.from, (KubernetesVersion{1, 34, 4}));
    EXPECT_FALSE(plan.changes[0].isChange());
    EXPECT_TRUE(plan.changes[1].isChange());
  }
  auto done = modelCluster("1.35.4");
  auto plan = planUpgrade(intentOf("1.34.4", "1.35.4"), done);
  for (auto& change : plan.changes) EXPECT_FALSE(change.isChange());
  EXPECT_EQ(plan.from, (KubernetesVersion{1, 35, 4}));
}

TEST(UpgradeK8sPlan, FromSaysWhatThereIs) {
  EXPECT_EQ(refusalOf(modelCluster("1.34.4"), "1.34.3", "1.34.5"),
            "FailedPrecondition: --from is 1.34.3 and --to is 1.34.5, but kube-apiserver of "
            "10.5.0.2 is 1.34.4; use --from 1.34.4, or leave it out");
  EXPECT_EQ(refusalOf(modelCluster("1.34.4"), "v1.34.4", "1.34.5"), "");
}

// Catches: an API server that some kubelet can no longer use; a kubelet that is downgraded.
TEST(UpgradeK8sPlan, KubeletsThatAreTooOldOrTooNew) {
  struct Row {
    kj::StringPtr kubelet, has, to;
    bool good;
  };
  const Row kRows[] = {
      {"v1.32.9", "1.34.4", "1.35.4", true},   {"v1.31.9", "1.34.4", "1.35.4", false},
      {"v1.34.9", "1.34.4", "1.34.5", true},   {"v1.35.0", "1.34.4", "1.34.5", false},
      {"v1.18.20", "1.19.16", "1.20.6", true}, {"v1.17.17", "1.19.16", "1.20.6", false}};
  for (auto& row : kRows) {
    auto state = modelCluster(row.has);
    state.nodes[1].kubeletVersion = kj::str(row.kubelet);
    for (bool kubelets : {false, true}) {
      auto said = refusalOf(state, "", row.to, kubelets);
      EXPECT_EQ(said == "", row.good) << row.kubelet.cStr() << " " << said;
      if (!row.good) EXPECT_THAT(said, HasSubstr("10.5.0.3"));
    }
  }
  auto state = modelCluster("1.34.4");
  state.nodes[1].kubelet = kj::str("ghcr.io/siderolabs/kubelet:v1.34.9");
  EXPECT_THAT(refusalOf(state, "", "1.34.5"), HasSubstr("kubelet of 10.5.0.3 is 1.34.9"));
  EXPECT_EQ(refusalOf(state, "", "1.34.5", false), "");
}

TEST(UpgradeK8sPlan, WhatCannotBeUpgradedAtAll) {
  auto state = modelCluster("1.34.4");
  state.nodes[2].persists = false;
  EXPECT_THAT(refusalOf(state, "", "1.35.4"), HasSubstr("10.5.0.4: machine config has persist"));
  EXPECT_EQ(refusalOf(state, "", "1.34.4"), "") << "nothing is changed";

  auto pinned = modelCluster("1.34.4");
  pinned.nodes[0].scheduler = kj::str("r/kube-scheduler@sha256:00");
  pinned.nodes[2].apiServer = kj::str("r/kube-apiserver:own");
  auto both = refusalOf(pinned, "", "1.35.4");
  EXPECT_THAT(both,
              HasSubstr("kube-scheduler of 10.5.0.2: \"r/kube-scheduler@sha256:00\" is named"));
  EXPECT_THAT(both, HasSubstr("(cluster.scheduler.image)"));
  EXPECT_THAT(both, HasSubstr("kube-apiserver of 10.5.0.4"));

  auto proxy = modelCluster("1.34.4");
  proxy.proxyImage = kj::str("r/kube-proxy@sha256:00");
  EXPECT_THAT(refusalOf(proxy, "", "1.35.4"), HasSubstr("the DaemonSet kube-proxy"));

  EXPECT_EQ(refusalOf(ClusterState(), "", "1.35.4"),
            "FailedPrecondition: Kubernetes knows no control-plane node");
}

// Catches: a patch that sets another key, or is not a valid patch.
TEST(UpgradeK8sPlan, ThePatchSetsTheKeyOfThePart) {
  for (auto part : {KubernetesPart::kApiServer, KubernetesPart::kControllerManager,
                    KubernetesPart::kScheduler, KubernetesPart::kProxy, KubernetesPart::kKubelet}) {
    Patch patch{kj::str("patch"), imagePatch(part, "r/x:v1.35.4")};
    auto patched = applyPatches("cluster:\n  apiServer:\n    certSANs: [a]\n", "config",
                                kj::arrayPtr(&patch, 1));
    EXPECT_THAT(patched.cStr(), HasSubstr("certSANs: [a]"));
    EXPECT_THAT(patched.cStr(), HasSubstr("image: r/x:v1.35.4")) << imageKey(part).cStr();
    // Beside a document of the part, the key would be refused.
    auto document = kj::str("cluster: {}\n---\napiVersion: v1alpha1\nkind: ", imageDocument(part),
                            "\nimage: r/x:v1.34.4\n");
    Patch inDocument{kj::str("patch"), imagePatch(part, "r/x:v1.35.4", true)};
    auto changed = applyPatches(document, "config", kj::arrayPtr(&inDocument, 1));
    EXPECT_EQ(kj::str("cluster: {}\n---\napiVersion: v1alpha1\nkind: ", imageDocument(part),
                      "\nimage: r/x:v1.35.4\n"),
              changed);
  }
}

}  // namespace
}  // namespace talos::talosctl
