// Verification of trustd and of its answers.
#include "apid/join/test-joiner.h"

namespace talos::apid {
namespace {

using ::testing::HasSubstr;
using testing::JoinerTest;
using testing::kStart;
using testing::text;

// Catches: an answer that is accepted because TLS was.
TEST_F(JoinerTest, AnswersThatAreRefused) {
  signer = other;
  join();
  expectRefused("its CA is not the one that this node trusts");
}
TEST_F(JoinerTest, ASignatureOfAnotherAuthorityIsRefused) {
  signer = other;
  shown = authority;
  join();
  expectRefused("its CA did not issue its certificate");
}
TEST_F(JoinerTest, AnotherHashIsRefused) {
  signer = other;
  auto w = config();
  w.authority = kj::str();
  w.authorityHash = pki::authorityHash(authority.certificate);
  join(kj::mv(w));
  expectRefused("not machine.caHash");
}
TEST_F(JoinerTest, ACertificateForAnotherKeyIsRefused) {
  otherKey = pki::makeKey(pki::KeyType::kEd25519);
  join();
  expectRefused("is for another key than the request");
}
TEST_F(JoinerTest, ACertificateWithoutTheAddressIsRefused) {
  bend = [](pki::LeafOptions& options) { options.addresses = kj::arr(kj::str("10.5.0.6")); };
  join();
  expectRefused("its certificate lacks 10.5.0.5");
}
TEST_F(JoinerTest, ACertificateOfAnotherTimeIsRefusedWithBothTimes) {
  bend = [](pki::LeafOptions& options) { options.notBefore = kStart - 300 * kj::DAYS; };
  join();
  expectRefused(
      "valid from 2023-12-09T00:00:00Z to 2023-12-10T00:05:00Z, but this node's clock shows "
      "2024-10-04T00:00:00Z");
}

TEST_F(JoinerTest, ACertificateThatEndsNowIsRefused) {
  bend = [](pki::LeafOptions& options) { options.notBefore = kStart - options.lifetime; };
  join();
  expectRefused("but this node's clock shows 2024-10-04T00:00:00Z");
}

TEST_F(JoinerTest, AnAuthorityThatIsNoneIsRefused) {
  auto w = config();
  w.authority = kj::str();
  garbled = true;
  join(kj::mv(w));
  EXPECT_EQ(storedCount, 0u);
  EXPECT_FALSE(now().ready);
}

TEST_F(JoinerTest, ACertificateOfATimeToComeIsRefusedWithBothTimes) {
  bend = [](pki::LeafOptions& options) { options.notBefore = kStart + 1 * kj::HOURS; };
  join();
  expectRefused(
      "valid from 2024-10-04T01:00:00Z to 2024-10-05T01:05:00Z, but this node's clock shows "
      "2024-10-04T00:00:00Z");
}

// The first answer is trusted, and from then on no other CA.
TEST_F(JoinerTest, WithoutAnAuthorityTheFirstAnswerCounts) {
  auto w = config();
  w.authority = kj::str();
  ::testing::internal::CaptureStderr();
  join(kj::mv(w));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("identity of trustd is not verified"));
  EXPECT_EQ(now().verified, "nothing");
  EXPECT_THAT(text(now().message), HasSubstr("neither machine.ca nor machine.caHash"));
  signer = other;
  pass(13 * kj::HOURS);
  EXPECT_EQ(storedCount, 1u);
  EXPECT_EQ(pinned, "ca");
}

TEST_F(JoinerTest, VerifiesTrustdByThePin) {
  auto issue = [&](const pki::CertificateAndKey& by, bool server,
                   kj::StringPtr address = "127.0.0.1") {
    return pki::issue(by.certificate, by.key,
                      {.addresses = kj::arr(kj::str(address)),
                       .server = server,
                       .client = !server,
                       .lifetime = 1 * kj::HOURS,
                       .notBefore = kStart})
        .certificate;
  };
  auto refusal = [](const Pin& pin, kj::String leaf, kj::StringPtr issuer = "") {
    auto chain = issuer.size() > 0 ? kj::arr(kj::mv(leaf), kj::str(issuer)) : kj::arr(kj::mv(leaf));
    return text(pin.verify(chain).orDefault(kj::str("-")));
  };
  auto at = kStart + 1 * kj::MINUTES, late = kStart + 2 * kj::HOURS;
  Pin ca{kj::str(authority.certificate), kj::str(), at};
  Pin hash{kj::str(), pki::authorityHash(authority.certificate), at};
  for (auto* pin : {&ca, &hash}) {
    EXPECT_EQ(refusal(*pin, issue(authority, true), authority.certificate), "-");
    EXPECT_NE(refusal(*pin, issue(other, true), other.certificate), "-");
    EXPECT_NE(refusal(*pin, issue(other, true), authority.certificate), "-")
        << "shown, not its own";
    EXPECT_NE(refusal(*pin, issue(authority, false), authority.certificate), "-")
        << "an administrator's certificate is no server's";
    EXPECT_THAT(refusal(*pin, issue(authority, true, "10.5.0.9"), authority.certificate),
                HasSubstr("is not that of a control-plane node"))
        << "a worker's";
    pin->at = late;
    EXPECT_EQ(refusal(*pin, issue(authority, true), authority.certificate),
              "certificate has expired");
    pin->at = nullptr;
    EXPECT_EQ(refusal(*pin, issue(authority, true), authority.certificate), "-");
  }
  EXPECT_EQ(refusal(ca, issue(authority, true)), "-");
  EXPECT_THAT(refusal(hash, issue(authority, true)), HasSubstr("none of its 1 certificates"));
  EXPECT_EQ(refusal(Pin{}, issue(other, true)), "-");
}

}  // namespace
}  // namespace talos::apid
