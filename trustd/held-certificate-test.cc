#include "trustd/held-certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/test-ip.h"
#include "common/tls/held-message.h"
#include "common/tls/signature.h"
#include "trustd/issuer.h"

namespace talos::trustd {
namespace {

using ::testing::HasSubstr;

struct HeldWall final : kj::Clock {
  kj::Date date = kj::UNIX_EPOCH + 20'000 * kj::DAYS;
  kj::Date now() const override { return date; }
};
struct HeldSteady final : kj::MonotonicClock {
  kj::TimePoint now() const override { return kj::origin<kj::TimePoint>() + 1 * kj::DAYS; }
};

kj::String requestFor(kj::StringPtr key, std::initializer_list<kj::StringPtr> names,
                      std::initializer_list<kj::StringPtr> addresses) {
  auto all = [](std::initializer_list<kj::StringPtr> from) {
    return KJ_MAP(text, kj::arrayPtr(from.begin(), from.size())) {
      return kj::str(text);
    };
  };
  return pki::makeRequest(key, {.dnsNames = all(names), .addresses = all(addresses)});
}

// A worker that joined with an earlier token, and a trustd whose token has changed.
struct HeldTest : ::testing::Test {
  ~HeldTest() noexcept override {}
  HeldWall wall;
  HeldSteady steady;
  pki::CertificateAndKey authority =
      pki::makeAuthority({.organization = "talos", .notBefore = wall.date - 1 * kj::DAYS});
  Issuer issuer{wall, steady};
  const Ip worker = ip("10.0.0.9");
  pki::Pem key, freshKey = pki::makeKey(pki::KeyType::kEd25519);
  kj::String certificate;

  void SetUp() override {
    use("first.0123456789abcdef");
    key = pki::makeKey(pki::KeyType::kEd25519);
    auto first = requestFor(key, {"w1", "w1.example.org"}, {"10.0.0.9"});
    certificate = issuer.issue(first, "first.0123456789abcdef", worker).certificate;
    use("second.0123456789abcde");
  }
  void use(kj::StringPtr token, bool known = true) {
    Authority a;
    a.certificate = kj::str(authority.certificate);
    a.key = authority.key.clone();
    a.controlPlaneKnown = known;
    a.token = pki::Pem(kj::str(token));
    issuer.use(kj::mv(a));
  }
  Issuer::Issued renew(kj::StringPtr request, kj::StringPtr held, kj::StringPtr signer,
                       kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> proofs = nullptr) {
    auto signature = pki::sign(signer, messageToRenew(request).asBytes());
    return issuer.issue(request, "first.0123456789abcdef", worker, proofs,
                        {.certificate = held.asBytes(), .signature = signature});
  }
  std::string refused(kj::StringPtr request, kj::StringPtr held, kj::StringPtr signer) {
    ::testing::internal::CaptureStderr();
    auto failure = kj::runCatchingExceptions([&] { renew(request, held, signer); });
    auto lines = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(lines.find("0123456789"), std::string::npos) << lines;
    KJ_IF_MAYBE (e, failure) {
      return kj::str(kindOf(*e) == ErrorKind::kPermissionDenied ? "denied: " : "", messageOf(*e))
          .cStr();
    }
    return "signed";
  }
};

// Catches: workers that are cut off at their next renewal because the control plane has a new
// token; a new certificate that is recorded as a joining machine's.
TEST_F(HeldTest, IsRenewedAfterTheTokenHasChanged) {
  auto request = requestFor(freshKey, {"w1"}, {"10.0.0.9"});
  auto renewed = renew(request, certificate, key);
  pki::checkPair(renewed.certificate, freshKey);
  EXPECT_TRUE(renewed.record.renewal);
  wall.date += 23 * kj::HOURS;
  auto again = requestFor(freshKey, {"w1"}, {"10.0.0.9"});
  EXPECT_TRUE(renew(again, renewed.certificate, freshKey).record.renewal);
  EXPECT_FALSE(issuer.issue(request, "second.0123456789abcde", worker).record.renewal);
}

// Catches: a worker that loses its names after a reboot of the control plane, because the control
// plane does not know its nodes for a moment.
TEST_F(HeldTest, ItsNamesAreItsOwnAlsoBeforeTheControlPlaneIsKnown) {
  use("second.0123456789abcde", false);
  EXPECT_TRUE(renew(requestFor(freshKey, {"w1"}, {"10.0.0.9"}), certificate, key).record.renewal);
}

// Catches: a machine that joins with an old token; one that uses another's observed certificate or
// signature; a certificate that has expired, is of another CA, or is a client's.
TEST_F(HeldTest, IsRenewedForItsHolderAloneAndWhileItIsValid) {
  auto request = requestFor(freshKey, {"w1"}, {"10.0.0.9"});
  EXPECT_THAT(refused(request, certificate, freshKey), HasSubstr("did not sign the request"));
  auto message = messageToRenew(requestFor(key, {"w1"}, {"10.0.0.9"}));
  auto ofAnother = pki::sign(key, message.asBytes());
  auto failure = kj::runCatchingExceptions([&] {
    issuer.issue(request, "", worker, nullptr,
                 {.certificate = certificate.asBytes(), .signature = ofAnother});
  });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), HasSubstr("too many failed requests"));
  auto otherCa = pki::makeAuthority({.organization = "talos", .notBefore = wall.date});
  struct Row {
    const char* of;
    kj::StringPtr by;
    kj::StringPtr byKey;
    bool server;
    kj::Duration age;
    const char* error;
  } rows[] = {
      {"of another CA", otherCa.certificate, otherCa.key, true, 0 * kj::DAYS, "issuer"},
      {"a client's", authority.certificate, authority.key, false, 0 * kj::DAYS, "purpose"},
      {"ended", authority.certificate, authority.key, true, 2 * kj::DAYS, "expired"},
  };
  for (auto& row : rows) {
    auto pair =
        pki::issue(row.by, row.byKey,
                   {.server = row.server, .client = !row.server, .notBefore = wall.date - row.age});
    HeldCertificate held{.certificate = pair.certificate.asBytes()};
    auto wrong =
        kj::runCatchingExceptions([&] { verifyHeld(held, "m", authority.certificate, wall.date); });
    EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(wrong)).cStr(), HasSubstr(row.error)) << row.of;
  }
}

