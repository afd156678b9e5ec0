#include "machined/kubed/join-keeper.h"

#include <gtest/gtest.h>

#include "common/kube/kubeconfig.h"
#include "common/kube/test-kube-server.h"
#include "common/wire/test-machined.h"

namespace talos::kubed {
namespace {

struct Joins : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io};
  kube::ModelKube model{timer};
  StoreClient store{*io.lowLevelProvider, timer, machined.socket(), kj::str(kOwner)};
  // What the server answers.
  unsigned status = 201;
  bool allowed = true;
  std::string askedOf;

  ~Joins() noexcept override {}
  Joins() {
    model.instead = [this](auto&) -> kj::Maybe<kube::ModelKube::Reply> {
      if (status != 201) {
        return kube::ModelKube::Reply{status, R"({"kind":"Status","message":"no"})", ""};
      }
      return kube::ModelKube::Reply{
          status, allowed ? R"({"status":{"allowed":true}})" : R"({"status":{"allowed":false}})",
          ""};
    };
    auto text = kube::writeKubeconfig({.cluster = "local",
                                       .server = "https://lb:7443",
                                       .authority = "CA",
                                       .user = "kubelet",
                                       .credentials = kube::BearerToken{"abcdef.0123456789abcdef"},
                                       .context = "local"});
    machined.kind<rpc::KubeletSecretsSpec>().set<rpc::KubeletSecretsSpec>(
        "kubelet", "machined", 1,
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
  void wish(uint64_t number) {
    auto& kind = machined.kind<rpc::KubeletJoinSpec>();
    auto& held = kind.set<rpc::KubeletJoinSpec>("kubelet", "machined", number,
                                                [&](auto spec) { spec.setNumber(number); });
    kind.tell(number == 1 ? rpc::Change::Event::CREATED : rpc::Change::Event::UPDATED, held.get());
  }
  // "1 yes", "1 no: why", or nothing.
  std::string told() {
    std::string all;
    for (const auto& entry : machined.kind<rpc::KubeletJoinStatusSpec>().resources) {
      auto spec = ResourceOf<rpc::KubeletJoinStatusSpec>(entry.value.get());
      all += kj::str(spec.getNumber(), spec.getAccepted() ? " yes" : " no: ", spec.getMessage())
                 .cStr();
    }
    return all;
  }
  bool eventually(kj::Function<bool()> condition) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (!condition() && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return condition();
  }
};

// Catches: a "yes" of a server that does not know the token, or that knows it and lets nobody ask;
// a question asked again after the "yes", or when nobody wishes to know.
TEST_F(Joins, AsksUntilTheTokenIsOfUse) {
  status = 401;
  JoinKeeper keeper(timer, store, make());
  auto running = keeper.run().eagerlyEvaluate(nullptr);
  EXPECT_TRUE(eventually([&] { return askedOf == "lb:7443 abcdef.0123456789abcdef"; })) << askedOf;
  EXPECT_EQ(model.asked.size(), 0u);
  wish(1);
  EXPECT_TRUE(eventually([&] {
    return told() == "1 no: Kubernetes at model:6443 does not know the token";
  })) << told();
  status = 201;
  allowed = false;
  EXPECT_TRUE(eventually([&] { return told() == "1 no: it may not ask for certificates yet"; }))
      << told();
  allowed = true;
  EXPECT_TRUE(eventually([&] { return told() == "1 yes"; })) << told();
  EXPECT_EQ(model.asked.back().path,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?fieldManager=kubed");
  EXPECT_EQ(model.asked.back().body["spec"]["resourceAttributes"]["resource"],
            "certificatesigningrequests");
  auto asked = model.asked.size();
  timer.afterDelay(2 * kFirstJoinPause).wait(io.waitScope);
  EXPECT_EQ(model.asked.size(), asked);
  wish(2);
  EXPECT_TRUE(eventually([&] { return told() == "2 yes"; })) << told();
  EXPECT_EQ(model.asked.size(), asked + 1);
}

}  // namespace
}  // namespace talos::kubed
