// Manifests and payloads of signatures: as cosign writes them, and invalid ones.
#include "machined/confined/parser/image-signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::parse {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kDigest = "sha256:" + std::string(64, 'a');

std::string layer(const std::string& signature, const std::string& digest = kDigest,
                  const std::string& type = "application/vnd.dev.cosign.simplesigning.v1+json") {
  return R"({"mediaType":")" + type + R"(","size":7,"digest":")" + digest +
         R"(","annotations":{"dev.cosignproject.cosign/signature":")" + signature + R"("}})";
}
std::string manifest(const std::string& layers) {
  return R"({"schemaVersion":2,"config":{},"layers":[)" + layers + "]}";
}
std::vector<std::string> found(const std::string& text) {
  std::vector<std::string> result;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 for (auto& s : findSignatures(kj::arrayPtr(text.data(), text.size()))) {
                   result.push_back(
                       kj::str(s.payload.slice(7, 9), " ", s.signature.asChars()).cStr());
                 }
               })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kFailedPrecondition);
    result = {messageOf(*e).cStr()};
  }
  return result;
}
std::string about(const std::string& text) {
  std::string result;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 result = signedImage(kj::arrayPtr(text.data(), text.size())).cStr();
               })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kFailedPrecondition);
    result = messageOf(*e).cStr();
  }
  return result;
}
std::string payload(const std::string& digest, const std::string& type) {
  return R"({"critical":{"identity":{"docker-reference":"x"},"image":{"docker-manifest-digest":")" +
         digest + R"("},"type":")" + type + R"("},"optional":null})";
}

// Catches: a signature that is missed beside others; a signature of something else that is taken
// for one of an image.
TEST(ImageSignature, EachLayerOfTheTypeIsOne) {
  EXPECT_THAT(
      found(manifest(layer("b25l") + "," + layer("dHdv", "sha256:" + std::string(64, 'b')))),
      ElementsAre("aa one", "bb two"));
  EXPECT_THAT(found(manifest("")), ElementsAre());
  EXPECT_THAT(
      found(manifest(layer("b25l", kDigest, "application/vnd.oci.image.layer.v1.tar") + "," +
                     layer("b25l", "sha256:12") + "," + layer("?") + "," + layer("") + "," +
                     R"({"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json"},7)" + "," +
                     layer("dHdv"))),
      ElementsAre("aa two"));
}

// Catches: a manifest that is too large, or invalid, and is taken for one without signatures.
TEST(ImageSignature, WhatIsNoManifestIsRefused) {
  EXPECT_THAT(found("{"), ElementsAre(HasSubstr("not valid JSON")));
  EXPECT_THAT(found("[]"), ElementsAre("it is not a manifest with layers"));
  EXPECT_THAT(found(R"({"layers":7})"), ElementsAre("its layers are not a list"));
  std::string many;
  for (unsigned i = 0; i <= machined::kMostImageSignatures; ++i) many += layer("b25l") + ",";
  many.pop_back();
  EXPECT_THAT(found(manifest(many)), ElementsAre("it has more than 64 signatures"));
  EXPECT_THAT(found(std::string(100'000, '[')), ElementsAre(HasSubstr("not valid JSON")));
}

// Catches: an accepted payload that does not name an image; cosign signs blobs and attestations
// with the same key.
TEST(ImageSignature, ThePayloadNamesAnImage) {
  EXPECT_EQ(about(payload(kDigest, "cosign container image signature")), kDigest);
  EXPECT_EQ(about(payload(kDigest, "other")),
            "its type is \"other\", not \"cosign container image signature\"");
  EXPECT_EQ(about(payload("sha512:1", "cosign container image signature")),
            "it names no image by a SHA-256 digest");
  EXPECT_EQ(about(R"({"critical":{"type":"cosign container image signature","image":[]}})"),
            "it names no image by a SHA-256 digest");
  EXPECT_EQ(about("{}"), "it has no field critical");
  EXPECT_THAT(about("x"), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace talos::parse
