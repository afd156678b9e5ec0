// `talosctl upgrade-k8s` on three control-plane nodes with a shared address and two workers, from
// one release to the next, while a client writes twice a second through this address: undisturbed,
// and interrupted at five points, with a reboot and a power cut. $KUBERNETES_IMAGES must have both
// releases.
//
// The figures are printed; only a write that failed twice fails the test.
#include <gmock/gmock.h>

#include <chrono>

#include "tests/kubernetes/api-writer.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::Background;
using harness::contains;
using harness::eventually;
using testing::Each;
using testing::HasSubstr;

constexpr const char *kFrom = "1.34.4", *kTo = "1.35.4";
constexpr double kUpgrade = 1500;  // s; of all nodes, on a busy machine
constexpr double kBack = 420;
// Two releases of the images are on a node while it is upgraded, and here its disk is memory
// (/tmp), which its limit counts.
const std::vector<std::string> kCreate = {"--use-vip", "--memory", "4096"};

class ClusterUpgrade : public KubeHost {
 protected:
  std::unique_ptr<KubeCluster> cluster;
  std::unique_ptr<ApiWriter> writer;

  void TearDown() override {
    writer = nullptr;
    cluster = nullptr;
    KubeHost::TearDown();
  }
  void prepare(const char* name) {
    cluster = std::make_unique<KubeCluster>(name, 3, 2, kCreate);
    cluster->awaitSystem();
    cluster->apply(kWebServers);
    cluster->apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " +
                   std::string(ApiWriter::kObject) + "}\n");
    cluster->awaitPods("default", "app=web", cluster->nodes.size(), kPodsUp);
    if (HasFailure()) return;
    // Scales as an administrator who wants three pods of CoreDNS.
    cluster->ok({"scale", "-n", "kube-system", "deployment", "coredns", "--replicas=3"});
    // Stands for a release with another add-on: an object that differs from the manifests.
    cluster->ok({"patch", "-n", "kube-system", "deployment", "coredns", "--field-manager=talos",
                 "--type=strategic", "-p",
                 "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"coredns\","
                 "\"resources\":{\"limits\":{\"memory\":\"150Mi\"}}}]}}}}"});
    cluster->dnsPods = 3;
    cluster->awaitPods("kube-system", "k8s-app=kube-dns", cluster->dnsPods, kPodsUp);
    writer = std::make_unique<ApiWriter>(placeOf(cluster->segment()),
                                         harness::slurp(cluster->kubeconfigPath()));
    EXPECT_TRUE(eventually([&] { return writer->succeeded >= 4; }, 60));
    writer->take();
  }
  std::vector<std::string> upgrade(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"-n", cluster->nodes[0].address, "upgrade-k8s", "--to", kTo};
    all.insert(all.end(), more.begin(), more.end());
    return cluster->talos.command(all);
  }
  harness::Result whole() const { return harness::run(upgrade(), kUpgrade); }
  void report(const char* what, double seconds) {
    auto figures = writer->take();
    printf(
        "%s: %.0f s; %u writes, %u failed at first, %u twice; none was answered for at most "
        "%.1f s; %s\n",
        what, seconds, figures.calls, figures.failed, figures.lost, figures.longest,
        figures.error.c_str());
    for (auto& line : figures.failures) printf("  %s\n", line.c_str());
    for (auto& node : cluster->nodes) {
      if (figures.lost == 0 || !node.controlPlane) continue;
      printf("%s:\n%s\n", node.address.c_str(),
             cluster->talos.ok(cluster->at(node, {"logs", "vipd"})).c_str());
    }
    fflush(stdout);
    EXPECT_EQ(figures.lost, 0u) << figures.error;
  }
  // Returns CoreDNS's replicas, and the limit of its memory.
  std::string dns() const {
    return cluster->ok({"get", "-n", "kube-system", "deployment", "coredns", "-o",
                        "jsonpath={.spec.replicas} "
                        "{.spec.template.spec.containers[0].resources.limits.memory}"});
  }
  void checkEnd() const;
};

void ClusterUpgrade::checkEnd() const {
  cluster->awaitSystem();
  EXPECT_THAT(cluster->ok({"version"}), HasSubstr("Server Version: v1.35.4"));
  auto kubelets = cluster->each("nodes", "{.status.nodeInfo.kubeletVersion}");
  EXPECT_EQ(kubelets.size(), 5u);
  EXPECT_THAT(kubelets, Each(std::string("v") + kTo));
  size_t parts = 0;
  for (auto& line : cluster->each("pods", "{.metadata.name} {.spec.containers[0].image}")) {
    if (!contains(line, "kube-apiserver-") && !contains(line, "kube-controller-manager-") &&
        !contains(line, "kube-scheduler-") && !contains(line, "kube-proxy-")) {
      continue;
    }
    ++parts;
    EXPECT_THAT(line, HasSubstr(std::string(":v") + kTo));
  }
  EXPECT_EQ(parts, 14u);
  EXPECT_EQ(dns(), "3 170Mi") << "replicas of the administrator, a limit of the manifests";
  cluster->awaitPods("default", "app=web", cluster->nodes.size(), kPodsUp);
  checkPodNetwork(*cluster);
  writer->checkWritten(*cluster);
  auto again = cluster->talos.ok(
      {"-n", cluster->nodes[0].address, "upgrade-k8s", "--to", kTo, "-o", "json"}, kUpgrade);
  EXPECT_THAT(harness::lines(again), Each(HasSubstr("\"result\":\"unchanged\"")));
}

