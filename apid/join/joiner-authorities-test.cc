// A worker while the CA of its config is replaced by another.
#include "apid/join/test-joiner.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"

namespace talos::apid {
namespace {

struct JoinerAuthoritiesTest : testing::JoinerTest {
  ~JoinerAuthoritiesTest() noexcept override {}
  kj::String otherByOwn = pki::crossSign(authority.certificate, authority.key, other.certificate);
  kj::String ownByOther = pki::crossSign(other.certificate, other.key, authority.certificate);

  void configure(const pki::CertificateAndKey& ca, kj::String accepted) {
    auto fresh = config();
    fresh.authority = kj::str(ca.certificate);
    fresh.accepted = kj::mv(accepted);
    KJ_ASSERT_NONNULL(joiner)->setConfig(kj::mv(fresh));
    scope.poll();
  }
  bool isOf(const pki::CertificateAndKey& ca) {
    return pki::isSignedBy(KJ_ASSERT_NONNULL(stored).certificate, ca.certificate);
  }
};

}  // namespace

// Catches: a worker that requests from trustd what it already has; a worker that does not accept
// clients of the new CA, or whose certificate these cannot verify.
TEST_F(JoinerAuthoritiesTest, AnAcceptedCaIsTrustedWithoutARequest) {
  join();
  auto requests = asked.size();
  configure(authority, kj::str(other.certificate, ownByOther));
  EXPECT_EQ(asked.size(), requests);
  auto& held = KJ_ASSERT_NONNULL(stored);
  EXPECT_EQ(held.authority, kj::str(authority.certificate, other.certificate));
  auto chain = pki::certificatesIn(held.certificate);
  ASSERT_EQ(chain.size(), 2u);
  EXPECT_EQ(chain[1], ownByOther);
  EXPECT_TRUE(isOf(authority));
  EXPECT_TRUE(now().ready);
  configure(authority, kj::str());
  EXPECT_EQ(asked.size(), requests);
  EXPECT_EQ(KJ_ASSERT_NONNULL(stored).authority, authority.certificate);
}

// Catches: a worker that waits for half of the lifetime before its request to the new CA.
TEST_F(JoinerAuthoritiesTest, ACertificateOfTheNewCaIsAskedForAtOnce) {
  join();
  configure(authority, kj::str(other.certificate, ownByOther));
  signer = other;
  configure(other, kj::str(authority.certificate, otherByOwn));
  EXPECT_TRUE(isOf(other));
  EXPECT_EQ(KJ_ASSERT_NONNULL(stored).authority, kj::str(other.certificate, authority.certificate));
  EXPECT_EQ(pki::certificatesIn(KJ_ASSERT_NONNULL(stored).certificate).back(), otherByOwn);
  auto requests = asked.size();
  configure(other, kj::str());
  EXPECT_EQ(asked.size(), requests);
  EXPECT_EQ(KJ_ASSERT_NONNULL(stored).authority, other.certificate);
}

// Catches: a worker without a certificate, or a worker that hammers, as long as trustd has the old
// CA; a worker that does not retry.
TEST_F(JoinerAuthoritiesTest, ATrustdThatIsBehindIsAskedAgainLater) {
  join();
  auto requests = asked.size();
  configure(other, kj::str(authority.certificate, otherByOwn));
  EXPECT_TRUE(now().ready);
  EXPECT_TRUE(isOf(authority));
  EXPECT_EQ(asked.size(), requests + 1);
  EXPECT_THAT(testing::text(now().message),
              ::testing::HasSubstr("of a CA that the config accepts"));
  pass(20 * kj::SECONDS);
  EXPECT_EQ(asked.size(), requests + 1);
  signer = other;
  pass(Joiner::kFirstNamesPause * 2);
  EXPECT_TRUE(isOf(other));
  EXPECT_TRUE(now().ready);
}

// Catches: an old CA that still signs for a worker when it is no longer accepted.
TEST_F(JoinerAuthoritiesTest, ADroppedCaIsRefused) {
  join();
  configure(other, kj::str());
  EXPECT_TRUE(isOf(authority)) << "nothing else is stored";
  EXPECT_EQ(storedCount, 1u);
  EXPECT_THAT(testing::text(now().message), ::testing::HasSubstr("its CA is not the one"));
  signer = other;
  pass(1 * kj::MINUTES);
  EXPECT_TRUE(isOf(other));
}

// Catches: a worker that knows only the hash of its CA, and refuses trustd of the accepted CA.
TEST_F(JoinerAuthoritiesTest, WithAHashTheAcceptedCaIsAsGood) {
  auto hashed = config();
  hashed.authority = kj::str();
  hashed.authorityHash = pki::authorityHash(authority.certificate);
  hashed.accepted = kj::str(other.certificate);
  signer = other;
  join(kj::mv(hashed));
  EXPECT_TRUE(now().ready);
  EXPECT_TRUE(isOf(other));
  Pin pin{.authority = {},
          .hash = pki::authorityHash(authority.certificate),
          .at = nullptr,
          .accepted = kj::str(other.certificate)};
  auto issued = [&](kj::StringPtr address) {
    auto leaf = pki::issue(other.certificate, other.key, {.addresses = kj::arr(kj::str(address))});
    return kj::arr(kj::mv(leaf.certificate));
  };
  auto leaf = issued("127.0.0.1");
  EXPECT_EQ(pin.verify(leaf), nullptr);
  EXPECT_NE(pin.verify(issued("10.5.0.9")), nullptr) << "a worker's";
  pin.accepted = kj::str();
  EXPECT_NE(pin.verify(leaf), nullptr);
}

}  // namespace talos::apid
