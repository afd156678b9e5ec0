#include "backupd/s3-signature.h"

#include <kj/debug.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "common/base/date.h"
#include "common/base/sha256.h"

namespace talos::backupd {
namespace {

constexpr kj::StringPtr kAlgorithm = "AWS4-HMAC-SHA256"_kj, kService = "s3"_kj,
                        kEnd = "aws4_request"_kj,
                        kSignedHeaders = "host;x-amz-content-sha256;x-amz-date"_kj;

bool isUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

void addEncoded(kj::Vector<char>& out, kj::StringPtr text, bool slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (isUnreserved(c) || (c == '/' && slashes)) {
      out.add(c);
    } else {
      out.add('%');
      out.add(kDigits[byte >> 4]);
      out.add(kDigits[byte & 15]);
    }
  }
}

kj::String encoded(kj::StringPtr text, bool slashes) {
  kj::Vector<char> out;
  addEncoded(out, text, slashes);
  return kj::heapString(out.asPtr());
}

kj::String sha256Of(kj::StringPtr text) {
  Sha256 hash;
  hash.add(text.asBytes());
  return hash.hex();
}

using Digest = kj::Array<kj::byte>;

Digest hmac(kj::ArrayPtr<const kj::byte> key, kj::StringPtr text) {
  auto result = kj::heapArray<kj::byte>(Sha256::kBytes);
  unsigned size = 0;
  KJ_REQUIRE(HMAC(EVP_sha256(), key.begin(), static_cast<int>(key.size()), text.asBytes().begin(),
                  text.size(), result.begin(), &size) != nullptr);
  return result;
}

// Returns the query sorted by name, as it is signed.
kj::String queryOf(const S3Request& request) {
  kj::Vector<kj::String> parts;
  for (auto& one : request.query) {
    parts.add(kj::str(encoded(one.name, false), "=", encoded(one.value, false)));
  }
  std::sort(parts.begin(), parts.end());
  return kj::strArray(parts, "&");
}

// Formats "20130524T000000Z".
kj::String basicDate(kj::Date now) {
  kj::Vector<char> text;
  for (char c : dateText(now)) {
    if (c != '-' && c != ':') text.add(c);
  }
  return kj::heapString(text.asPtr());
}

}  // namespace

kj::String emptyPayload() {
  return sha256Of("");
}

kj::String s3Path(kj::StringPtr bucket, kj::StringPtr key) {
  kj::Vector<char> out;
  for (auto part : {bucket, key}) {
    out.add('/');
    addEncoded(out, part, true);
  }
  return kj::heapString(out.asPtr());
}

kj::String s3Target(const S3Request& request) {
  if (request.query.empty()) return kj::str(request.path);
  return kj::str(request.path, "?", queryOf(request));
}

S3Signature signS3(const S3Request& request, const S3Credentials& credentials, kj::Date now) {
  auto date = basicDate(now);
  auto day = kj::heapString(date.slice(0, 8));
  auto canonical = kj::str(request.method, "\n", request.path, "\n", queryOf(request),
                           "\nhost:", request.host, "\nx-amz-content-sha256:", request.payload,
                           "\nx-amz-date:", date, "\n\n", kSignedHeaders, "\n", request.payload);
  auto scope = kj::str(day, "/", credentials.region, "/", kService, "/", kEnd);
  auto toSign = kj::str(kAlgorithm, "\n", date, "\n", scope, "\n", sha256Of(canonical));
  auto key = hmac(kj::str("AWS4", credentials.secretKey).asBytes(), day);
  for (auto part : {credentials.region, kService, kEnd}) key = hmac(key, part);
  auto signature = kj::encodeHex(hmac(key, toSign));
  return {kj::mv(date), kj::str(kAlgorithm, " Credential=", credentials.accessKey, "/", scope,
                                ",SignedHeaders=", kSignedHeaders, ",Signature=", signature)};
}

}  // namespace talos::backupd
