#include "machined/kubernetes/kubelet/kubelet-files.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "common/tls/public-key.h"
#include "machined/kubernetes/kubelet/node-drain.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kBootstrap =
    "clusters:\n- cluster:\n    certificate-authority-data: Q0EK\n"
    "    server: https://10.5.0.2:6443\n  name: local\n"_kj;
constexpr kj::StringPtr kOwn =
    "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: Q0EK\n"
    "    server: \"https://10.5.0.2:6443\"\n  name: default-cluster\n"_kj;

// Catches: a kubelet that uses an old endpoint for ever, or joins again with each start.
TEST(KubeletFiles, KubeconfigOfTheKubelet) {
  EXPECT_TRUE(leadsToThisNode(kOwn, kBootstrap));
  EXPECT_FALSE(leadsToThisNode("clusters: []\n", kBootstrap));
  EXPECT_FALSE(leadsToThisNode(
      "    certificate-authority-data: Q0EK\n    server: https://10.5.0.9:6443\n", kBootstrap));
  EXPECT_FALSE(
      leadsToThisNode("    certificate-authority-data: T1RIRVIK\n"
                      "    server: https://10.5.0.2:6443\n",
                      kBootstrap));
}

// Catches: a bootstrap token that stays on the node's disk; a kubelet without its CA; a key of
// another cluster.
TEST(KubeletFiles, AreRootsAlone) {
  TestTree tree;
  capnp::MallocMessageBuilder a, b;
  auto spec = a.initRoot<rpc::KubeletSpecSpec>();
  spec.setConfig("kind: KubeletConfiguration\n");
  spec.initArguments(1).set(0, "--kubeconfig=/etc/kubernetes/kubeconfig-kubelet");
  spec.initExtraMounts(1)[0].setSource("/var/extra");
  auto secrets = b.initRoot<rpc::KubeletSecretsSpec>();
  secrets.setCa("CA\n"_kj.asBytes());
  secrets.setClientCAs("CA\nOTHER\n"_kj.asBytes());
  secrets.setBootstrapKubeconfig(kBootstrap);
  auto mode = [&](kj::StringPtr path) {
    struct stat info = {};
    KJ_SYSCALL(stat(tree.at(path).cStr(), &info), path);
    return info.st_mode & 07777;
  };
  auto write = [&] {
    EXPECT_TRUE(writeKubeletFiles(tree.root, spec, secrets, nullptr, kj::UNIX_EPOCH) != nullptr);
  };
  tree.directory("etc/kubernetes");
  tree.file("etc/kubernetes/bootstrap-kubeconfig", "token: abcdef.0123456789abcdef\n");
  write();
  EXPECT_TRUE(tryReadFile(tree.at("etc/kubernetes/bootstrap-kubeconfig")) == nullptr);
  EXPECT_EQ(0600u, mode("etc/kubernetes/kubelet.yaml"));
  EXPECT_EQ(0500u, mode("etc/kubernetes/pki/ca.crt"));
  EXPECT_EQ(0700u, mode("var/extra"));
  EXPECT_EQ(0755u, mode("opt/cni/bin"));
  EXPECT_EQ("CA\nOTHER\n", readFile(tree.at("etc/kubernetes/pki/ca.crt")));
  auto id = readFile(tree.at("var/lib/kubelet/machine-id"));
  EXPECT_EQ(id.size(), 33u) << id.cStr();
  spec.setNodename("renamed");
  write();
  EXPECT_EQ(id, readFile(tree.at("var/lib/kubelet/machine-id")));

  auto own = tree.at("etc/kubernetes/kubeconfig-kubelet");
  tree.file("etc/kubernetes/kubeconfig-kubelet", kOwn);
  write();
  EXPECT_TRUE(tryReadFile(own) != nullptr) << "it leads here";
  tree.directory("var/lib/kubelet/pki");
  tree.file("var/lib/kubelet/pki/kubelet-client-current.pem", "x");
  secrets.setBootstrapKubeconfig("    server: https://other:6443\n");
  write();
  EXPECT_TRUE(tryReadFile(own) == nullptr);
  EXPECT_TRUE(tryReadFile(tree.at("var/lib/kubelet/pki/kubelet-client-current.pem")) == nullptr);
}

// A control-plane node, which has the CA's key.
struct SignedHere : public testing::Test {
  TestTree tree;
  capnp::MallocMessageBuilder a, b;
  rpc::KubeletSpecSpec::Builder spec = a.initRoot<rpc::KubeletSpecSpec>();
  rpc::KubeletSecretsSpec::Builder secrets = b.initRoot<rpc::KubeletSecretsSpec>();
  kj::Date now = kj::systemPreciseCalendarClock().now();
  KubeletIssuer issuer;

