#include "kubed/manifests/manifest-reconciler.h"

#include <gtest/gtest.h>

#include "common/etcd/etcd-client.h"
#include "common/wire/test-machined.h"

namespace talos::kubed {
namespace {

// Catches: a kubed that reports nothing as applied after a restart.
TEST(ManifestReconciler, ReportsAppliedManifestsOfAnEarlierProcessWhileItWaits) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  ModelMachined machined(io);
  auto& statuses = machined.kind<rpc::ManifestStatusSpec>();
  statuses.set<rpc::ManifestStatusSpec>("manifests", kOwner, 1, [](auto spec) {
    spec.setMessage("applied");
    spec.initManifestsApplied(1).set(0, "05-flannel");
  });
  machined.kind<rpc::ManifestSpec>().set<rpc::ManifestSpec>(
      "05-flannel", "machined", 1, [](auto spec) { spec.setObjects("[]"); });
  machined.start();

  StoreClient store(*io.lowLevelProvider, timer, machined.socket(), kj::str(kOwner));
  Signal changed;
  TlsEndpoint tls;
  etcd::EtcdClient etcd(*io.lowLevelProvider, timer, tls, Endpoint{Ip::require("127.0.0.1"), 1});
  kj::Function<double()> random = [] { return 0.0; };
  auto make = [](kube::KubeAccess) -> kj::Own<kube::KubeClient> { KJ_UNREACHABLE; };
  KubernetesStoreAdapter adapter(store, tls, kj::mv(make), changed);
  ManifestReconciler reconciler(
      KubedDependencies{
          .timer = timer, .random = random, .store = store, .adapter = adapter, .changed = changed},
      etcd, [] { return ""_kj; });
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  auto deadline = timer.now() + 20 * kj::SECONDS;
  while (statuses.puts == 0 && timer.now() < deadline) {
    timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
  }
  ResourceOf<rpc::ManifestStatusSpec> status(
      KJ_ASSERT_NONNULL(statuses.resources.find("manifests")).get());
  EXPECT_STREQ("waiting for the certificates of Kubernetes", status.getMessage().cStr());
  ASSERT_EQ(1u, status.getManifestsApplied().size());
  EXPECT_STREQ("05-flannel", status.getManifestsApplied()[0].cStr());
}

}  // namespace
}  // namespace talos::kubed
