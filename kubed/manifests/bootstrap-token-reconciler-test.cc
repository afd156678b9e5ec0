#include "kubed/manifests/bootstrap-token-reconciler.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/base/date.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kSecret = "0123456789abcdef"_kj;

struct TokenRenewal : public testing::Test {
  kj::Date now = kj::UNIX_EPOCH;

  ~TokenRenewal() noexcept override {}
  TokenRenewal() { now = KJ_ASSERT_NONNULL(parseDate("2026-11-20T12:00:00Z")); }
  // Returns the Secret as the API server shows it.
  static kube::Json held(kj::StringPtr secret, kj::StringPtr end) {
    kube::Json data{{"token-id", "YWJjZGVm"},
                    {"token-secret", kj::encodeBase64(secret.asBytes()).cStr()}};
    if (end.size() > 0) data["expiration"] = kj::encodeBase64(end.asBytes()).cStr();
    return {{"data", data}};
  }
  std::string renewed(kj::StringPtr secret, kj::StringPtr end) {
    auto patch = tokenRenewal(held(secret, end), kSecret, now);
    return patch.map([](kube::Json& p) { return p.dump(); }).orDefault(std::string("kept"));
  }
};

// Catches: a token without an end, or with an end that is years away; a token that ends while the
// control plane runs; a token that is written again and again; a changed token that the cluster
// does not know.
TEST_F(TokenRenewal, GivesAnEndThatIsNear) {
  constexpr auto kRenewed =
      R"({"stringData":{"token-secret":"0123456789abcdef","expiration":"2026-11-20T13:00:00Z"}})";
  EXPECT_EQ(renewed(kSecret, ""), kRenewed);
  EXPECT_EQ(renewed(kSecret, "never"), kRenewed);
  EXPECT_EQ(renewed(kSecret, "2036-11-20T12:00:00Z"), kRenewed);
  EXPECT_EQ(renewed(kSecret, "2026-11-20T11:59:59Z"), kRenewed);
  EXPECT_EQ(renewed(kSecret, "2026-11-20T12:30:00Z"), kRenewed);
  EXPECT_EQ(renewed(kSecret, "2026-11-20T12:30:01Z"), "kept");
  EXPECT_EQ(renewed(kSecret, "2026-11-20T13:00:00Z"), "kept");
  EXPECT_EQ(renewed("another", "2026-11-20T13:00:00Z"), kRenewed);
}

// Catches: a Secret that the API server does not take for a token, or a token without an end.
TEST_F(TokenRenewal, CreatesWhatTheManifestHas) {
  auto object = tokenObject("abcdef", kSecret, now + kTokenLifetime);
  EXPECT_EQ(object["metadata"].dump(),
            R"({"name":"bootstrap-token-abcdef","namespace":"kube-system"})");
  EXPECT_EQ(object["type"], "bootstrap.kubernetes.io/token");
  EXPECT_EQ(object["stringData"].dump(),
            R"({"token-id":"abcdef","token-secret":"0123456789abcdef",)"
            R"("expiration":"2026-11-20T13:00:00Z","usage-bootstrap-authentication":"true"})");
}

}  // namespace
}  // namespace talos::kubed
