#include "kubed/manifests/manifest-reconciler.h"

#include <gtest/gtest.h>

#include "common/etcd/etcd-client.h"
#include "common/etcd/test-etcd.h"
#include "common/kube/kubeconfig.h"
#include "common/kube/test-kube-server.h"
#include "common/tls/pki.h"
#include "tests/models/test-machined.h"

namespace talos::kubed {
namespace {

// Catches: a kubed that reports nothing as applied after a restart.
TEST(ManifestReconciler, ReportsAppliedManifestsOfAnEarlierProcessWhileItWaits) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  ModelMachined machined(io, kKubedUid);
  auto& statuses = machined.kind<rpc::ManifestStatusSpec>();
  statuses.set<rpc::ManifestStatusSpec>("manifests", kOwner, [](auto spec) {
    spec.setMessage("applied");
    spec.initManifestsApplied(1).set(0, "05-flannel");
  });
  machined.kind<rpc::ManifestSpec>().set<rpc::ManifestSpec>(
      "05-flannel", "machined", [](auto spec) { spec.setObjects("[]"); });
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
      etcd);
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  auto deadline = timer.now() + 20 * kj::SECONDS;
  while (statuses.puts == 0 && timer.now() < deadline) {
    timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
  }
  ResourceOf<rpc::ManifestStatusSpec> status(KJ_ASSERT_NONNULL(statuses.find("manifests")));
  EXPECT_STREQ("waiting for the certificates of Kubernetes", status.getMessage().cStr());
  ASSERT_EQ(1u, status.getManifestsApplied().size());
  EXPECT_STREQ("05-flannel", status.getManifestsApplied()[0].cStr());
}

constexpr kj::StringPtr kCoreDns = "/api/v1/namespaces/kube-system/configmaps/coredns"_kj;

// A control-plane node whose manifests have one object. `timer` is moved by the test.
struct AppliedManifests : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& real = io.provider->getTimer();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelMachined machined{io, kKubedUid};
  kube::ModelKube model{real};
  etcd::ModelCluster cluster{real};
  etcd::ModelEtcd etcd{cluster};
  kj::Function<double()> random = [] { return 0.0; };
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "etcd"});

  AppliedManifests() {
    model.addUsualKinds();
    model.instead = [](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
      if (asked.path != "/version") return nullptr;
      return kube::ModelKube::Reply{200, "{}", ""};
    };
    auto kubeconfig = kube::writeKubeconfig({.cluster = "c1",
                                             .server = "https://127.0.0.1:6443",
                                             .authority = "CA",
                                             .user = "u",
                                             .credentials = kube::ClientPair{"CERT", "KEY"},
                                             .context = "c"});
    machined.kind<rpc::KubernetesSecretsSpec>().set<rpc::KubernetesSecretsSpec>(
        "k8s-certs", "machined",
        [&](auto spec) { spec.setAdminKubeconfig(kj::StringPtr(kubeconfig)); });
    machined.kind<rpc::KubeletSecretsSpec>().set<rpc::KubeletSecretsSpec>(
        "kubelet", "machined", [&](auto spec) {
          spec.setBootstrapKubeconfig("users: [{user: {token: abcdef.0123456789abcdef}}]\n");
        });
    machined.kind<rpc::EtcdSecretsSpec>().set<rpc::EtcdSecretsSpec>(
        "client", "machined", [&](auto spec) {
          spec.setCa(authority.certificate.asBytes());
          auto pair = pki::issue(authority.certificate, authority.key, {});
          spec.getClient().setCrt(pair.certificate.asBytes());
          spec.getClient().setKey(pair.key.bytes());
        });
    machined.kind<rpc::BootstrapStatusSpec>().set<rpc::BootstrapStatusSpec>(
        "control-plane", "machined", [](auto) {});
    machined.kind<rpc::HostnameSpecSpec>().set<rpc::HostnameSpecSpec>(
        "hostname", "machined", [](auto spec) { spec.setHostname("m1"); });
    machined.kind<rpc::ManifestSpec>().set<rpc::ManifestSpec>(
        "11-core-dns", "machined", [](auto spec) {
          spec.setObjects(
              "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: coredns, "
              "namespace: kube-system}\n");
        });
    machined.start();
  }
  ~AppliedManifests() noexcept override {}
  std::string message() {
    KJ_IF_MAYBE (found, machined.kind<rpc::ManifestStatusSpec>().find("manifests")) {
      return ResourceOf<rpc::ManifestStatusSpec>(*found).getMessage().cStr();
    }
    return "";
  }
  bool eventually(kj::Function<bool()> so) {
    auto deadline = real.now() + 20 * kj::SECONDS;
    while (!so() && real.now() < deadline) {
      real.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return so();
  }
};

