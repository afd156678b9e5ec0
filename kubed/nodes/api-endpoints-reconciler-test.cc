#include "kubed/nodes/api-endpoints-reconciler.h"

#include <gtest/gtest.h>

#include "common/kube/kubeconfig.h"
#include "common/kube/test-kube-server.h"
#include "common/wire/test-machined.h"
#include "kubed/nodes/kubelet-access.h"

namespace talos::kubed {
namespace {

std::string addressesOf(kj::StringPtr json) {
  return kj::strArray(apiAddressesOf(kube::readJson(json, "the test")), " ").cStr();
}

// Catches: an address that is not ready, one that is none, and another order at each read.
TEST(ApiAddresses, AreTheReadyOnesOfTheObject) {
  EXPECT_EQ("10.5.0.2 10.5.0.3 fd00::4", addressesOf(R"({"subsets": [
      {"addresses": [{"ip": "10.5.0.3"}, {"ip": "10.5.0.2"}, {"ip": "localhost"}, 7],
       "notReadyAddresses": [{"ip": "10.5.0.9"}]},
      {"addresses": [{"ip": "fd00:0::4"}, {"ip": "10.5.0.2"}]}]})"));
  for (auto text : {"{}", R"({"subsets": null})", R"({"subsets": [{"addresses": {}}]})"}) {
    EXPECT_EQ("", addressesOf(text)) << text;
  }
}

constexpr kj::StringPtr kObject = "/api/v1/namespaces/default/endpoints/kubernetes"_kj;

struct ApiEndpoints : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io};
  kube::ModelKube model{timer};
  kj::Function<double()> random = [] { return 0.0; };

  ApiEndpoints() { model.addKind(kube::coreResource("endpoints", "Endpoints")); }
  ~ApiEndpoints() noexcept override {}

  void put(kj::StringPtr subsets) {
    model.put(kObject, kube::readJson(kj::str(R"({"metadata": {"name": "kubernetes"}, "subsets": )",
                                              subsets, "}"),
                                      "the test"));
  }
  void offerCertificate(uint64_t version) {
    auto kubeconfig = kube::writeKubeconfig({.cluster = "local",
                                             .server = "https://127.0.0.1:6443",
                                             .authority = "CA",
                                             .user = "kubelet",
                                             .credentials = kube::ClientPair{"CERT", "KEY"},
                                             .context = "local"});
    auto& kind = machined.kind<rpc::KubeletClientSpec>();
    auto& held = kind.set<rpc::KubeletClientSpec>("kubelet", "machined", version, [&](auto spec) {
      spec.setKubeconfig(kj::StringPtr(kubeconfig));
    });
    kind.publish(version == 1 ? rpc::Change::Event::CREATED : rpc::Change::Event::UPDATED,
                 held.get());
  }
  std::string published() {
    auto& kind = machined.kind<rpc::ApiEndpointsSpec>();
    KJ_IF_MAYBE (found, kind.resources.find(kApiEndpointsId)) {
      ResourceOf<rpc::ApiEndpointsSpec> endpoints(found->get());
      return kj::strArray(endpoints.getAddresses(), " ").cStr();
    }
    return "";
  }
  bool eventually(kj::Function<bool()> so) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (!so() && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return so();
  }
};

// Catches: a worker that knows no control-plane node but the endpoint in its config; one that
// forgets them when the API server has none that is ready, or does not answer.
TEST_F(ApiEndpoints, AreReadWithTheAccessOfTheKubelet) {
  put(R"([{"addresses": [{"ip": "10.5.0.3"}, {"ip": "10.5.0.2"}]}])");
  machined.start();
  StoreClient store(*io.lowLevelProvider, timer, machined.socket(), kj::str(kOwner));
  KubeletAccess access(store, [&](kube::KubeAccess) {
    return kj::heap<kube::KubeClient>(
        timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access());
  });
  WorkerStoreAdapter adapter(store, access);
  ApiEndpointsReconciler reconciler({.timer = timer,
                                     .random = random,
                                     .store = store,
                                     .adapter = adapter,
                                     .changed = access.changes()});
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  offerCertificate(1);
  EXPECT_TRUE(eventually([&] { return published() == "10.5.0.2 10.5.0.3"; })) << published();

  auto reads = [&] { return model.asked.size(); };
  auto before = reads();
  put("[]");
  offerCertificate(2);
  EXPECT_TRUE(eventually([&] { return reads() > before; }));
  before = reads();
  model.instead = [](auto&) -> kj::Maybe<kube::ModelKube::Reply> {
    return kube::ModelKube::Reply{503, R"({"kind":"Status","message":"no"})", ""};
  };
  offerCertificate(3);
  EXPECT_TRUE(eventually([&] { return reads() > before; }));
  EXPECT_EQ("10.5.0.2 10.5.0.3", published());

  model.instead = [](auto&) { return nullptr; };
  put(R"([{"addresses": [{"ip": "10.5.0.4"}]}])");
  offerCertificate(4);
  EXPECT_TRUE(eventually([&] { return published() == "10.5.0.4"; })) << published();
}

}  // namespace
}  // namespace talos::kubed
