#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/wire/roles.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/trust/trust-config.h"
#include "rpc/access-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {
namespace {

struct PodCertificates : public ConfigTest {
  ~PodCertificates() noexcept override {}
  pki::Pem key = pki::makeKey(pki::KeyType::kEd25519);

  std::vector<std::string> audited;

  void startUp() {
    deps.audit = [this](kj::StringPtr program, kj::StringPtr call) {
      audited.push_back(kj::str(program, " ", call).cStr());
    };
    runtime.add(podCertificateController(deps));
  }
  // Publishes a control-plane node's config with these lines of the feature, indented by six.
  void configure(kj::StringPtr lines) {
    auto pem = [](kj::StringPtr text) { return kj::encodeBase64(text.asBytes()); };
    publish(kj::str("version: v1alpha1\nmachine:\n  type: controlplane\n  token: ", token,
                    "\n  ca: {crt: ", pem(authority.certificate), ", key: ", pem(authority.key),
                    "}\n  install: {disk: /dev/sda}\n  features:\n"
                    "    kubernetesTalosAPIAccess:\n",
                    lines, "cluster:\n  controlPlane: {endpoint: 'https://10.0.0.1:6443'}\n"));
  }
  void request(uint64_t number, kj::StringPtr in, std::initializer_list<kj::StringPtr> roles,
               kj::StringPtr text = "", kj::StringPtr account = "apps/sa") {
    auto asked = text.size() > 0 ? kj::str(text) : pki::makeRequest(key, {.commonName = "admin"});
    putRecord<rpc::PodCertificateRequestSpec>(
        store, "account",
        [&](auto spec) {
          spec.setNumber(number);
          spec.setAccount(account);
          spec.setKubernetesNamespace(in);
          spec.setRequest(asked);
          auto list = spec.initRoles(roles.size());
          unsigned i = 0;
          for (auto role : roles) list.set(i++, role);
        },
        "kubed");
  }
  // Returns "NUMBER ERROR", or "NUMBER ROLES"; "" while there is no answer.
  std::string answer(uint64_t number) {
    auto deadline = io.provider->getTimer().now() + 20 * kj::SECONDS;
    while (io.provider->getTimer().now() < deadline) {
      KJ_IF_MAYBE (found, store.tryGet<rpc::PodCertificateSpec>("account")) {
        if (found->getNumber() == number) return textOf(*found);
      }
      io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return "no answer";
  }
  std::string textOf(rpc::PodCertificateSpec::Reader found) {
    if (found.getError().size() > 0) return found.getError().cStr();
    auto certificate = kj::heapString(found.getCertificate().asChars());
    pki::checkPair(certificate, key);
    EXPECT_EQ(kj::heapString(found.getCa().asChars()), authority.certificate);
    auto info = pki::inspect(certificate);
    auto left = info.notAfter - kj::systemPreciseCalendarClock().now();
    EXPECT_LE(left, 6 * kj::HOURS + 2 * kj::SECONDS);
    return kj::str(info.commonName, " ", kj::strArray(info.organizations, ",")).cStr();
  }
};

constexpr kj::StringPtr kReaders =
    "      enabled: true\n      allowedRoles: [os:reader, os:etcd:backup]\n"
    "      allowedKubernetesNamespaces: [apps]\n"_kj;

// Catches: a role or a namespace of pods that the config does not allow, whatever kubed requests; a
// request without an answer, or an answer that outlives its request.
TEST_F(PodCertificates, AreSignedAsTheConfigAllows) {
  configure(kReaders);
  startUp();
  request(1, "apps", {"os:reader"});
  EXPECT_EQ(answer(1), "system:serviceaccount:apps:sa os:reader");
  request(2, "apps", {"os:etcd:backup", "os:reader"});
  EXPECT_EQ(answer(2), "system:serviceaccount:apps:sa os:etcd:backup,os:reader");
  request(3, "apps", {"os:reader", "os:admin"});
  EXPECT_EQ(answer(3), "pods are not allowed to have the role os:admin");
  request(4, "apps", {"os:impersonator"});
  EXPECT_EQ(answer(4), "pods are not allowed to have the role os:impersonator");
  request(5, "kube-system", {"os:reader"});
  EXPECT_EQ(answer(5),
            "pods of the namespace kube-system are not allowed to access the machine API");
  request(6, "apps", {});
  EXPECT_EQ(answer(6), "a client must have 1 to 16 roles, not 0");
  request(7, "apps", {"os:reader"}, "nonsense");
  EXPECT_NE(answer(7).find("request"), std::string::npos) << answer(7);
  store.destroy("", typeName<rpc::PodCertificateRequestSpec>(), "account", "kubed");
  poll();
  EXPECT_TRUE(store.tryGet<rpc::PodCertificateSpec>("account") == nullptr);
}

// Catches: an account with the name of an administrator, which the audit log would show as one; a
// compromised kubed that names an account as one of another namespace.
TEST_F(PodCertificates, NameTheAccountAndItsNamespace) {
  configure(kReaders);
  startUp();
  request(1, "apps", {"os:reader"}, "", "apps/admin");
  EXPECT_EQ(answer(1), "system:serviceaccount:apps:admin os:reader");
  uint64_t number = 2;
  for (auto account : {"", "admin", "apps/", "other/admin", "appsx/admin", "/admin"}) {
    request(number, "apps", {"os:reader"}, "", account);
    EXPECT_EQ(answer(number++),
              kj::str("the account \"", account, "\" is not one of the namespace apps").cStr());
  }
  auto longest = kj::str(kj::repeat('a', 253));
  request(number, "apps", {"os:reader"}, "", kj::str("apps/", longest));
  auto first = answer(number++);
  EXPECT_EQ(first.find("system:serviceaccount:apps:aaaa"), 0u) << first;
  request(number, "apps", {"os:reader"}, "", kj::str("apps/", longest.slice(1)));
  EXPECT_NE(answer(number++), first);
}

// Catches: a certificate of the machine API that is missing in the audit log; an entry for a
// certificate that was not issued.
TEST_F(PodCertificates, AreAudited) {
  configure(kReaders);
  startUp();
  request(1, "apps", {"os:reader", "os:etcd:backup"});
  answer(1);
  request(2, "apps", {"os:admin"});
  answer(2);
  EXPECT_EQ(audited, (std::vector<std::string>{"kubed PodCertificate.sign(account: \"apps/sa\", "
                                               "roles: [\"os:reader\", \"os:etcd:backup\"])"}));
}

TEST_F(PodCertificates, AreNotSignedWithoutTheFeature) {
  configure(
      "      enabled: false\n      allowedRoles: [os:reader]\n"
      "      allowedKubernetesNamespaces: [apps]\n");
  startUp();
  request(1, "apps", {"os:reader"});
  EXPECT_EQ(answer(1), "the access of pods to the machine API is not enabled");
}

// Catches: a policy that kubed does not see; a server certificate that pods refuse, or one with
// these names on a node where no pod has access.
TEST_F(PodCertificates, ThePolicyAndTheNamesOfTheServiceFollowTheConfig) {
  runtime.add(featuresController(deps));
  auto sans = [&] {
    return kj::strArray(apiCertSans(KJ_ASSERT_NONNULL(config.tryConfig(store))), " ");
  };
  configure(kReaders);
  poll();
  auto policy = KJ_ASSERT_NONNULL(store.tryGet<rpc::KubernetesAccessConfigSpec>("config"));
  EXPECT_TRUE(policy.getEnabled());
  EXPECT_EQ(kj::strArray(policy.getAllowedApiRoles(), " "), "os:reader os:etcd:backup");
  EXPECT_EQ(kj::strArray(policy.getAllowedKubernetesNamespaces(), " "), "apps");
  EXPECT_EQ(sans(), "talos talos.default talos.default.svc talos.default.svc.cluster.local");
  configure("      enabled: false\n");
  poll();
  EXPECT_FALSE(
      KJ_ASSERT_NONNULL(store.tryGet<rpc::KubernetesAccessConfigSpec>("config")).getEnabled());
  EXPECT_EQ(sans(), "");
}

// Catches: a role of the config that no client can have, or a client's role that is missing in the
// config.
TEST(ApiRoles, AreThoseOfClients) {
  kj::Vector<kj::String> names;
  for (auto one : capnp::Schema::from<config::ApiRole>().getEnumerants()) {
    names.add(kj::str(roleName(static_cast<config::ApiRole>(one.getOrdinal()))));
  }
  EXPECT_EQ(kj::strArray(names, " "), kj::strArray(clientRoles(), " "));
}

}  // namespace
}  // namespace talos::machined
