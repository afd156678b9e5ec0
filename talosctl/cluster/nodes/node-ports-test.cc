#include "talosctl/cluster/nodes/node-ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/test-kube-server.h"

namespace talos::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

kube::Json service(kj::StringPtr name, kj::StringPtr ports) {
  return kube::readJson(
      kj::str("{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": \"", name,
              "\", \"namespace\": \"default\"}, \"spec\": {\"ports\": [", ports, "]}}"),
      "test");
}

// Catches: ports of other protocols, of Services without NodePorts, and invalid ports.
TEST(NodePorts, AreThoseOfTcp) {
  EXPECT_THAT(nodePortsOf(service("a",
                                  "{\"port\": 80, \"nodePort\": 30080}, {\"protocol\": \"UDP\", "
                                  "\"nodePort\": 30053}, {\"protocol\": \"TCP\", \"nodePort\": "
                                  "30081}, {\"port\": 90}, {\"nodePort\": 70000}")),
              ElementsAre(30080, 30081));
}

struct Followed : public ::testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  kube::ModelKube model{timer};
  kube::KubeClient client{timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access()};
  std::set<std::pair<size_t, uint16_t>> open;
  bool refuses = false;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> failing;  // for the first port that was opened
  kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> endless;
  NodePorts ports{2, [this](size_t node, uint16_t port) -> kj::Promise<void> {
                    if (refuses) KJ_FAIL_REQUIRE("address in use");
                    auto place = std::make_pair(node, port);
                    open.insert(place);
                    auto end = kj::newPromiseAndFulfiller<void>();
                    if (failing == nullptr)
                      failing = kj::mv(end.fulfiller);
                    else
                      endless.add(kj::mv(end.fulfiller));
                    return end.promise.attach(kj::defer([this, place] { open.erase(place); }));
                  }};

  Followed() {
    model.addUsualKinds();
    model.addKind(kube::coreResource("services", "Service"));
  }
  ~Followed() noexcept override {}
  void put(kj::StringPtr name, kj::StringPtr list) {
    model.put(kj::str("/api/v1/namespaces/default/services/", name), service(name, list));
  }
  void settle() {
    for (int i = 0; i < 20; ++i) timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
  }
};

// Catches: a workload that the host cannot reach, a workload that is reachable after its Service is
// gone, connections that end because another Service changes.
TEST_F(Followed, OpensAndClosesWithTheServices) {
  put("a", "{\"nodePort\": 30080}");
  auto following = ports.follow(client);
  settle();
  EXPECT_THAT(open, ElementsAre(Pair(0, 30080), Pair(1, 30080)));
  put("b", "{\"nodePort\": 30090}");
  settle();
  EXPECT_EQ(open.size(), 4u);
  model.drop("/api/v1/namespaces/default/services/a");
  settle();
  EXPECT_THAT(open, ElementsAre(Pair(0, 30090), Pair(1, 30090)));
  refuses = true;
  put("b", "{\"nodePort\": 30091}");
  settle();
  EXPECT_TRUE(open.empty());
  EXPECT_FALSE(following.poll(io.waitScope)) << "a refused port ends the watch";
  refuses = false;
  put("c", "{\"port\": 80}");
  settle();
  EXPECT_THAT(open, ElementsAre(Pair(0, 30091), Pair(1, 30091)));
}

// Catches: a listener that has failed, and whose port stays closed as long as its Service exists.
TEST_F(Followed, AListenerThatFailedIsOpenedAgain) {
  put("a", "{\"nodePort\": 30080}");
  auto following = ports.follow(client);
  settle();
  ASSERT_EQ(open.size(), 2u);
  KJ_ASSERT_NONNULL(failing)->reject(KJ_EXCEPTION(FAILED, "too many open files"));
  settle();
  EXPECT_THAT(open, ElementsAre(Pair(1, 30080)));
  put("b", "{\"port\": 80}");
  settle();
  EXPECT_THAT(open, ElementsAre(Pair(0, 30080), Pair(1, 30080)));
}

}  // namespace
}  // namespace talos::cluster
