// Where Kubernetes is looked for when the server of the kubeconfig does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

struct KubernetesPort : public ::testing::Test {
  TestCluster c;
  ~KubernetesPort() noexcept override {}

  // The output of upgrade-k8s where nothing listens for Kubernetes.
  std::string said(uint16_t port) {
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
    EXPECT_EQ(
        c.run({"-n", "10.0.0.2,10.0.0.3", "upgrade-k8s", "--to", "1.34.4", "--timeout", "3s"}), 1);
    c.nodes.clear();
    return c.test.console.takeErr().cStr();
  }
};

// Catches: 6443 taken for the port of every API server, and the balancer's port for a node's.
TEST_F(KubernetesPort, IsTheOneThatTheEndpointListensOn) {
  EXPECT_THAT(said(4711), HasSubstr("127.0.0.1:4711"));
  auto usual = said(0);
  EXPECT_THAT(usual, HasSubstr("127.0.0.1:6443"));
  EXPECT_THAT(usual,
              HasSubstr("using 10.0.0.2; ignoring 10.0.0.3: Kubernetes lists the other nodes\n"));
}

}  // namespace
}  // namespace talos::talosctl
