// Images of a registry and their signatures.
#include "machined/upgrade/image-signatures.h"

#include <gmock/gmock.h>

#include "common/base/error.h"
#include "machined/confined/parser/test-direct-foreign.h"
#include "machined/upgrade/test-pulls.h"

namespace talos::machined {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kImage = "sha256:" + std::string(64, 'a'),
                  kOther = "sha256:" + std::string(64, 'b'), kPinned = "r.example/i@" + kImage,
                  kPlace = "r.example/i:sha256-" + std::string(64, 'a') + ".sig";

class ImageSignaturesTest : public testing::Test {
 public:
  ~ImageSignaturesTest() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelPulls pulls{timer};
  DirectForeign foreign;
  KeyPair own, other;

  std::string layer(const KeyPair& key, const std::string& payload) {
    return signatureLayer(pulls.put(payload),
                          key.sign(kj::arrayPtr(payload.data(), payload.size()).asBytes()));
  }
  void publish(const std::string& layers) {
    pulls.registry[kPlace] = pulls.put(R"({"schemaVersion":2,"layers":[)" + layers + "]}");
  }
  // Returns the error; empty if the image is signed.
  std::string problem() {
    std::string text;
    requireSignature(pulls.containerd, foreign, kj::str(kPinned.c_str()), own.pem())
        .catch_([&](kj::Exception&& e) {
          text = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
        })
        .wait(scope);
    EXPECT_TRUE(pulls.pulled.empty()) << "what was pulled stays";
    return text;
  }
};

// Catches: a signature that is refused because there are others, or others by other keys.
TEST_F(ImageSignaturesTest, OneThatFitsIsEnough) {
  publish(layer(own, signedPayload(kImage)));
  EXPECT_EQ(problem(), "");
  publish(layer(other, signedPayload(kImage)) + "," + layer(own, signedPayload(kOther)) + "," +
          layer(own, signedPayload(kImage, "other")) + "," + layer(own, signedPayload(kImage)));
  EXPECT_EQ(problem(), "");
}

// Catches: an image that is not signed, is signed by another key, or whose signature is that of
// another image or of something that is not an image; a refusal that does not say which of these,
// and by which key.
TEST_F(ImageSignaturesTest, EverythingElseIsRefused) {
  auto refused = StartsWith("PermissionDenied: " + kPinned +
                            " is not signed by the key of machine.install.imageKey, SHA256:");
  EXPECT_THAT(problem(), AllOf(refused, HasSubstr(": there is no " + kPlace +
                                                  "; sign it with "
                                                  "cosign sign --key; nothing was written")));
  publish(layer(other, signedPayload(kImage)) + "," + layer(other, signedPayload(kOther)));
  EXPECT_THAT(problem(), AllOf(refused, HasSubstr(": none of the signatures in " + kPlace +
                                                  " (2) fits the key; nothing was written")));
  publish("");
  EXPECT_THAT(problem(), AllOf(refused, HasSubstr(kPlace + " has no signature;")));
  publish(layer(own, signedPayload(kOther)));
  EXPECT_THAT(problem(), AllOf(refused, HasSubstr("the signature by it in " + kPlace +
                                                  " is one of another image, " + kOther)));
  publish(layer(own, signedPayload(kImage, "blob")));
  EXPECT_THAT(problem(), AllOf(refused, HasSubstr("is not one of an image: its type is")));
  // A signature that was taken from another payload.
  auto payload = signedPayload(kImage), less = signedPayload(kOther);
  publish(signatureLayer(pulls.put(payload),
                         own.sign(kj::arrayPtr(less.data(), less.size()).asBytes())));
  EXPECT_THAT(problem(), AllOf(refused, HasSubstr("none of the signatures")));
}

// Catches: a registry that fills the memory, or whose absence is taken for a missing signature; an
// unreadable layer because of which the signature beside it is not found.
TEST_F(ImageSignaturesTest, WhatCannotBeRead) {
  publish("7");
  pulls.blobs[pulls.registry[kPlace]] = std::string(kMostSignatureManifest + 1, ' ');
  EXPECT_THAT(problem(), AllOf(HasSubstr("PermissionDenied: "),
                               HasSubstr("has 524289 bytes, and at most 524288 are read")));
  publish(layer(own, std::string(kMostSignedPayload + 1, ' ')));
  EXPECT_THAT(problem(), HasSubstr("bytes, and at most 16384 are read"));
  // Beside a valid signature.
  auto gone =
      signatureLayer(kOther, own.sign(kj::arrayPtr(kOther.data(), kOther.size()).asBytes()));
  publish(layer(own, std::string(kMostSignedPayload + 1, ' ')) + "," + gone + "," +
          layer(own, signedPayload(kImage)));
  EXPECT_EQ(problem(), "");
  pulls.registry[kPlace] = pulls.put("{");
  EXPECT_THAT(problem(), HasSubstr("has no signatures that can be read: not valid JSON"));
  // The manifest takes more than one piece.
  publish(layer(own, signedPayload(kImage)) + std::string(100'000, ' '));
  EXPECT_EQ(problem(), "");
  pulls.away = true;
  EXPECT_THAT(problem(),
              StartsWith("Unavailable: cannot verify whether " + kPinned + " is signed: "));
}

// Catches: the signatures of another image.
TEST(SignaturesOf, IsATagOfTheDigest) {
  EXPECT_EQ(signaturesOf(kPinned.c_str()), kPlace.c_str());
  EXPECT_EQ(signaturesOf(("r.example:5000/a/i@" + kOther).c_str()),
            ("r.example:5000/a/i:sha256-" + std::string(64, 'b') + ".sig").c_str());
  for (auto text : {"", "r.example/i:v1", "r.example/i@sha256:12"}) {
    EXPECT_TRUE(kj::runCatchingExceptions([&] { signaturesOf(text); }) != nullptr) << text;
  }
}

}  // namespace
}  // namespace talos::machined
