// `talosctl upgrade-k8s` for real: a cluster is upgraded from one release to the next, while a
// client writes to its API. $KUBERNETES_IMAGES must have both releases.
#include <gmock/gmock.h>

#include "tests/kubernetes/api-writer.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr const char *kFrom = "1.34.4", *kTo = "1.35.4";
constexpr double kUpgrade = 900;

class KubernetesUpgrade : public KubeHost {
 protected:
  std::unique_ptr<KubeCluster> cluster;
  std::unique_ptr<ApiWriter> writer;

  void TearDown() override {
    writer = nullptr;
    cluster = nullptr;
    KubeHost::TearDown();
  }

  std::vector<std::string> upgrade(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"-n", cluster->nodes[0].address, "upgrade-k8s"});
    return flags;
  }
  // All that an upgrade changes.
  std::string state() const {
    std::string all;
    for (auto& node : cluster->nodes) {
      all += cluster->talos.ok(cluster->at(node, {"get", "mc"}));
    }
    all += cluster->talos.ok(cluster->at(cluster->nodes[0], {"get", "kcpc"}));
    for (auto& line : cluster->each("pods", "{.metadata.name} {.metadata.uid}")) all += line + "\n";
    for (auto& line : cluster->each("daemonsets", "{.metadata.name} {.metadata.generation}")) {
      all += line + "\n";
    }
    return all;
  }
  std::vector<std::string> systemImages() const {
    std::vector<std::string> all;
    for (auto& line : cluster->each("pods", "{.metadata.name} {.spec.containers[0].image}")) {
      for (auto part :
           {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"}) {
        if (contains(line, std::string(part) + "-")) all.push_back(line);
      }
    }
    return all;
  }
  void refuses(std::vector<std::string> flags, const std::string& why) const {
    auto result = cluster->talos.talosctl(upgrade(std::move(flags)), 120);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_THAT(result.out, Not(HasSubstr("updating")));
  }
};

// Catches: a cluster that is changed by an upgrade that cannot be done; a cluster that is not whole
// after an upgrade, or stays half upgraded after an interruption; pods of users that end because of
// it; an answered write that is lost.
TEST_F(KubernetesUpgrade, ToTheNextReleaseWhileAClientWrites) {
  for (auto release : {kFrom, kTo}) {
    TALOS_NEEDS_RELEASE(release);
  }
  // Two releases are on a node's disk, which is memory here (/tmp), and its limit counts that.
  cluster = std::make_unique<KubeCluster>("up", 1, 1, std::vector<std::string>{"--memory", "4096"});
  cluster->awaitSystem();
  cluster->apply(kWebServers);
  cluster->apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " +
                 std::string(ApiWriter::kObject) + "}\n");
  cluster->awaitPods("default", "app=web", 2, kPodsUp);
  if (HasFailure()) return;
  EXPECT_THAT(systemImages(), Each(HasSubstr(kFrom)));

  auto before = state();
  refuses({"--to", "1.35.99"}, "kube-apiserver:v1.35.99");
  refuses({"--to", "1.36.0"}, "from 1.34.4 to 1.36.0");
  refuses({"--to", "1.33.9"}, "from 1.34.4 to 1.33.9");
  refuses({"--from", "1.34.3", "--to", kTo}, "use --from 1.34.4");
  auto dry = cluster->talos.ok(upgrade({"--to", kTo, "--dry-run"}));
  EXPECT_THAT(dry, HasSubstr("kube-scheduler:v1.34.4 -> "));
  EXPECT_EQ(state(), before);

  auto web = webPods(*cluster);
  writer = std::make_unique<ApiWriter>(placeOf(cluster->segment()),
                                       harness::slurp(cluster->kubeconfigPath()));
  EXPECT_TRUE(harness::eventually([&] { return writer->succeeded >= 4; }, 60));
  writer->take();
  std::vector<std::string> flags = {"--from", kFrom, "--to", kTo};
  {
    harness::Background cut(cluster->talos.command(upgrade(flags)));
    EXPECT_TRUE(cut.waitFor(
        [](auto& out, auto&) { return contains(out, "updating \"kube-controller-manager\""); },
        kUpgrade))
        << cut.out() << cut.err();
    EXPECT_NE(cut.interrupt(60), 0);
  }
  auto done = cluster->talos.talosctl(upgrade(flags), kUpgrade);
  auto figures = writer->take();
  fprintf(stderr, "%s%sfrom the cut on %.0f s; calls %u, failed %u, no answer for at most %.1f s\n",
          done.out.c_str(), done.err.c_str(), done.seconds, figures.calls, figures.failed,
          figures.longest);
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.out,
            "discovered master nodes [\"10.5.0.2\"]\n"
            "updating \"kube-apiserver\" to version \"1.35.4\"\n"
            " > updating node \"10.5.0.2\"\n"
            "updating \"kube-controller-manager\" to version \"1.35.4\"\n"
            " > updating node \"10.5.0.2\"\n"
            "updating \"kube-scheduler\" to version \"1.35.4\"\n"
            " > updating node \"10.5.0.2\"\n"
            "updating daemonset \"kube-proxy\" to version \"1.35.4\"\n");
  EXPECT_THAT(done.err, HasSubstr("discovered worker nodes [\"10.5.0.3\"]\n"));
  EXPECT_THAT(done.err, HasSubstr("updating \"kubelet\" to version \"1.35.4\"\n"
                                  " > updating node \"10.5.0.2\"\n"));
  EXPECT_THAT(done.err, HasSubstr(" > updating node \"10.5.0.3\"\n"));

  cluster->awaitSystem();
  EXPECT_THAT(cluster->ok({"version"}), HasSubstr("Server Version: v1.35.4"));
  EXPECT_THAT(cluster->each("nodes", "{.status.nodeInfo.kubeletVersion}"),
              testing::ElementsAre("v1.35.4", "v1.35.4"));
  auto images = systemImages();
  EXPECT_EQ(images.size(), 5u);
  EXPECT_THAT(images, Each(HasSubstr(":v1.35.4")));
  cluster->awaitPods("default", "app=web", 2, kPodsUp);
  auto now = webPods(*cluster);
  ASSERT_EQ(now.size(), web.size());
  for (size_t i = 0; i < web.size(); ++i) EXPECT_EQ(now[i].name, web[i].name);
  checkPodNetwork(*cluster);
  writer->checkWritten(*cluster);

  auto again = cluster->talos.ok(upgrade({"--to", kTo, "-o", "json"}), kUpgrade);
  EXPECT_THAT(harness::lines(again), Each(HasSubstr("\"result\":\"unchanged\"")));
  EXPECT_EQ(harness::lines(again).size(), 6u);
}

