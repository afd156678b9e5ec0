// The upgrade of the users' documents, with their numbers and as many control planes: skipped when
// $KUBERNETES_IMAGES has not both releases.
#include <gmock/gmock.h>

#include "tests/kubernetes/api-writer.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using testing::ContainsRegex;
using testing::Each;
using testing::HasSubstr;

constexpr const char *kFromPatch = "1.20.1", *kToPatch = "1.20.4";
constexpr double kPatchUpgrade = 1200;  // s; of all nodes, on a busy machine

// Catches: a line of the documents that is not printed, or not in its place, and one more than they
// have; a flag, a field or a path of the API that these releases have not got; an upgrade that
// loses a write.
TEST_F(KubeHost, APatchReleaseByTheCommandOfTheUsersDocuments) {
  for (auto release : {kFromPatch, kToPatch}) {
    TALOS_NEEDS_RELEASE(release);
  }
  // Both releases are on a node's disk, which is memory here (/tmp), and its limit counts that.
  KubeCluster cluster("patch", 3, 1,
                      {"--use-vip", "--memory", "4096", "--kubernetes-version", kFromPatch});
  cluster.awaitSystem();
  if (HasFailure()) return;
  EXPECT_THAT(cluster.ok({"version"}), HasSubstr("v1.20.1"));
  cluster.apply(kWebServers);
  cluster.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " +
                std::string(ApiWriter::kObject) + "}\n");
  cluster.awaitPods("default", "app=web", cluster.nodes.size(), kPodsUp);
  if (HasFailure()) return;
  ApiWriter writer(placeOf(cluster.segment()), harness::slurp(cluster.kubeconfigPath()));
  EXPECT_TRUE(harness::eventually([&] { return writer.succeeded >= 4; }, 60));
  writer.take();

  auto done = cluster.talos.talosctl(
      {"--nodes", cluster.nodes[0].address, "upgrade-k8s", "--from", kFromPatch, "--to", kToPatch},
      kPatchUpgrade);
  auto figures = writer.take();
  printf(
      "%s%s%.0f s; %u writes, %u failed at first, %u twice; none was answered for at most %.1f s; "
      "%s\n",
      done.out.c_str(), done.err.c_str(), done.seconds, figures.calls, figures.failed, figures.lost,
      figures.longest, figures.error.c_str());
  fflush(stdout);
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(figures.lost, 0u) << figures.error;
  EXPECT_EQ(done.out,
            "discovered master nodes [\"10.5.0.2\" \"10.5.0.3\" \"10.5.0.4\"]\n"
            "updating \"kube-apiserver\" to version \"1.20.4\"\n"
            " > updating node \"10.5.0.2\"\n"
            " > updating node \"10.5.0.3\"\n"
            " > updating node \"10.5.0.4\"\n"
            "updating \"kube-controller-manager\" to version \"1.20.4\"\n"
            " > updating node \"10.5.0.2\"\n"
            " > updating node \"10.5.0.3\"\n"
            " > updating node \"10.5.0.4\"\n"
            "updating \"kube-scheduler\" to version \"1.20.4\"\n"
            " > updating node \"10.5.0.2\"\n"
            " > updating node \"10.5.0.3\"\n"
            " > updating node \"10.5.0.4\"\n"
            "updating daemonset \"kube-proxy\" to version \"1.20.4\"\n");
  // The documents are silent about workers and kubelets.
  EXPECT_THAT(done.err, HasSubstr("discovered worker nodes [\"10.5.0.5\"]\n"));
  EXPECT_THAT(done.err, HasSubstr("updating \"kubelet\" to version \"1.20.4\"\n"
                                  " > updating node \"10.5.0.2\"\n"));
  EXPECT_THAT(done.err, HasSubstr(" > updating node \"10.5.0.5\"\n"));
  EXPECT_THAT(done.err, ContainsRegex("[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9:]{8} retrying error: config "
                                      "version mismatch: got \"[0-9]+\", expected \"[0-9]+\"\n"));
  cluster.awaitSystem();
  EXPECT_THAT(cluster.ok({"version"}), HasSubstr("v1.20.4"));
  auto kubelets = cluster.each("nodes", "{.status.nodeInfo.kubeletVersion}");
  EXPECT_EQ(kubelets.size(), 4u);
  EXPECT_THAT(kubelets, Each(std::string("v") + kToPatch));
  cluster.awaitPods("default", "app=web", cluster.nodes.size(), kPodsUp);
  checkPodNetwork(cluster);
  writer.checkWritten(cluster);
}

}  // namespace
}  // namespace talos