// Catches: an object of the manifests that was deleted and stays away until the next boot; a status
// other than applied because of the check.
TEST_F(AppliedManifests, ADeletedObjectComesBack) {
  StoreClient store(*io.lowLevelProvider, real, machined.socket(), kj::str(kOwner));
  Signal changed;
  TlsEndpoint tls;
  auto make = [this](kube::KubeAccess) {
    return kj::heap<kube::KubeClient>(
        real, [] { return 0.0; }, model.dialer(), kube::ModelKube::access());
  };
  KubernetesStoreAdapter adapter(store, tls, kj::mv(make), changed);
  ManifestReconciler reconciler(
      KubedDependencies{
          .timer = timer, .random = random, .store = store, .adapter = adapter, .changed = changed},
      etcd);
  testing::internal::CaptureStderr();
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  bool done = eventually([&] { return message() == "applied"; });
  auto logged = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(done) << message();
  ASSERT_TRUE(model.find(kCoreDns) != nullptr);
  for (auto line : {"message=\"controller starting\" controller=k8s.ManifestApplyController",
                    "message=\"created /v1/ConfigMap/coredns\" "
                    "controller=k8s.ManifestApplyController"}) {
    EXPECT_NE(logged.find(line), std::string::npos) << logged;
  }
  auto reports = machined.kind<rpc::ManifestStatusSpec>().puts;

  model.drop(kCoreDns);
  auto asked = model.asked.size();
  timer.advanceTo(timer.now() + kCheckAgain - 1 * kj::SECONDS);
  real.afterDelay(10 * kj::MILLISECONDS).wait(io.waitScope);
  EXPECT_EQ(asked, model.asked.size());
  timer.advanceTo(timer.now() + 1 * kj::SECONDS);
  EXPECT_TRUE(eventually([&] { return model.find(kCoreDns) != nullptr; })) << message();
  EXPECT_EQ("applied", message());
  EXPECT_EQ(reports, machined.kind<rpc::ManifestStatusSpec>().puts);
}

// Catches: a manifest that cannot be fetched, and that the status does not mention.
TEST_F(AppliedManifests, SayWhatManifestdCannotFetch) {
  StoreClient store(*io.lowLevelProvider, real, machined.socket(), kj::str(kOwner));
  Signal changed;
  TlsEndpoint tls;
  auto make = [this](kube::KubeAccess) {
    return kj::heap<kube::KubeClient>(
        real, [] { return 0.0; }, model.dialer(), kube::ModelKube::access());
  };
  KubernetesStoreAdapter adapter(store, tls, kj::mv(make), changed);
  ManifestReconciler reconciler(
      KubedDependencies{
          .timer = timer, .random = random, .store = store, .adapter = adapter, .changed = changed},
      etcd);
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  ASSERT_TRUE(eventually([&] { return message() == "applied"; })) << message();
  auto& extras = machined.kind<rpc::ManifestStatusSpec>("extras");
  extras.set<rpc::ManifestStatusSpec>("manifests", "manifestd", [](auto spec) {
    spec.setMessage("cannot read the manifest https://e.example/m: no answer");
  });
  EXPECT_TRUE(eventually([&] {
    return message() == "applied; cannot read the manifest https://e.example/m: no answer";
  })) << message();
  extras.destroy("manifests");
  EXPECT_TRUE(eventually([&] { return message() == "applied"; })) << message();
}

}  // namespace
}  // namespace talos::kubed