// Catches: an API server that ends before the shared address has left it; an object of the
// manifests that stays as the old release had it, or an administrator's setting that goes with it.
TEST_F(ClusterUpgrade, LosesNoWrite) {
  for (auto release : {kFrom, kTo}) {
    TALOS_NEEDS_RELEASE(release);
  }
  prepare("upgrade");
  if (HasFailure()) return;
  auto dry = harness::run(upgrade({"--dry-run"}), 120);
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("would be updating manifests\n"));
  EXPECT_THAT(dry.out, HasSubstr(" > Deployment kube-system/coredns\n"));
  EXPECT_THAT(dry.out, HasSubstr("memory: 150Mi\n"));
  EXPECT_THAT(dry.out, HasSubstr("kube-proxy:v1.35.4\n"));
  EXPECT_THAT(dry.err, HasSubstr("Deployment kube-system/coredns: .spec.replicas by kubectl"));
  EXPECT_EQ(dns(), "3 150Mi");
  writer->take();
  auto done = whole();
  printf("%s%s", done.out.c_str(), done.err.c_str());
  EXPECT_EQ(done.status, 0);
  report("undisturbed", done.seconds);
  EXPECT_THAT(done.out,
              testing::EndsWith("updating daemonset \"kube-proxy\" to version \"1.35.4\"\n"));
  EXPECT_THAT(done.err, HasSubstr("updating manifests\n > Deployment kube-system/coredns\n"));
  if (!HasFailure()) checkEnd();
}

// Catches: a run that does not find where an earlier one was killed, or that a node which is away
// for a while ends for good.
TEST_F(ClusterUpgrade, ContinuesAfterWhateverCutsItOff) {
  for (auto release : {kFrom, kTo}) {
    TALOS_NEEDS_RELEASE(release);
  }
  prepare("cut");
  if (HasFailure()) return;
  auto& talos = cluster->talos;
  auto& nodes = cluster->nodes;
  double seconds = 0;
  // Kubelets are on stderr, all else on stdout.
  auto isPrinted = [](const std::string& line) {
    return [&line](auto& out, auto& err) { return contains(out, line) || contains(err, line); };
  };
  auto cutAt = [&](const std::string& line, const std::function<void(Background&)>& before) {
    Background run(upgrade());
    before(run);
    EXPECT_TRUE(run.waitFor(isPrinted(line), kUpgrade)) << line << "\n" << run.out() << run.err();
  };
  auto nothing = [](Background&) {};
  auto awaitLine = [&](Background& run, const std::string& line) {
    EXPECT_TRUE(run.waitFor(isPrinted(line), kUpgrade)) << line << "\n" << run.out() << run.err();
  };
  auto begun = std::chrono::steady_clock::now();
  cutAt(" > updating node \"10.5.0.3\"\n", nothing);
  cutAt("updating \"kube-controller-manager\"", nothing);
  cutAt("updating daemonset", [&](Background& run) {
    awaitLine(run, "updating \"kube-scheduler\"");
    auto boot = cluster->bootId(nodes[1]);
    talos.ok(cluster->at(nodes[1], {"reboot"}), kBack);
    EXPECT_TRUE(eventually(
        [&] {
          auto now = cluster->bootId(nodes[1]);
          return now != "" && now != boot;
        },
        kBack, 0.5));
  });
  cutAt("updating \"kubelet\"", nothing);
  // On stderr the reasons for waiting are between the lines.
  cutAt("\"kubelet\" to version", [&](Background& run) {
    EXPECT_TRUE(run.waitFor(
        [](auto&, auto& err) {
          auto heading = err.find("\"kubelet\" to version");
          return heading != std::string::npos &&
                 err.find(" > updating node \"10.5.0.3\"", heading) != std::string::npos;
        },
        kUpgrade))
        << run.out() << run.err();
  });
  // Away at the begin of a run.
  talos.ok({"cluster", "node", "kill", nodes[4].name}, 120);
  auto refused = harness::run(upgrade(), kBack);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr(nodes[4].address));
  EXPECT_THAT(refused.out, testing::Not(HasSubstr("updating")));
  talos.ok({"cluster", "node", "start", nodes[4].name}, 120);
  // The Node object stays Ready for a while after the node's end, so wait for the boot ID first.
  EXPECT_TRUE(eventually([&] { return cluster->bootId(nodes[4]) != ""; }, kBack, 0.5));
  cluster->awaitReady(nodes.size(), kBack);
  {
    Background run(upgrade());
    awaitLine(run, "\"kubelet\" to version");
    talos.ok({"cluster", "node", "kill", nodes[4].name}, 120);
    EXPECT_TRUE(run.waitFor(
        [&](auto&, auto& err) { return contains(err, "retrying error: " + nodes[4].address); },
        kUpgrade))
        << run.out() << run.err();
    talos.ok({"cluster", "node", "start", nodes[4].name}, 120);
    int status = run.finish(kUpgrade);
    printf("with a node that was away for a while: exit status %d\n%s%s", status, run.out().c_str(),
           run.err().c_str());
  }
  auto done = whole();
  printf("%s%s", done.out.c_str(), done.err.c_str());
  EXPECT_EQ(done.status, 0);
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  report("with five kills, a reboot and two power cuts of a worker", seconds);
  if (!HasFailure()) checkEnd();
}

}  // namespace
}  // namespace talos
