#include "common/kube/received-kubeconfig.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"

namespace talos::kube {
namespace {

class ReceivedKubeconfigTest : public testing::Test {
 protected:
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "kubernetes"});
  pki::CertificateAndKey admin =
      pki::issue(authority.certificate, authority.key, {.commonName = "admin", .server = false});
  Json document = kj::mv(readYaml(kj::StringPtr(fromNode()), "test")[0]);

  ~ReceivedKubeconfigTest() noexcept override {}

  pki::Pem fromNode(kj::StringPtr nameSpace = "default") {
    return writeKubeconfig({.cluster = "c1",
                            .server = "https://10.5.0.1:6443",
                            .authority = authority.certificate,
                            .user = "admin@c1",
                            .credentials = ClientPair{admin.certificate, admin.key},
                            .context = "admin@c1",
                            .nameSpace = nameSpace});
  }
  Json& cluster() { return document["clusters"][0]["cluster"]; }
  Json& user() { return document["users"][0]["user"]; }
  Json& context() { return document["contexts"][0]["context"]; }
  static std::string base64(kj::StringPtr text) { return kj::encodeBase64(text.asBytes()).cStr(); }

  kj::String read(const Json& from) {
    auto failed = kj::runCatchingExceptions(
        [&]() { readReceivedKubeconfig(writeYaml(from), "the kubeconfig"); });
    KJ_IF_MAYBE (e, failed) return messageOf(*e);
    return kj::str("accepted");
  }
  // Returns the error with this change, which must not occur without it.
  kj::String errorWith(kj::FunctionParam<void()> change) {
    auto before = document;
    change();
    auto error = read(document);
    document = kj::mv(before);
    EXPECT_EQ(read(document), "accepted"_kj);
    constexpr kj::StringPtr kPrefix = "the kubeconfig is refused: "_kj;
    EXPECT_TRUE(error.startsWith(kPrefix)) << error.cStr();
    return kj::str(error.slice(kj::min(kPrefix.size(), error.size())));
  }
};

// Catches: a text that changes on its way, and is then taken for another cluster's by a merge.
TEST_F(ReceivedKubeconfigTest, WhatANodeWritesIsWrittenAgain) {
  for (auto nameSpace : {"default", ""}) {
    auto text = fromNode(nameSpace);
    auto received = readReceivedKubeconfig(text, "f");
    EXPECT_EQ(kj::StringPtr(received.text()), kj::StringPtr(text));
    auto direct = received.access(), read = readAccess(text, "f");
    EXPECT_EQ(direct.name(), read.name());
    EXPECT_EQ(direct.tlsName, read.tlsName);
    EXPECT_EQ(direct.authority, read.authority);
    EXPECT_EQ(direct.certificate, read.certificate);
    EXPECT_EQ(kj::StringPtr(direct.key), kj::StringPtr(read.key));
  }
}

// Catches: a program that kubectl runs, a file that it sends, a proxy that it uses, a server that
// it does not verify.
TEST_F(ReceivedKubeconfigTest, AKeyOfAnotherKindIsNamed) {
  constexpr kj::StringPtr kRule =
      ": a node must not set this key; a kubeconfig from a node has the server, its CA, a "
      "certificate with its key, and names"_kj;
  struct Key {
    Json& at;
    kj::StringPtr path, name;
  };
  Key keys[] = {{user(), "users[0].user.", "exec"},
                {user(), "users[0].user.", "auth-provider"},
                {user(), "users[0].user.", "tokenFile"},
                {user(), "users[0].user.", "token"},
                {user(), "users[0].user.", "client-key"},
                {user(), "users[0].user.", "client-certificate"},
                {user(), "users[0].user.", "as"},
                {user(), "users[0].user.", "username"},
                {cluster(), "clusters[0].cluster.", "proxy-url"},
                {cluster(), "clusters[0].cluster.", "insecure-skip-tls-verify"},
                {cluster(), "clusters[0].cluster.", "certificate-authority"},
                {cluster(), "clusters[0].cluster.", "tls-server-name"},
                {context(), "contexts[0].context.", "extensions"},
                {document["users"][0], "users[0].", "x"},
                {document, "", "preferences"},
                {document, "", "extensions"}};
  for (auto& key : keys) {
    auto path = kj::str(key.path, key.name);
    key.at[key.name.cStr()] = "x";
    EXPECT_EQ(read(document), kj::str("the kubeconfig is refused: ", path, kRule));
    key.at.erase(key.name.cStr());
    EXPECT_EQ(read(document), "accepted"_kj) << path.cStr();
  }
  EXPECT_EQ(errorWith([&]() { document["a\x1b[2J\xc2\x9b"] = 1; }), kj::str("a?[2J?", kRule));
}

