#include "talosctl/cluster/nodes/cluster-kubernetes.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/kube-access.h"
#include "talosctl/cli/test-console.h"

namespace talos::cluster {
namespace {

// Catches: a kubeconfig with an address in the nodes' network, which the host cannot reach; a
// kubeconfig whose server cannot be verified.
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
  auto text = talosctl::throughHost(kj::mv(received), "127.7.0.2").text();
  auto access = kube::readAccess(text, "test");
  EXPECT_EQ(access.name(), "127.7.0.2:6443"_kj);
  EXPECT_EQ(access.tlsName, "10.5.0.50"_kj);
  EXPECT_EQ(access.certificate, authority.certificate);
  EXPECT_EQ(kj::StringPtr(access.key), kj::StringPtr(authority.key));
}

// Catches: a kubeconfig that is merged into a file that the user's kubectl does not read.
TEST(LocalKubeconfig, GoesWhereKubectlLooks) {
  talosctl::ConsoleFixture test;
  auto root = talosctl::newRoot();
  talosctl::Invocation call(test.deps, *root, *root);
  test.environment.insert(kj::str("HOME"), kj::str("/home/a"));
  EXPECT_EQ(userKubeconfig(call), "/home/a/.kube/config"_kj);
  test.environment.insert(kj::str("KUBECONFIG"), kj::str("/b/first:/b/second"));
  EXPECT_EQ(userKubeconfig(call), "/b/first"_kj);
}

// Catches: a `cluster create` that reports a failure although the cluster is up.
TEST(LocalKubeconfig, ALockIsAWarning) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::String warned;
  auto outcome = [&](ErrorKind kind) {
    kj::Promise<talosctl::StoredKubeconfig> storing = error(kind, "config.lock exists");
    return warnWhenLocked(kj::mv(storing), [&](kj::StringPtr text) { warned = kj::str(text); });
  };
  EXPECT_TRUE(outcome(ErrorKind::kConflict).wait(scope).renames.empty());
  EXPECT_EQ(warned,
            "WARNING: the cluster is up, but its kubeconfig was not merged: config.lock exists\n"
            "merge it with `talosctl kubeconfig`\n"_kj);
  EXPECT_ANY_THROW(outcome(ErrorKind::kPermissionDenied).wait(scope));
}

}  // namespace
}  // namespace talos::cluster