  ~SignedHere() noexcept override {}
  SignedHere() {
    auto made = pki::makeAuthority({.organization = "kubernetes",
                                    .keyType = pki::KeyType::kEcdsaP256,
                                    .notBefore = now - 1 * kj::HOURS});
    issuer = {kj::mv(made.certificate), kj::mv(made.key)};
    spec.setNodename("master-1");
    spec.initArguments(1).set(0, "--kubeconfig=/etc/kubernetes/kubeconfig-kubelet");
    secrets.setCa(issuer.authority.asBytes());
    leadTo("https://10.5.0.2:6443");
  }
  void leadTo(kj::StringPtr server) {
    secrets.setBootstrapKubeconfig(
        kj::str("    certificate-authority-data: ", kj::encodeBase64(issuer.authority.asBytes()),
                "\n    server: ", server, "\n"));
  }
  bool write() { return writeKubeletFiles(tree.root, spec, secrets, issuer, now) == nullptr; }
  kj::String own() { return readFile(tree.at("etc/kubernetes/kubeconfig-kubelet")); }
  kj::String pair() { return readFile(kj::str(tree.root, kKubeletClientPair)); }
};

// Catches: a kubelet that waits for a certificate which it does not use.
TEST_F(SignedHere, AnUnregisteredKubeletNeedsNoCertificate) {
  spec.initArguments(0);
  spec.setConfig("kind: KubeletConfiguration\n");
  spec.setStaticPodPath("/etc/kubernetes/system-manifests");
  EXPECT_TRUE(writeKubeletFiles(tree.root, spec, secrets, nullptr, now) == nullptr);
  EXPECT_TRUE(tryReadFile(kj::str(tree.root, kKubeletClientPair)) == nullptr);
  EXPECT_EQ("kind: KubeletConfiguration\n", readFile(tree.at("etc/kubernetes/kubelet.yaml")));
  struct stat found;
  EXPECT_EQ(0, stat(tree.at("etc/kubernetes/system-manifests").cStr(), &found));
}

// Catches: a kubelet that continues with a certificate of the CA that is dropped next.
TEST_F(SignedHere, ACertificateOfAnotherCaIsReplaced) {
  EXPECT_TRUE(write());
  auto mine = pair();
  EXPECT_TRUE(write());
  EXPECT_EQ(mine, pair());
  auto next = pki::makeAuthority({.organization = "kubernetes",
                                  .keyType = pki::KeyType::kEcdsaP256,
                                  .notBefore = now - 1 * kj::HOURS});
  issuer = {kj::mv(next.certificate), kj::mv(next.key)};
  secrets.setCa(issuer.authority.asBytes());
  // The kubeconfig is the earlier one.
  EXPECT_TRUE(write());
  EXPECT_TRUE(pki::isSignedBy(pair(), issuer.authority));
  EXPECT_FALSE(write() && pair() == mine);
}

// Catches: a kubelet that serves with a certificate of the CA that is dropped next, until it
// expires; one that requests another certificate with each start.
TEST_F(SignedHere, AServingCertificateOfAnotherCaIsRemoved) {
  auto other =
      pki::makeAuthority({.organization = "kubernetes", .keyType = pki::KeyType::kEcdsaP256});
  auto kept = [&](kj::StringPtr pair) {
    tree.directory("var/lib/kubelet/pki");
    tree.file("var/lib/kubelet/pki/kubelet-server-current.pem", pair);
    EXPECT_TRUE(write());
    return tryReadFile(kj::str(tree.root, kKubeletServerPair)) != nullptr;
  };
  EXPECT_TRUE(kept(pki::issue(issuer.authority, issuer.key, {}).certificate));
  EXPECT_FALSE(kept(pki::issue(other.certificate, other.key, {}).certificate));
  EXPECT_FALSE(kept("damaged"));
  EXPECT_TRUE(write()) << "without one";
}

// Catches: a certificate that is not the node's own, that the API server does not accept, or whose
// key others can read; a kubelet that finds a file where it renews a link, and renews nothing.
TEST_F(SignedHere, FirstCertificateIsTheNodesOwn) {
  EXPECT_TRUE(write());
  auto info = pki::inspect(pair());
  EXPECT_EQ("system:node:master-1", info.commonName);
  ASSERT_EQ(1u, info.organizations.size());
  EXPECT_EQ("system:nodes", info.organizations[0]);
  EXPECT_TRUE(pki::isSignedBy(pair(), issuer.authority));
  EXPECT_GT(info.notAfter, now + 364 * kj::DAYS);
  EXPECT_NO_THROW(pki::checkPair(pair(), kj::str(pair())));
  struct stat file = {};
  auto current = kj::str(tree.root, kKubeletClientPair);
  ASSERT_EQ(0, stat(current.cStr(), &file));
  EXPECT_EQ(0600u, file.st_mode & 07777);
  ASSERT_EQ(0, lstat(current.cStr(), &file));
  EXPECT_TRUE(S_ISLNK(file.st_mode));
  auto text = own();
  EXPECT_TRUE(leadsToThisNode(text, secrets.getBootstrapKubeconfig())) << text.cStr();
  EXPECT_NE(nullptr, strstr(text.cStr(),
                            "client-certificate: /var/lib/kubelet/pki/kubelet-client-"
                            "current.pem\n"));
}

