#include "apid/metrics/metrics-access.h"

#include <gtest/gtest.h>

#include <string>

namespace talos::metrics {
namespace {

constexpr kj::StringPtr kTestToken = "4sJwq8vGdd0uTq1p"_kj;

// Catches: access with a part of the token, with an empty token where none is set, with a
// certificate of another role, or with an unknown role.
TEST(MetricsAccess, AccessNeedsTheTokenOrACertificateWithARole) {
  struct Row {
    bool plain;
    kj::StringPtr token;
    std::initializer_list<kj::StringPtr> organizations;
    bool anonymous;
    kj::Maybe<kj::StringPtr> authorization;
    bool allowed;
  };
  const Row rows[] = {
      {true, "", {}, true, nullptr, true},
      {false, "", {}, true, nullptr, false},
      {false, "", {}, true, "Bearer "_kj, false},
      {false, "", {}, true, "Bearer x"_kj, false},
      {false, kTestToken, {}, true, nullptr, false},
      {false, kTestToken, {}, true, "Bearer 4sJwq8vGdd0uTq1p"_kj, true},
      {false, kTestToken, {}, true, "bearer 4sJwq8vGdd0uTq1p"_kj, true},
      {false, kTestToken, {}, true, "Bearer 4sJwq8vGdd0uTq1"_kj, false},
      {false, kTestToken, {}, true, "Bearer 4sJwq8vGdd0uTq1pp"_kj, false},
      {false, kTestToken, {}, true, "Bearer  4sJwq8vGdd0uTq1p"_kj, false},
      {false, kTestToken, {}, true, "Bearer 4sjwq8vgdd0utq1p"_kj, false},
      {false, kTestToken, {}, true, "Basic 4sJwq8vGdd0uTq1p"_kj, false},
      {false, kTestToken, {}, true, "4sJwq8vGdd0uTq1p"_kj, false},
      {false, "", {"os:reader"}, false, nullptr, true},
      {false, "", {"os:admin"}, false, nullptr, true},
      {false, "", {"other", "os:operator"}, false, nullptr, true},
      {false, "", {"os:reader"}, true, nullptr, false},
      {false, "", {"os:etcd:backup"}, false, nullptr, false},
      {false, "", {"os:impersonator"}, false, nullptr, false},
      {false, "", {}, false, nullptr, false},
      {false, kTestToken, {}, false, "Bearer 4sJwq8vGdd0uTq1p"_kj, true},
  };
  size_t number = 0;
  for (auto& row : rows) {
    Peer peer;
    peer.anonymous = row.anonymous;
    for (auto o : row.organizations) peer.organizations.add(kj::str(o));
    Settings settings{.port = 1, .plain = row.plain, .token = pki::Pem(kj::str(row.token))};
    auto refused = refusal(settings, peer, row.authorization);
    EXPECT_EQ(row.allowed, refused == nullptr) << number;
    KJ_IF_MAYBE (text, refused) {
      EXPECT_TRUE(text->startsWith("metrics need a client certificate")) << text->cStr();
      bool named = std::string(text->cStr()).find("Bearer") != std::string::npos;
      EXPECT_EQ(row.token.size() > 0, named) << number;
    }
    ++number;
  }
}

}  // namespace
}  // namespace talos::metrics
