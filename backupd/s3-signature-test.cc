#include "backupd/s3-signature.h"

#include <gtest/gtest.h>

namespace talos::backupd {
namespace {

// The account, the date and the bucket of the examples in the Amazon S3 API Reference.
constexpr S3Credentials kDocumented = {
    "AKIAIOSFODNN7EXAMPLE"_kj, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"_kj, "us-east-1"_kj};
constexpr auto kDocumentedDate = kj::UNIX_EPOCH + 1369353600 * kj::SECONDS;  // 20130524T000000Z
constexpr kj::StringPtr kDocumentedHost = "examplebucket.s3.amazonaws.com"_kj;

kj::String signatureOf(const S3Request& request) {
  auto signature = signS3(request, kDocumented, kDocumentedDate);
  EXPECT_EQ("20130524T000000Z"_kj, signature.date);
  constexpr kj::StringPtr kMark = "Signature="_kj;
  return kj::str(signature.authorization.slice(signature.authorization.size() - 64 - kMark.size()));
}

S3Request documented(kj::Vector<S3Request::Parameter> query) {
  return {.method = "GET",
          .host = kDocumentedHost,
          .path = kj::str("/"),
          .query = kj::mv(query),
          .payload = emptyPayload()};
}

// Catches: a signature that a store refuses. The expected ones are in the API's documents.
TEST(S3Signature, IsThatOfTheDocumentedExamples) {
  kj::Vector<S3Request::Parameter> lifecycle, listing;
  lifecycle.add(S3Request::Parameter{kj::str("lifecycle"), kj::str()});
  EXPECT_EQ("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"_kj,
            signatureOf(documented(kj::mv(lifecycle))));
  listing.add(S3Request::Parameter{kj::str("prefix"), kj::str("J")});
  listing.add(S3Request::Parameter{kj::str("max-keys"), kj::str("2")});
  auto request = documented(kj::mv(listing));
  EXPECT_EQ("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"_kj,
            signatureOf(request));
  EXPECT_EQ("/?max-keys=2&prefix=J"_kj, s3Target(request));
}

// Catches: a region, a key or a hash that is left out; a key of S3 in the header.
TEST(S3Signature, CoversTheWholeRequestAndTellsNoSecret) {
  auto request = documented({});
  auto whole = signS3(request, kDocumented, kDocumentedDate).authorization;
  EXPECT_TRUE(
      whole.startsWith("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/"
                       "us-east-1/s3/aws4_request,SignedHeaders=host;"
                       "x-amz-content-sha256;x-amz-date,Signature="))
      << whole.cStr();
  EXPECT_EQ(std::string(whole.cStr()).find("wJalr"), std::string::npos);
  auto differs = [&](auto change) {
    auto other = documented({});
    auto credentials = kDocumented;
    auto date = kDocumentedDate;
    change(other, credentials, date);
    EXPECT_NE(signatureOf(request), [&]() {
      auto header = signS3(other, credentials, date).authorization;
      return kj::str(header.slice(header.size() - 74));
    }());
  };
  differs([](auto& r, auto&, auto&) { r.method = "PUT"; });
  differs([](auto& r, auto&, auto&) { r.host = "elsewhere"; });
  differs([](auto& r, auto&, auto&) { r.path = kj::str("/a"); });
  differs([](auto& r, auto&, auto&) { r.payload = kj::str("0"); });
  differs(
      [](auto& r, auto&, auto&) { r.query.add(S3Request::Parameter{kj::str("a"), kj::str("b")}); });
  differs([](auto&, auto& c, auto&) { c.secretKey = "x"; });
  differs([](auto&, auto& c, auto&) { c.region = "eu-central-1"; });
  differs([](auto&, auto&, auto& d) { d += 1 * kj::SECONDS; });
}

// Catches: a name that the store decodes as another name.
TEST(S3Signature, EncodesNames) {
  EXPECT_EQ("/backups/a/b%20c%2B%C3%A4~.snapshot"_kj,
            s3Path("backups", "a/b c+\xc3\xa4~.snapshot"));
  EXPECT_EQ("/backups/"_kj, s3Path("backups", ""));
}

}  // namespace
}  // namespace talos::backupd
