#include "kubed/accounts/pod-account.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/talosconfig/talosconfig.h"

namespace talos::kubed {
namespace {

using kube::Json;

kj::Vector<kj::String> list(std::initializer_list<kj::StringPtr> texts) {
  kj::Vector<kj::String> all;
  for (auto text : texts) all.add(kj::str(text));
  return all;
}

Json object(Json spec) {
  return {{"metadata", {{"name", "sa"}, {"namespace", "apps"}, {"uid", "u-1"}}},
          {"spec", std::move(spec)}};
}

PodAccount account(Json roles) {
  return KJ_ASSERT_NONNULL(readPodAccount(object({{"roles", std::move(roles)}})));
}

struct PodAccounts : public testing::Test {
  ~PodAccounts() noexcept override {}

  kj::Date now = kj::systemPreciseCalendarClock().now();
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  pki::Pem key = pki::makeKey(pki::KeyType::kEd25519);
  AccessPolicy policy{list({"os:reader", "os:etcd:backup"}), list({"apps", "default"})};

  // Returns a Secret of these roles, whose certificate is valid for so long.
  Json secret(const PodAccount& of, kj::Duration lifetime = 6 * kj::HOURS,
              kj::StringPtr name = "") {
    auto own = of.clientName();
    auto roles = KJ_MAP(role, KJ_ASSERT_NONNULL(of.roles)) {
      return kj::str(role);
    };
    auto certificate =
        pki::signRequest(authority.certificate, authority.key, pki::makeRequest(key, {}),
                         {.commonName = name.size() > 0 ? name : own,
                          .organizations = kj::mv(roles),
                          .server = false,
                          .lifetime = lifetime});
    return accountSecret(of, authority.certificate, certificate, key);
  }
  std::string cause(const Json& secret, const PodAccount& of) {
    return renewalCause(secret, of, authority.certificate, now)
        .map([](kj::StringPtr text) { return std::string(text.cStr()); })
        .orDefault("kept");
  }
  std::string error(const PodAccount& of, kj::Maybe<const Json&> secret = nullptr) {
    return accountError(of, secret, policy)
        .map([](AccountError&& e) { return std::string(e.reason.cStr()); })
        .orDefault("given");
  }
};

// Catches: access for an account that is being deleted, or one that has no identity.
TEST_F(PodAccounts, AreReadFromForeignObjects) {
  auto read = account({"os:reader", "os:reader", 7, "os:admin"});
  EXPECT_EQ(read.label(), "apps/sa");
  EXPECT_EQ(kj::strArray(KJ_ASSERT_NONNULL(read.roles), ","), "os:reader,os:admin");
  auto deleted = object({});
  deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  EXPECT_TRUE(readPodAccount(deleted) == nullptr);
  auto nobody = object({});
  nobody["metadata"].erase("uid");
  EXPECT_TRUE(readPodAccount(nobody) == nullptr);
  EXPECT_TRUE(readPodAccount(Json("text")) == nullptr);
  EXPECT_TRUE(account(nullptr).roles == nullptr);
  EXPECT_TRUE(account(Json::array()).roles == nullptr);
}

// Catches: a role or a namespace that the config does not allow; a foreign Secret that is
// overwritten, also one that only claims to belong to an account of the same name.
TEST_F(PodAccounts, AreRefusedInTheDocumentedOrder) {
  EXPECT_EQ(error(account({"os:reader"})), "given");
  EXPECT_EQ(error(account({"os:etcd:backup", "os:reader"})), "given");
  EXPECT_EQ(error(account({"os:reader", "os:admin"})), "ErrRolesNotAllowed");
  EXPECT_EQ(error(account(nullptr)), "ErrRolesNotFound");
  auto elsewhere = account({"os:admin"});
  elsewhere.nameSpace = kj::str("kube-system");
  EXPECT_EQ(error(elsewhere), "ErrNamespaceNotAllowed");

  auto own = secret(account({"os:reader"}));
  EXPECT_EQ(error(account({"os:reader"}), own), "given");
  auto other = own;
  other["metadata"]["ownerReferences"][0]["uid"] = "u-2";
  EXPECT_EQ(error(account({"os:reader"}), other), "ErrResourceExists");
  EXPECT_EQ(error(account(nullptr), other), "ErrResourceExists");
  other = own;
  other["metadata"].erase("ownerReferences");
  EXPECT_EQ(error(account({"os:reader"}), other), "ErrResourceExists");
  other = own;
  other["metadata"]["ownerReferences"][0]["controller"] = false;
  EXPECT_EQ(error(account({"os:reader"}), other), "ErrResourceExists");
}

// Catches: a certificate that ends while its pod uses it, or that keeps roles which the account has
// lost; a Secret that is written again with each check, or stays damaged.
TEST_F(PodAccounts, SecretsAreRenewedBeforeTheirEndAndWhenInputsChange) {
  auto reader = account({"os:reader", "os:etcd:backup"});
  auto good = secret(reader);
  EXPECT_EQ(cause(good, reader), "kept");
  EXPECT_EQ(cause(good, account({"os:etcd:backup", "os:reader"})), "kept");
  EXPECT_EQ(cause(good, account({"os:reader"})), "its roles changed");
  EXPECT_EQ(cause(good, account({"os:reader", "os:operator"})), "its roles changed");
  EXPECT_EQ(cause(secret(reader, 61 * kj::MINUTES), reader), "kept");
  EXPECT_EQ(cause(secret(reader, 59 * kj::MINUTES), reader), "its certificate ends soon");
  auto renewed = pki::makeAuthority({.organization = "talos"});
  EXPECT_STREQ(KJ_ASSERT_NONNULL(renewalCause(good, reader, renewed.certificate, now)).cStr(),
               "the CA changed");
  for (auto text : {"", "not base64!", "bm90OiBbYQ==", "e30="}) {
    auto damaged = good;
    damaged["data"]["config"] = text;
    EXPECT_NE(cause(damaged, reader), "kept") << text;
  }
  auto empty = good;
  empty.erase("data");
  EXPECT_NE(cause(empty, reader), "kept");
}

// Catches: a Secret from before, whose certificate has the bare name of the account and looks like
// an administrator's in the audit log.
TEST_F(PodAccounts, SecretsWithAnotherNameAreRenewed) {
  auto reader = account({"os:reader"});
  EXPECT_EQ(reader.clientName(), "system:serviceaccount:apps:sa");
  EXPECT_EQ(cause(secret(reader), reader), "kept");
  for (auto name : {"sa", "admin", "system:serviceaccount:other:sa"}) {
    EXPECT_EQ(cause(secret(reader, 6 * kj::HOURS, name), reader),
              "its certificate has another name");
  }
}

// Catches: a file that no client reads; a Secret that stays when its account is deleted, or that
// Kubernetes does not connect with it.
TEST_F(PodAccounts, SecretsHaveAClientConfiguration) {
  auto reader = account({"os:reader"});
  auto object = secret(reader);
  auto text = kj::heapString(kj::decodeBase64(kube::textAt(object, {"data", "config"})).asChars());
  auto config = Talosconfig::parse(text, "the Secret");
  auto& context = config.resolve();
  EXPECT_STREQ(config.currentName().cStr(), "default");
  EXPECT_EQ(kj::strArray(context.endpoints, ","), "talos.default");
  EXPECT_EQ(kj::strArray(context.nodes, ","), "");
  EXPECT_EQ(context.ca, authority.certificate);
  pki::checkPair(context.certificate, context.key);
  EXPECT_EQ(object["metadata"].dump(),
            R"({"name":"sa","namespace":"apps","ownerReferences":[)"
            R"({"apiVersion":"talos.dev/v1alpha1","kind":"ServiceAccount","name":"sa",)"
            R"("uid":"u-1","controller":true,"blockOwnerDeletion":true}]})");
}

TEST_F(PodAccounts, EventsAndStatusSayWhy) {
  auto event = accountEvent(account({"os:reader"}), "Warning", "ErrRolesNotAllowed", "why", 255,
                            kj::UNIX_EPOCH);
  EXPECT_EQ(event["metadata"].dump(), R"({"name":"sa.ff","namespace":"apps"})");
  EXPECT_EQ(event["involvedObject"]["uid"], "u-1");
  EXPECT_EQ(event["source"].dump(), R"({"component":"talos-sa-controller"})");
  EXPECT_EQ(event["reason"], "ErrRolesNotAllowed");
  EXPECT_EQ(failurePatch("why").dump(), R"({"status":{"failureReason":"why"}})");
  EXPECT_EQ(failurePatch("").dump(), R"({"status":{"failureReason":null}})");
}

}  // namespace
}  // namespace talos::kubed