// Catches: an old token with another node's certificate that gets names, or addresses, beyond the
// certificate: proved ones need the token, too.
TEST_F(HeldTest, GivesNothingThatItDoesNotHave) {
  EXPECT_THAT(refused(requestFor(freshKey, {"w2"}, {"10.0.0.9"}), certificate, key),
              HasSubstr("denied: the certificate that is renewed lacks the name w2; "));
  auto request = requestFor(freshKey, {"w1"}, {"10.0.0.9", "10.0.0.10"});
  auto signature = pki::sign(key, messageToProve().asBytes());
  auto proof = issuer.prove("", ip("10.0.0.10"),
                            {.certificate = certificate.asBytes(), .signature = signature});
  kj::ArrayPtr<const kj::byte> proofs[] = {proof};
  auto failure = kj::runCatchingExceptions([&] { renew(request, certificate, key, proofs); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
              HasSubstr("lacks the address 10.0.0.10"));
}

// Catches: bytes of a stranger that cost memory, time or the process.
TEST_F(HeldTest, ForeignBytesAreErrors) {
  auto request = requestFor(freshKey, {"w1"}, {"10.0.0.9"});
  auto large = kj::str(certificate, kj::repeat('\n', kMostHeldBytes));
  for (auto text : {"x"_kj, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"_kj,
                    large.asPtr()}) {
    HeldCertificate held{.certificate = text.asBytes()};
    auto failure =
        kj::runCatchingExceptions([&] { verifyHeld(held, "m", authority.certificate, wall.date); });
    EXPECT_TRUE(kindOf(KJ_ASSERT_NONNULL(failure)) == ErrorKind::kUnauthenticated ||
                kindOf(KJ_ASSERT_NONNULL(failure)) == ErrorKind::kInvalidArgument)
        << text.cStr();
  }
}

}  // namespace
}  // namespace talos::trustd
