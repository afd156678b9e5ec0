#include "machined/kubernetes/admin-kubeconfig.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/kube-access.h"
#include "common/tls/public-key.h"

namespace talos::machined {
namespace {

class AdminKubeconfigs : public testing::Test {
 protected:
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "kubernetes",
                                                         .keyType = pki::KeyType::kEcdsaP256,
                                                         .lifetime = 100 * kj::DAYS});
  kj::Date made = pki::inspect(authority.certificate).notBefore;
  capnp::MallocMessageBuilder message;
  rpc::RootSecretSpec::KubernetesRoot::Builder root =
      message.initRoot<rpc::RootSecretSpec>().initK8s();

  AdminKubeconfigs() {
    root.setName("demo");
    root.setEndpoint("https://10.5.0.1:6443");
    root.initCa().setCrt(authority.certificate.asBytes());
    root.getCa().setKey(authority.key.bytes());
  }

  ~AdminKubeconfigs() noexcept override {}

  kube::KubeAccess fetch(kj::StringPtr lifetime, kj::Date now) {
    return kube::readAccess(writeAdminKubeconfig(adminKubeconfigOf(root, lifetime), now), "test");
  }
};

// Catches: the node's own pair handed out; one pair for all callers; an endpoint that is the
// node's.
TEST_F(AdminKubeconfigs, EachHasAPairOfItsOwn) {
  auto now = made + 1 * kj::DAYS;
  auto first = fetch("", now), second = fetch("", now);
  EXPECT_NE(first.certificate, second.certificate);
  EXPECT_NE(kj::StringPtr(first.key), kj::StringPtr(second.key));
  EXPECT_EQ(first.cluster, "demo"_kj);
  EXPECT_EQ(first.name(), "10.5.0.1:6443"_kj);
  EXPECT_EQ(first.authority, authority.certificate);
  pki::checkPair(first.certificate, first.key);
  EXPECT_TRUE(pki::isSignedBy(first.certificate, authority.certificate));
  auto info = pki::inspect(first.certificate);
  EXPECT_EQ(info.commonName, "admin"_kj);
  ASSERT_EQ(info.organizations.size(), 1u);
  EXPECT_EQ(info.organizations[0], "system:masters"_kj);
}

// cluster.adminKubeconfig.certLifetime. Catches: a lifetime that has no effect; a certificate that
// outlives the CA, of which clients then complain.
TEST_F(AdminKubeconfigs, ItLivesAsLongAsTheConfigSaysAndTheAuthorityDoes) {
  auto now = made + 1 * kj::DAYS;
  auto life = [&](kj::StringPtr lifetime) {
    return (pki::inspect(fetch(lifetime, now).certificate).notAfter - now) / kj::HOURS;
  };
  EXPECT_EQ(life("48h"), 48);
  EXPECT_EQ(life("1s"), 1);
  EXPECT_EQ(life(""), (pki::inspect(authority.certificate).notAfter - now) / kj::HOURS);
}

TEST_F(AdminKubeconfigs, ANodeThatCannotSaysWhy) {
  auto why = [&](kj::Date now) {
    auto e = kj::runCatchingExceptions([&] { fetch("", now); });
    return messageOf(KJ_REQUIRE_NONNULL(e));
  };
  auto early = kj::UNIX_EPOCH + 5 * kj::DAYS;
  EXPECT_EQ(why(early),
            "the clock of this node is not set: it is 1970-01-06T00:00:00Z, before cluster.ca was "
            "made; retry when it is set"_kj);
  root.getCa().setKey(nullptr);
  EXPECT_EQ(why(made), "missing cluster.ca secret"_kj);
}

}  // namespace
}  // namespace talos::machined