TEST_F(ReceivedKubeconfigTest, EachValueIsChecked) {
  EXPECT_EQ(errorWith([&]() { cluster()["server"] = "http://10.5.0.1:6443"; }),
            "clusters[0].cluster.server: is not a valid server; use https://HOST:PORT, or "
            "https://HOST:PORT/PATH of letters, digits and -._~%"_kj);
  EXPECT_EQ(errorWith([&]() { cluster()["server"] = 7; }),
            "clusters[0].cluster.server: is missing or not a text"_kj);
  EXPECT_TRUE(errorWith([&]() {
                cluster()["certificate-authority-data"] = base64("CA");
              }).startsWith("clusters[0].cluster.certificate-authority-data: "));
  EXPECT_EQ(errorWith([&]() { user()["client-key-data"] = "!"; }),
            "users[0].user.client-key-data: is not valid base64"_kj);
  EXPECT_TRUE(errorWith([&]() {
                user()["client-key-data"] = base64(authority.key);
              }).startsWith("users[0].user: "));
  EXPECT_EQ(errorWith([&]() { document["current-context"] = "x"; }),
            "current-context: must be \"admin@c1\""_kj);
  EXPECT_EQ(errorWith([&]() { context()["user"] = "x"; }),
            "contexts[0].context.user: must be \"admin@c1\""_kj);
  EXPECT_EQ(errorWith([&]() { context()["namespace"] = "a b"; }),
            "contexts[0].context.namespace: is not a valid name of a namespace"_kj);
  EXPECT_EQ(errorWith([&]() { document["users"].push_back(document["users"][0]); }),
            "users: must have exactly one entry"_kj);
  EXPECT_EQ(errorWith([&]() { document["kind"] = "ConfigMap"; }), "kind: must be Config"_kj);
  EXPECT_EQ(errorWith([&]() { document["users"][0]["user"] = "x"; }),
            "users[0].user: is not a mapping"_kj);
  EXPECT_EQ(errorWith([&]() { document = Json::array(); }), "is not a mapping"_kj);
}

// Catches: a cluster whose machine config has an endpoint that its own client refuses.
TEST_F(ReceivedKubeconfigTest, AServerMayHaveAPath) {
  for (auto server : {"https://10.5.0.1:6443/k8s/clusters/c-1", "https://[fd00::1]/a%20b/",
                      "https://kube.example.com:443", "https://a/"}) {
    cluster()["server"] = server;
    EXPECT_EQ(read(document), "accepted"_kj) << server;
    auto received = readReceivedKubeconfig(writeYaml(document), "f");
    EXPECT_EQ(received.server, kj::StringPtr(server));
  }
  cluster()["server"] = "https://10.5.0.1:6443";
  for (auto wrong : {"https://a/b?c", "https://a/b#c", "https://u@a/b", "https://a/b c",
                     "https://a/\x1b[2J", "https://a?b", "https://a/\"b"}) {
    EXPECT_TRUE(errorWith([&]() {
                  cluster()["server"] = wrong;
                }).startsWith("clusters[0].cluster.server: is not a valid server"))
        << wrong;
  }
}

// Catches: a name with control characters that act on the terminal when a user lists contexts.
TEST_F(ReceivedKubeconfigTest, NamesAreText) {
  for (auto name :
       {"", "a\nb", "a\x1b[2J", "a\x7f", "a\xc2\x9b", "a\xe2\x80\xae", "a\xe2\x81\xa6"}) {
    auto error = errorWith([&]() { document["clusters"][0]["name"] = name; });
    EXPECT_TRUE(error.startsWith("clusters[0].name: is "));
  }
  document["clusters"][0]["name"] = context()["cluster"] = "größe 1";
  EXPECT_EQ(read(document), "accepted"_kj);
}

}  // namespace
}  // namespace talos::kube
