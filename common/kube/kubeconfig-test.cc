#include "common/kube/kubeconfig.h"

#include <gtest/gtest.h>
#include <string.h>

namespace talos::kube {
namespace {

kj::String written(const KubeconfigContent& content) {
  return kj::str(kj::StringPtr(writeKubeconfig(content)));
}

// Catches: a key that kubectl does not know, an order that changes from one writing to the next, a
// name that is not quoted where YAML would read something else.
TEST(Kubeconfig, AnAdminsIsTheWholeFile) {
  EXPECT_EQ(written({.cluster = "c1",
                     .server = "https://10.5.0.1:6443",
                     .authority = "CA",
                     .user = "admin@c1",
                     .credentials = ClientPair{"CERT", "KEY"},
                     .context = "admin@c1",
                     .nameSpace = "default"}),
            R"(apiVersion: v1
kind: Config
clusters:
- name: c1
  cluster:
    server: https://10.5.0.1:6443
    certificate-authority-data: Q0E=
users:
- name: admin@c1
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
contexts:
- name: admin@c1
  context:
    cluster: c1
    namespace: default
    user: admin@c1
current-context: admin@c1
)"_kj);
}

TEST(Kubeconfig, AKubeletBeginsWithATokenAndNoCurrentContext) {
  EXPECT_EQ(written({.cluster = "local",
                     .server = "https://[fd00::1]:6443",
                     .authority = "CA",
                     .user = "kubelet",
                     .credentials = BearerToken{"abcdef.0123456789abcdef"},
                     .context = "local",
                     .current = false}),
            R"(apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: https://[fd00::1]:6443
    certificate-authority-data: Q0E=
users:
- name: kubelet
  user:
    token: abcdef.0123456789abcdef
contexts:
- name: local
  context:
    cluster: local
    user: kubelet
)"_kj);
}

TEST(Kubeconfig, NamesThatYamlWouldReadAsSomethingElseAreQuoted) {
  auto text = written({.cluster = "no",
                       .server = "https://a",
                       .authority = "CA",
                       .user = "12",
                       .credentials = BearerToken{"1e5"},
                       .context = "a: b"});
  for (auto wanted : {"- name: \"no\"\n", "    cluster: \"no\"\n", "- name: \"12\"\n",
                      "    token: \"1e5\"\n", "current-context: \"a: b\"\n"}) {
    EXPECT_NE(strstr(text.cStr(), wanted), nullptr) << wanted << " in\n" << text.cStr();
  }
}

}  // namespace
}  // namespace talos::kube
