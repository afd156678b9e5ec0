#include "kubed/nodes/kubelet-join-reconciler.h"

#include <gtest/gtest.h>

#include "common/kube/kubeconfig.h"
#include "common/kube/test-kube-server.h"
#include "tests/models/test-machined.h"

namespace talos::kubed {
namespace {

JoinProgress progressOfStatus(kj::StringPtr status) {
  return progressOf(kube::readJson(
      kj::str(R"({"metadata": {"name": "node-csr-1"}, "status": )", status, "}"), "the test"));
}

// Catches: an existing certificate that is not taken; a message that does not say that the request
// waits for an administrator.
TEST(JoinProgress, IsWhatTheRequestSays) {
  EXPECT_EQ("the request node-csr-1 is not approved yet", progressOfStatus("{}").message);
  EXPECT_EQ("the request node-csr-1 is approved and not signed yet",
            progressOfStatus(R"({"conditions": [{"type": "Approved"}]})").message);
  EXPECT_EQ(
      "the request node-csr-1 was denied: not yours",
      progressOfStatus(R"({"conditions": [{"type": "Denied", "message": "not yours"}]})").message);
  EXPECT_EQ("the request node-csr-1 could not be signed: why",
            progressOfStatus(
                R"({"conditions": [{"type": "Approved"}, {"type": "Failed", "message": "why"}]})")
                .message);
  EXPECT_EQ("CERT",
            progressOfStatus(R"({"conditions": [{"type": "Approved"}], "certificate": "Q0VSVA=="})")
                .certificate);
  EXPECT_EQ("", progressOfStatus(R"({"conditions": 1, "certificate": {}})").certificate);
}

struct Joins : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io, kKubedUid};
  kube::ModelKube model{timer};
  StoreClient store{*io.lowLevelProvider, timer, machined.socket(), kj::str(kOwner)};
  unsigned refusal = 0;  // status of each answer; 0 if it serves requests
  std::string askedOf;
  std::string path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

  ~Joins() noexcept override {}
  Joins() {
    model.addKind(kube::certificateRequests());
    model.instead = [this](auto&) -> kj::Maybe<kube::ModelKube::Reply> {
      if (refusal == 0) return nullptr;
      return kube::ModelKube::Reply{refusal, R"({"kind":"Status","message":"no"})", ""};
    };
    auto text = kube::writeKubeconfig({.cluster = "local",
                                       .server = "https://lb:7443",
                                       .authority = "CA",
                                       .user = "kubelet",
                                       .credentials = kube::BearerToken{"abcdef.0123456789abcdef"},
                                       .context = "local"});
    machined.kind<rpc::KubeletSecretsSpec>().set<rpc::KubeletSecretsSpec>(
        "kubelet", "machined",
        [&](auto spec) { spec.setBootstrapKubeconfig(kj::StringPtr(text)); });
    machined.start();
  }
  SharedKube::Make make() {
    return [this](kube::KubeAccess access) {
      askedOf = kj::str(access.name(), " ", kj::StringPtr(access.token)).cStr();
      return kj::heap<kube::KubeClient>(
          timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access());
    };
  }
  void request(uint64_t number, kj::StringPtr request) {
    machined.kind<rpc::KubeletJoinSpec>().set<rpc::KubeletJoinSpec>(
        "kubelet", "machined", [&](auto spec) {
          spec.setNumber(number);
          spec.setRequest(request);
          spec.setNodeCertificate("CERTIFICATE");
          spec.setNodeSignature("SIGNATURE"_kj.asBytes());
        });
  }
  static std::string nameFor(kj::StringPtr request) {
    capnp::MallocMessageBuilder message;
    auto join = message.initRoot<rpc::KubeletJoinSpec>();
    join.setRequest(request);
    join.setNodeCertificate("CERTIFICATE");
    return requestName(join).cStr();
  }
  std::string pathOf(kj::StringPtr request) { return path + "/" + nameFor(request); }
  // "1 waiting MESSAGE", "1 issued CERT", or nothing.
  std::string reported() {
    std::string all;
    for (auto resource : machined.kind<rpc::KubeletJoinStatusSpec>().all()) {
      auto spec = ResourceOf<rpc::KubeletJoinStatusSpec>(resource);
      all += kj::str(spec.getNumber(), " ", spec.getState(), " ", spec.getMessage(),
                     spec.getCertificate())
                 .cStr();
    }
    return all;
  }
  ::testing::AssertionResult reports(const std::string& wanted) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (reported() != wanted && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    if (reported() == wanted) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << reported();
  }
};

// Catches: a worker that waits for seconds for an existing certificate; a worker that polls an
// unreachable API server twice a second for days.
TEST(JoinPause, IsShortAtFirst) {
  EXPECT_EQ(nextJoinPause(kFirstJoinPause, 0 * kj::SECONDS), 500 * kj::MILLISECONDS);
  EXPECT_EQ(nextJoinPause(500 * kj::MILLISECONDS, 29 * kj::SECONDS), 500 * kj::MILLISECONDS);
  EXPECT_EQ(nextJoinPause(500 * kj::MILLISECONDS, 30 * kj::SECONDS), 1 * kj::SECONDS);
  EXPECT_EQ(nextJoinPause(2 * kj::SECONDS, 1 * kj::HOURS), 2 * kj::SECONDS);
}

// Catches: a request in a form that is never signed; a second request with each try; a certificate
// that is requested again when it exists, or when machined requests none.
TEST_F(Joins, AsksUntilThereIsACertificate) {
  refusal = 401;
  KubeletJoinReconciler reconciler(timer, store, make());
  auto running = reconciler.run().eagerlyEvaluate(nullptr);
  timer.afterDelay(2 * kFirstJoinPause).wait(io.waitScope);
  EXPECT_EQ(model.asked.size(), 0u);
  request(1, "PKCS10");
  EXPECT_TRUE(reports("1 waiting Kubernetes at model:6443 does not know the bootstrap token yet"));
  EXPECT_EQ(askedOf, "lb:7443 abcdef.0123456789abcdef");
  refusal = 403;
  EXPECT_TRUE(
      reports("1 waiting Kubernetes at model:6443 does not let the bootstrap token create the "
              "request yet"));
  refusal = 0;
  auto name = nameFor("PKCS10");
  EXPECT_TRUE(reports("1 waiting the request " + name + " is not approved yet"));
  auto object = kube::Json(KJ_ASSERT_NONNULL(model.find(pathOf("PKCS10").c_str())));
  EXPECT_EQ(object["spec"]["request"], "UEtDUzEw");
  EXPECT_EQ(object["metadata"]["annotations"]["talos.dev/node-certificate"], "CERTIFICATE");
  EXPECT_EQ(object["metadata"]["annotations"]["talos.dev/node-signature"], "U0lHTkFUVVJF");
  EXPECT_EQ(object["spec"]["signerName"], "kubernetes.io/kube-apiserver-client-kubelet");
  EXPECT_EQ(object["spec"]["usages"].dump(),
            R"(["key encipherment","digital signature","client auth"])");
  object["status"]["certificate"] = "Q0VSVA==";
  model.put(pathOf("PKCS10").c_str(), object);
  EXPECT_TRUE(reports("1 issued CERT"));
  EXPECT_EQ(model.count(), 1u);
  auto asked = model.asked.size();
  timer.afterDelay(2 * kFirstJoinPause).wait(io.waitScope);
  EXPECT_EQ(model.asked.size(), asked);
  request(2, "OTHER");
  EXPECT_TRUE(reports("2 waiting the request " + nameFor("OTHER") + " is not approved yet"));
}

}  // namespace
}  // namespace talos::kubed
