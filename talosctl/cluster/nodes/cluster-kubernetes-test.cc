#include "talosctl/cluster/nodes/cluster-kubernetes.h"

#include <gtest/gtest.h>

#include "common/kube/kube-access.h"
#include "common/kube/kubeconfig.h"

namespace talos::cluster {
namespace {

// Catches: a kubeconfig that leads into the nodes' network, where the host is not; one whose server
// cannot be verified.
TEST(LocalKubeconfig, LeadsThroughTheHost) {
  auto authority = pki::makeAuthority({.organization = "kubernetes"});
  auto text =
      kube::writeKubeconfig({.cluster = "demo",
                             .server = "https://10.5.0.50:6443",
                             .authority = authority.certificate,
                             .user = "admin@demo",
                             .credentials = kube::ClientPair{authority.certificate, authority.key},
                             .context = "admin@demo",
                             .nameSpace = "default"});
  auto access = kube::readAccess(throughHost(text, "127.7.0.2"), "test");
  EXPECT_EQ(access.name(), "127.7.0.2:6443"_kj);
  EXPECT_EQ(access.tlsName, "10.5.0.50"_kj);
  EXPECT_EQ(access.certificate, authority.certificate);
  EXPECT_EQ(kj::StringPtr(access.key), kj::StringPtr(authority.key));
}

}  // namespace
}  // namespace talos::cluster
