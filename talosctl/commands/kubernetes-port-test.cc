// The address of Kubernetes if the server of the kubeconfig does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/test-kube-server.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

struct KubernetesPort : public ::testing::Test {
  TestCluster c;
  ~KubernetesPort() noexcept override {}

  // Returns the output of a command if nothing listens at the server of the kubeconfig.
  std::string said(uint16_t port, std::initializer_list<kj::StringPtr> words = {
                                      "-n", "10.0.0.2,10.0.0.3", "upgrade-k8s", "--to", "1.34.4",
                                      "--timeout", "3s"}) {
    auto leaf = pki::issue(c.authority.certificate, c.authority.key, {.server = false});
    for (auto address : {"10.0.0.2"_kj, "127.0.0.1"_kj}) {
      FakeNode node;
      node.apiServerPort = port;
      node.kubeconfig = kj::str(
          "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: "
          "{cluster: c1, user: a}}]\nclusters: [{name: c1, cluster: {server: "
          "'https://127.0.0.9:443', certificate-authority-data: ",
          TestCluster::base64(c.authority.certificate),
          "}}]\nusers: [{name: a, user: {client-certificate-data: ",
          TestCluster::base64(leaf.certificate),
          ", client-key-data: ", TestCluster::base64(leaf.key), "}}]\n");
      c.nodes.insert(kj::str(address), kj::mv(node));
    }
    EXPECT_EQ(c.run(words), 1);
    c.nodes.clear();
    return c.test.console.takeErr().cStr();
  }
};

// Catches: 6443 used as the port of every API server, and the load balancer's port used as a node's
// port.
TEST_F(KubernetesPort, IsTheOneThatTheEndpointListensOn) {
  EXPECT_THAT(said(4711), HasSubstr("127.0.0.1:4711"));
  auto usual = said(0);
  EXPECT_THAT(usual, HasSubstr("127.0.0.1:6443"));
  EXPECT_THAT(usual,
              HasSubstr("using 10.0.0.2; ignoring 10.0.0.3: Kubernetes lists the other nodes\n"));
}

// Catches: a check from this host that ends at the kubeconfig's server, in a network that the host
// cannot reach; a check that does not name the server that it called.
TEST_F(KubernetesPort, HealthFromThisHostGoesThroughTheEndpoint) {
  auto health = [&](uint16_t port) {
    return said(port, {"-n", "10.0.0.2", "health", "--server=false", "--wait-timeout", "3s"});
  };
  EXPECT_THAT(health(4711), HasSubstr("127.0.0.1:4711"));
  auto leaf = pki::issue(
      c.authority.certificate, c.authority.key,
      {.addresses = kj::arr(kj::str("127.0.0.1"), kj::str("127.0.0.9")), .client = false});
  TlsEndpoint tls({kj::str(c.authority.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)});
  kube::ModelKube model(c.test.deps.timer);
  model.addUsualKinds();
  auto port = freePort();
  auto receiver = c.test.deps.lowLevel.wrapListenSocketFd(listenTcp("127.0.0.1", port));
  auto serve = [&]() -> kj::Promise<void> {
    for (;;) {
      auto accepted = co_await tls.accept(co_await receiver->accept(), kj::str("client"));
      c.serving.add(model.serve(kj::mv(accepted.stream)).eagerlyEvaluate(nullptr));
    }
  };
  auto serving = serve().eagerlyEvaluate(nullptr);
  EXPECT_THAT(health(port),
              HasSubstr(kj::str("asking Kubernetes at 127.0.0.1:", port, "\n").cStr()));
  EXPECT_GT(model.asked.size(), 0u);
  c.serving.clear();
}

}  // namespace
}  // namespace talos::talosctl
