// The balancer of a node between a model of machined and sockets of the loopback interface.
#include "kubed/balancer/balancer-reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/testing/test-port.h"
#include "common/wire/rpc-server.h"
#include "tests/models/test-machined.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kWantedId = "k8s-loadbalancer-config"_kj, kStateId = "k8s-loadbalancer"_kj;

struct BalancerReconcilerTest : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io, kKubedUid};
  StoreClient store{*io.lowLevelProvider, timer, machined.socket(), kj::str("kubed")};
  bool refuses = false;
  // Every server is this socket, whose connections stay in the backlog.
  kj::AutoCloseFd server = listenTcp("127.0.0.1", 0);
  ApiBalancer::Dial dial = [this](const ApiServer&) -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
    if (refuses) return KJ_EXCEPTION(DISCONNECTED, "refused");
    return connectTo(portOf(server.get()));
  };
  BalancerReconciler reconciler{
      ApiBalancer::Dependencies{.lowLevel = *io.lowLevelProvider,
                                .timer = timer,
                                .clock = kj::systemPreciseMonotonicClock(),
                                .dial = dial},
      store};
  kj::Promise<void> running = nullptr;

  ~BalancerReconcilerTest() noexcept override {}
  BalancerReconcilerTest() {
    machined.start();
    running = reconciler.run().eagerlyEvaluate(nullptr);
  }

  void enable(uint16_t port, kj::StringPtr host = "10.5.0.2") {
    machined.kind<rpc::KubePrismConfigSpec>().set<rpc::KubePrismConfigSpec>(
        kWantedId, "machined", [&](auto spec) {
          spec.setHost("127.0.0.1");
          spec.setPort(port);
          auto endpoint = spec.initEndpoints(1)[0];
          endpoint.setHost(host);
          endpoint.setPort(6443);
        });
  }
  kj::Promise<kj::Own<kj::AsyncIoStream>> connectTo(uint16_t port) {
    auto address = co_await io.provider->getNetwork().parseAddress("127.0.0.1", port);
    co_return co_await address->connect();
  }
  bool accepts(uint16_t port) {
    bool connected = true;
    connectTo(port)
        .then([](auto&&) {}, [&](kj::Exception&&) { connected = false; })
        .wait(io.waitScope);
    return connected;
  }
  // Returns the published state: "7445 healthy 10.5.0.2:6443 message".
  std::string state() {
    KJ_IF_MAYBE (found, machined.kind<rpc::KubePrismStatusSpec>().find(kStateId)) {
      ResourceOf<rpc::KubePrismStatusSpec> status(*found);
      auto servers = KJ_MAP(one, status.getEndpoints()) {
        return kj::str(" ", one.getEndpoint(), one.getUsable() ? "" : " unusable");
      };
      return kj::str(status.getPort(), status.getHealthy() ? " healthy" : "",
                     kj::strArray(servers, ""), " ", status.getMessage())
          .cStr();
    }
    return "none";
  }
  bool eventually(kj::Function<bool()> so) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (!so() && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return so();
  }
  bool becomes(const std::string& expected) {
    return eventually([&] { return state() == expected; });
  }
};

// Catches: a port that stays open after the config has changed or was disabled; a state that
// names the port or the servers of an earlier config.
TEST_F(BalancerReconcilerTest, ListensWhereTheConfigSays) {
  EXPECT_EQ("none", state());
  auto first = freePort();
  enable(first);
  EXPECT_TRUE(becomes(kj::str(first, " healthy 10.5.0.2:6443 ").cStr())) << state();
  EXPECT_TRUE(accepts(first));
  enable(first, "fd00::2");
  EXPECT_TRUE(becomes(kj::str(first, " healthy [fd00::2]:6443 ").cStr())) << state();
  auto second = freePort();
  enable(second);
  EXPECT_TRUE(becomes(kj::str(second, " healthy 10.5.0.2:6443 ").cStr())) << state();
  EXPECT_FALSE(accepts(first));
  EXPECT_TRUE(accepts(second));
  machined.kind<rpc::KubePrismConfigSpec>().destroy(kWantedId);
  EXPECT_TRUE(becomes("none")) << state();
  EXPECT_FALSE(accepts(second));
}

// Catches: "healthy" for a balancer whose port another program has; one that does not try again.
TEST_F(BalancerReconcilerTest, APortInUseIsInTheState) {
  auto port = freePort();
  auto other = listenTcp("127.0.0.1", port);
  enable(port);
  EXPECT_TRUE(eventually([&] { return state() != "none"; }));
  EXPECT_THAT(state(), testing::MatchesRegex("0 cannot listen on 127.0.0.1:[0-9]+: .*in use.*"));
  other = nullptr;
  enable(port, "10.5.0.3");
  EXPECT_TRUE(becomes(kj::str(port, " healthy 10.5.0.3:6443 ").cStr())) << state();
}

// Catches: "healthy" while no server can be reached, or before one was.
TEST_F(BalancerReconcilerTest, ServersThatRefuseAreNotHealthy) {
  refuses = true;
  auto port = freePort();
  enable(port);
  EXPECT_TRUE(becomes(kj::str(port, " 10.5.0.2:6443 no API server has answered yet").cStr()))
      << state();
  for (unsigned i = 0; i < 3; ++i) accepts(port);  // a failure more
  EXPECT_TRUE(becomes(kj::str(port, " 10.5.0.2:6443 unusable no API server is usable").cStr()))
      << state();
}

}  // namespace
}  // namespace talos::kubed
