#include "common/kube/kube-access.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/kubeconfig.h"

namespace talos::kube {
namespace {

kj::String accessErrorOf(kj::FunctionParam<void()> work) {
  return messageOf(KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&]() { work(); })));
}

TEST(KubeAccess, ServersAsPeopleWriteThem) {
  auto at = [](kj::StringPtr url) {
    auto server = readServer(url);
    return kj::str(server.host, " ", server.port);
  };
  EXPECT_EQ(at("https://10.5.0.1:6443"), "10.5.0.1 6443"_kj);
  EXPECT_EQ(at("https://kube.example.com/"), "kube.example.com 443"_kj);
  EXPECT_EQ(at("https://[fd00::1]:6443"), "fd00::1 6443"_kj);
  EXPECT_EQ(at("https://[fd00::1]"), "fd00::1 443"_kj);
  for (auto wrong : {"", "http://a", "https://", "https:///", "https://a/b", "https://a:0",
                     "https://a:70000", "https://a:", "https://[x]:1", "https://u@a",
                     "https://a\x1b[2J", "https://a\\b", "https://\"a"}) {
    EXPECT_EQ(
        accessErrorOf([&]() { readServer(wrong); }),
        kj::str("\"", wrong, "\" is not a valid server; use https://HOST or https://HOST:PORT"));
  }
}

// Catches: a writer whose files this reader, or kubectl, does not understand.
TEST(KubeAccess, WrittenKubeconfigIsReadAgain) {
  auto text = writeKubeconfig({.cluster = "c1",
                               .server = "https://[fd00::1]:6443",
                               .authority = "CA",
                               .user = "admin@c1",
                               .credentials = ClientPair{"CERT", "KEY"},
                               .context = "admin@c1",
                               .nameSpace = "default"});
  auto access = readAccess(text, "kubeconfig");
  EXPECT_EQ(access.cluster, "c1"_kj);
  EXPECT_EQ(access.host, "fd00::1"_kj);
  EXPECT_EQ(access.port, 6443);
  EXPECT_EQ(access.tlsName, "fd00::1"_kj);
  EXPECT_EQ(access.authority, "CA"_kj);
  EXPECT_EQ(access.certificate, "CERT"_kj);
  EXPECT_EQ(kj::StringPtr(access.key), "KEY"_kj);
  EXPECT_EQ(access.name(), "[fd00::1]:6443"_kj);

  auto bootstrap = writeKubeconfig({.cluster = "local",
                                    .server = "https://a",
                                    .authority = "CA",
                                    .user = "kubelet",
                                    .credentials = BearerToken{"abcdef.0123456789abcdef"},
                                    .context = "local",
                                    .current = false});
  EXPECT_EQ(accessErrorOf([&]() { readAccess(bootstrap, "f"); }),
            "f: cannot use this kubeconfig: it has no current-context"_kj);
  EXPECT_EQ(kj::StringPtr(readAccess(bootstrap, "f", "local").token), "abcdef.0123456789abcdef"_kj);
}

TEST(KubeAccess, UnusableKubeconfigIsRefusedWithTheReason) {
  auto errorFor = [](kj::StringPtr cluster, kj::StringPtr user) {
    auto text =
        kj::str("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n",
                "clusters: [{name: c, cluster: {server: \"https://a\", ", cluster,
                "}}]\nusers: [{name: u, user: {", user, "}}]\n");
    auto message = accessErrorOf([&]() { readAccess(text, "f"); });
    constexpr kj::StringPtr kPrefix = "f: cannot use this kubeconfig: "_kj;
    EXPECT_TRUE(message.startsWith(kPrefix)) << message.cStr();
    return kj::str(message.slice(kj::min(kPrefix.size(), message.size())));
  };
  constexpr auto kCa = "certificate-authority-data: Q0E="_kj;
  EXPECT_EQ(errorFor("insecure-skip-tls-verify: true", "token: a"),
            "insecure-skip-tls-verify is not supported"_kj);
  EXPECT_EQ(errorFor("certificate-authority: /a/b", "token: a"),
            "its cluster lacks certificate-authority-data"_kj);
  EXPECT_EQ(errorFor("certificate-authority-data: \"!\"", "token: a"),
            "certificate-authority-data is not valid base64"_kj);
  EXPECT_EQ(errorFor(kCa, "exec: {command: aws}"),
            "its user has neither client-certificate-data and client-key-data nor a token"_kj);
  EXPECT_EQ(accessErrorOf([&]() { readAccess("[]", "f"); }), "f: not a kubeconfig"_kj);
  EXPECT_EQ(accessErrorOf([&]() { readAccess("current-context: y\n", "f"); }),
            "f: cannot use this kubeconfig: it has no context \"y\""_kj);
}

}  // namespace
}  // namespace talos::kube
