#include "kubed/nodes/api-endpoints-reconciler.h"

#include "kubed/nodes/test-worker.h"

namespace talos::kubed {
namespace {

std::string addressesOf(kj::StringPtr json) {
  return kj::strArray(apiAddressesOf(kube::readJson(json, "the test")), " ").cStr();
}

// Catches: an address that is not ready; an invalid address; another order at each read.
TEST(ApiAddresses, AreTheReadyOnesOfTheObject) {
  EXPECT_EQ("10.5.0.2 10.5.0.3 fd00::4", addressesOf(R"({"subsets": [
      {"addresses": [{"ip": "10.5.0.3"}, {"ip": "10.5.0.2"}, {"ip": "localhost"}, 7],
       "notReadyAddresses": [{"ip": "10.5.0.9"}]},
      {"addresses": [{"ip": "fd00:0::4"}, {"ip": "10.5.0.2"}]}]})"));
  for (auto text : {"{}", R"({"subsets": null})", R"({"subsets": [{"addresses": {}}]})"}) {
    EXPECT_EQ("", addressesOf(text)) << text;
  }
}

// Catches: a port of 70000 that becomes another one; a text taken for a port.
TEST(ApiAddresses, HaveThePortOfTheObject) {
  auto portOf = [](kj::StringPtr ports) {
    return apiPortOf(
        kube::readJson(kj::str(R"({"subsets": [{}, {"ports": )", ports, "}]}"), "the test"));
  };
  EXPECT_EQ(7443, portOf(R"([{"name": "https", "port": 7443}])"));
  for (auto ports : {"[]", R"([{"port": 70000}])", R"([{"port": "6443"}])", R"([{"port": 0}])"}) {
    EXPECT_EQ(0, portOf(ports)) << ports;
  }
}

constexpr kj::StringPtr kObject = "/api/v1/namespaces/default/endpoints/kubernetes"_kj;

struct ApiEndpoints : public TestWorker {
  ApiEndpoints() { model.addKind(kube::coreResource("endpoints", "Endpoints")); }

  void put(kj::StringPtr subsets) {
    model.put(kObject, kube::readJson(kj::str(R"({"metadata": {"name": "kubernetes"}, "subsets": )",
                                              subsets, "}"),
                                      "the test"));
  }
  std::string published() {
    auto& kind = machined.kind<rpc::ApiEndpointsSpec>();
    KJ_IF_MAYBE (found, kind.find(kApiEndpointsId)) {
      ResourceOf<rpc::ApiEndpointsSpec> endpoints(*found);
      return kj::str(kj::strArray(endpoints.getAddresses(), " "), " at ", endpoints.getPort())
          .cStr();
    }
    return "";
  }
};

// Catches: a worker that knows no control-plane node but the endpoint in its config; a worker that
// forgets them when the API server returns no ready address, or does not answer.
TEST_F(ApiEndpoints, AreReadWithTheAccessOfTheKubelet) {
  put(R"([{"addresses": [{"ip": "10.5.0.3"}, {"ip": "10.5.0.2"}], "ports": [{"port": 7443}]}])");
  machined.start();
  Kubed kubed(*this);
  ApiEndpointsReconciler reconciler(kubed.deps);
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  offerCertificate();
  EXPECT_TRUE(eventually([&] { return published() == "10.5.0.2 10.5.0.3 at 7443"; }))
      << published();

  auto reads = [&] { return model.asked.size(); };
  auto before = reads();
  put("[]");
  offerCertificate();
  EXPECT_TRUE(eventually([&] { return reads() > before; }));
  before = reads();
  model.instead = [](auto&) -> kj::Maybe<kube::ModelKube::Reply> {
    return kube::ModelKube::Reply{503, R"({"kind":"Status","message":"no"})", ""};
  };
  offerCertificate();
  EXPECT_TRUE(eventually([&] { return reads() > before; }));
  EXPECT_EQ("10.5.0.2 10.5.0.3 at 7443", published());

  model.instead = [](auto&) { return nullptr; };
  put(R"([{"addresses": [{"ip": "10.5.0.4"}]}])");
  offerCertificate();
  EXPECT_TRUE(eventually([&] { return published() == "10.5.0.4 at 0"; })) << published();
}

}  // namespace
}  // namespace talos::kubed