constexpr const char* kOldApi =
    "cluster: {apiServer: {extraArgs: {runtime-config: networking.k8s.io/v1beta1=true}}}";
// A webhook whose Service exists and has no server.
constexpr const char* kSilent = R"(apiVersion: v1
kind: Service
metadata: {name: guard, namespace: default}
spec: {selector: {app: guard}, ports: [{port: 443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: guard.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {service: {name: guard, namespace: default}}
  rules: [{operations: [UPDATE], apiGroups: [apps], apiVersions: [v1], resources: [daemonsets]}]
)";

// Catches: an API server whose count of deprecated requests is not read; a webhook without a server
// that the upgrade meets when half of it is done.
TEST_F(KubernetesUpgrade, WhatWouldBreakIsSaidBeforeAnythingChanges) {
  TALOS_NEEDS_RELEASE(kFrom);
  cluster = std::make_unique<KubeCluster>(
      "hazard", 1, 0, std::vector<std::string>{"--config-patch-control-plane", kOldApi});
  cluster->awaitSystem();
  cluster->apply(kSilent);
  if (HasFailure()) return;
  refuses({"--to", kTo, "--dry-run"},
          "the webhook guard.example.org of guard must admit what an upgrade changes, and its "
          "Service default/guard has no ready endpoint");
  auto forced = cluster->talos.talosctl(upgrade({"--to", kTo, "--dry-run", "--force"}), 120);
  EXPECT_EQ(forced.status, 0) << forced.err;
  EXPECT_THAT(forced.err, HasSubstr("warning: Kubernetes 1.35.4 would break this cluster"));
  EXPECT_THAT(forced.err, Not(HasSubstr("v1beta1")));
  cluster->ok({"delete", "validatingwebhookconfiguration", "guard"});
  cluster->ok({"get", "--raw", "/apis/networking.k8s.io/v1beta1/ipaddresses"});
  auto later = cluster->talos.talosctl(upgrade({"--to", kTo, "--dry-run"}), 120);
  EXPECT_EQ(later.status, 0) << later.err;
  EXPECT_THAT(later.err, HasSubstr("for a later upgrade: ipaddresses of networking.k8s.io/v1beta1, "
                                   "which Kubernetes 1."));
}

}  // namespace
}  // namespace talos