// Catches: a certificate that is signed again with each start, and replaces the one that the
// kubelet has renewed; a certificate of another name, cluster or time that stays; one that begins
// before its CA, because the clock is not set yet.
TEST_F(SignedHere, IsSignedAnewOnlyWhenTheOldOneIsOfNoUse) {
  write();
  auto first = pair();
  EXPECT_TRUE(write());
  EXPECT_EQ(first, pair());
  spec.setNodename("master-2");
  write();
  EXPECT_EQ("system:node:master-2", pki::inspect(pair()).commonName);
  auto second = pair();
  leadTo("https://10.5.0.50:6443");
  write();
  EXPECT_NE(second, pair());
  now += 400 * kj::DAYS;
  EXPECT_TRUE(write());
  EXPECT_GT(pki::inspect(pair()).notAfter, now);
  KJ_SYSCALL(unlink(tree.at("etc/kubernetes/kubeconfig-kubelet").cStr()));
  now = kj::UNIX_EPOCH;
  EXPECT_TRUE(write());
  EXPECT_EQ(pki::inspect(issuer.authority).notBefore, pki::inspect(pair()).notBefore);
}

// Catches: a node that joins again because its kubelet uses the balancer from now on, or no longer;
// a kubeconfig that leads to the server of before.
TEST_F(SignedHere, TheBalancerChangesOnlyTheServer) {
  write();
  auto first = pair();
  for (auto server :
       {"https://127.0.0.1:7445"_kj, "https://127.0.0.1:7446"_kj, "https://10.5.0.2:6443"_kj}) {
    leadTo(server);
    EXPECT_TRUE(write());
    EXPECT_EQ(first, pair());
    EXPECT_STREQ(server.cStr(), serverOf(own()).cStr());
  }
  leadTo("https://127.0.0.1:7445\n    tls-server-name: api.example.org");
  EXPECT_TRUE(write());
  EXPECT_EQ(first, pair());
  EXPECT_STREQ("api.example.org", tlsNameOf(own()).cStr());
  leadTo("https://127.0.0.1:7445");
  EXPECT_TRUE(write());
  EXPECT_STREQ("", tlsNameOf(own()).cStr());
}

// Signs a request as the controller manager or an administrator does.
struct SignedElsewhere : public SignedHere {
  KubeletRequest ask() {
    auto made = writeKubeletFiles(tree.root, spec, secrets, nullptr, now);
    return kj::mv(KJ_ASSERT_NONNULL(made));
  }
  kj::String sign(const KubeletRequest& request, kj::StringPtr user) {
    return pki::signRequest(issuer.authority, issuer.key, request.text,
                            {.commonName = user,
                             .organizations = kj::arr(kj::str("system:nodes")),
                             .server = false,
                             .notBefore = now});
  }
  kj::String refused(const KubeletRequest& request, kj::StringPtr certificate) {
    kj::String why;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                   keepKubeletCertificate(tree.root, spec, secrets, request, certificate);
                 })) {
      why = messageOf(*e);
    }
    EXPECT_TRUE(tryReadFile(kj::str(tree.root, kKubeletClientPair)) == nullptr);
    return why;
  }
};

// Catches: a request that no controller manager approves, because of its name, group or usages; a
// kept certificate of another node, CA or key, with which the kubelet is never authenticated.
TEST_F(SignedElsewhere, KeepsTheNodesOwnAlone) {
  auto request = ask();
  auto info = pki::inspectRequest(request.text);
  EXPECT_EQ("system:node:master-1", info.commonName);
  ASSERT_EQ(1u, info.organizations.size());
  EXPECT_EQ("system:nodes", info.organizations[0]);
  EXPECT_EQ(0u, info.dnsNames.size() + info.addresses.size());
  EXPECT_EQ("the certificate is for system:node:b, not for system:node:master-1",
            refused(request, sign(request, "system:node:b")));
  auto other = ask();
  EXPECT_NE("", refused(request, sign(other, "system:node:master-1")));
  EXPECT_NE("", refused(request, "-----BEGIN CERTIFICATE-----\n"));
  auto stranger = pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256});
  EXPECT_EQ("the certificate is not signed by cluster.ca",
            refused(request, pki::signRequest(stranger.certificate, stranger.key, request.text,
                                              {.commonName = "system:node:master-1"})));
  keepKubeletCertificate(tree.root, spec, secrets, request, sign(request, "system:node:master-1"));
  EXPECT_NO_THROW(pki::checkPair(pair(), pair()));
  EXPECT_TRUE(writeKubeletFiles(tree.root, spec, secrets, nullptr, now) == nullptr);
}

}  // namespace
}  // namespace talos::machined
