// `talosctl diagnose` on a cluster of Kubernetes that is broken in one way after another.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;

constexpr double kCreated = 420, kNamed = 150;
constexpr const char* kMaster = "10.5.0.2";
constexpr const char* kWorker = "10.5.0.3";

class Patient {
 public:
  explicit Patient(const KubeCluster& cluster) : cluster(cluster) {}

  harness::Result diagnose() const { return cluster.talos.talosctl({"diagnose"}, 120); }

  // What it says as soon as it has these words, with exit status 1.
  std::string names(const std::string& words) const {
    harness::Result last;
    bool named = eventually(
        [&] {
          last = diagnose();
          return last.status == 1 && contains(last.out, words);
        },
        kNamed, 1);
    EXPECT_TRUE(named) << words << "\n" << last.out << last.err;
    return last.out;
  }
  void isWell() const {
    harness::Result last;
    bool well = eventually(
        [&] {
          last = diagnose();
          return last.status == 0;
        },
        kNamed, 1);
    EXPECT_TRUE(well) << last.out << last.err << cluster.overview();
    EXPECT_THAT(last.out, HasSubstr("nothing wrong found"));
  }
  void patch(const std::string& node, const std::string& patch) const {
    cluster.talos.ok({"-n", node, "patch", "mc", "--mode=no-reboot", "-p", patch});
  }

 private:
  const KubeCluster& cluster;
};

// Catches: a cause that is not named on a real cluster, one that is named while nothing is wrong,
// and one that stays when it is mended.
TEST_F(KubeHost, DiagnoseNamesWhatIsBroken) {
  KubeCluster cluster("sick", 1, 1);
  cluster.awaitReady(2, kCreated);
  cluster.awaitPods("kube-system", "k8s-app=kube-dns", 2, kCreated);
  if (HasFailure()) return;
  Patient patient(cluster);
  patient.isWell();

  // A pod of a user whose image is nowhere, and a cordoned node.
  cluster.apply(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n"
      "  - {name: web, image: \"nosuch/web:v9\"}\n");
  patient.names("an image of the pod default/web cannot be pulled");
  cluster.ok({"delete", "pod", "web", "--now"});
  cluster.ok({"cordon", "sick-worker-1"});
  patient.names("the node sick-worker-1 is cordoned");
  cluster.ok({"uncordon", "sick-worker-1"});

  // A manifest that cannot be fetched.
  patient.patch(kMaster, "{\"cluster\": {\"extraManifests\": [\"http://10.5.0.1:9/cni.yaml\"]}}");
  patient.names("the manifest http://10.5.0.1:9/cni.yaml cannot be fetched");
  patient.patch(kMaster, "[{\"op\": \"remove\", \"path\": \"/cluster/extraManifests\"}]");

  // A release of the kubelet that no registry has.
  auto image = cluster.talos.ok({"-n", kWorker, "get", "kubeletspecs", "-o", "yaml"});
  auto begin = image.find("image: ") + 7;
  image = image.substr(begin, image.find('\n', begin) - begin);
  patient.patch(kWorker,
                "{\"machine\": {\"kubelet\": {\"image\": \"registry.k8s.io/kubelet:v1.99.0\"}}}");
  auto told = patient.names("the image of kubelet cannot be pulled");
  EXPECT_THAT(told, HasSubstr("cannot pull \"registry.k8s.io/kubelet:v1.99.0\""));
  patient.patch(kWorker, "{\"machine\": {\"kubelet\": {\"image\": \"" + image + "\"}}}");
  cluster.talos.ok({"-n", kWorker, "service", "kubelet", "restart"});  // it is about to retry
  patient.isWell();

  // An argument that the API server does not know: everything else only follows from it.
  patient.patch(kMaster, "{\"cluster\": {\"apiServer\": {\"extraArgs\": {\"bogus\": \"1\"}}}}");
  told = patient.names("an argument of cluster.apiServer.extraArgs is wrong");
  EXPECT_THAT(told, HasSubstr("unknown flag: --bogus"));
  EXPECT_THAT(told, HasSubstr("1. 10.5.0.2: kube-apiserver does not start"));
  patient.patch(kMaster, "[{\"op\": \"remove\", \"path\": \"/cluster/apiServer/extraArgs\"}]");
  patient.isWell();

  // A node that is gone.
  kill(cluster.talos.process("sick-worker-1"), SIGKILL);
  told = patient.names("10.5.0.3: the node does not answer");
  EXPECT_THAT(told, HasSubstr("not checked on 10.5.0.3: "));
}

}  // namespace
}  // namespace talos
