#include "talosctl/cluster/nodes/cluster-kubernetes.h"

#include <gtest/gtest.h>

#include "common/kube/kube-access.h"

namespace talos::cluster {
namespace {

// Catches: a kubeconfig that leads into the nodes' network, where the host is not; one whose server
// cannot be verified.
TEST(LocalKubeconfig, LeadsThroughTheHost) {
  auto authority = pki::makeAuthority({.organization = "kubernetes"});
  kube::ReceivedKubeconfig received{.cluster = kj::str("demo"),
                                    .user = kj::str("admin@demo"),
                                    .context = kj::str("admin@demo"),
                                    .nameSpace = kj::str("default"),
                                    .server = kj::str("https://10.5.0.50:6443"),
                                    .tlsName = {},
                                    .authority = kj::str(authority.certificate),
                                    .certificate = kj::str(authority.certificate),
                                    .key = authority.key.clone()};
  auto text = throughHost(kj::mv(received), "127.7.0.2").text();
  auto access = kube::readAccess(text, "test");
  EXPECT_EQ(access.name(), "127.7.0.2:6443"_kj);
  EXPECT_EQ(access.tlsName, "10.5.0.50"_kj);
  EXPECT_EQ(access.certificate, authority.certificate);
  EXPECT_EQ(kj::StringPtr(access.key), kj::StringPtr(authority.key));
}

}  // namespace
}  // namespace talos::cluster
