#include "machined/confined/parser/image-signature.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "machined/confined/parser-client/parser-messages.h"
#include "machined/confined/parser/json-fields.h"

namespace talos::parse {
namespace {

using machined::ImageSignature;

constexpr kj::StringPtr kPayloadType = "application/vnd.dev.cosign.simplesigning.v1+json"_kj;
constexpr kj::StringPtr kAnnotation = "dev.cosignproject.cosign/signature"_kj;
constexpr kj::StringPtr kAboutImages = "cosign container image signature"_kj;
constexpr size_t kMostShown = 100;

[[noreturn]] void notUsable(kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition, problem);
}

kj::Own<capnp::MallocMessageBuilder> jsonOf(kj::ArrayPtr<const char> text) {
  kj::Own<capnp::MallocMessageBuilder> message;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { message = parseJson(text); })) {
    notUsable(messageOf(*e));
  }
  return message;
}

kj::Maybe<ImageSignature> signatureIn(Json layer) {
  if (stringOf(layer, "mediaType") != kPayloadType) return nullptr;
  auto payload = stringOf(layer, "digest");
  if (!machined::isSha256(payload)) return nullptr;
  KJ_IF_MAYBE (annotations, fieldOf(layer, "annotations")) {
    auto text = stringOf(*annotations, kAnnotation);
    auto signature = kj::decodeBase64(text);
    bool could = !signature.hadErrors && signature.size() > 0 &&
                 signature.size() <= machined::kMostImageSignature;
    if (could) return ImageSignature{kj::mv(payload), kj::mv(signature)};
  }
  return nullptr;
}

}  // namespace

kj::Vector<ImageSignature> findSignatures(kj::ArrayPtr<const char> manifest) {
  auto message = jsonOf(manifest);
  auto layers = fieldOf(message->getRoot<capnp::json::Value>().asReader(), "layers");
  kj::Vector<ImageSignature> found;
  KJ_IF_MAYBE (list, layers) {
    if (!list->isArray()) notUsable("its layers are not a list");
    for (auto layer : list->getArray()) {
      KJ_IF_MAYBE (signature, signatureIn(layer)) {
        if (found.size() == machined::kMostImageSignatures) {
          notUsable(kj::str("it has more than ", machined::kMostImageSignatures, " signatures"));
        }
        found.add(kj::mv(*signature));
      }
    }
    return found;
  }
  notUsable("it is not a manifest with layers");
}

kj::String signedImage(kj::ArrayPtr<const char> payload) {
  auto message = jsonOf(payload);
  auto root = message->getRoot<capnp::json::Value>().asReader();
  KJ_IF_MAYBE (critical, fieldOf(root, "critical")) {
    auto type = stringOf(*critical, "type");
    if (type != kAboutImages) {
      notUsable(kj::str("its type is \"", machined::oneLine(type, kMostShown), "\", not \"",
                        kAboutImages, "\""));
    }
    KJ_IF_MAYBE (image, fieldOf(*critical, "image")) {
      auto digest = stringOf(*image, "docker-manifest-digest");
      if (machined::isSha256(digest)) return digest;
    }
    notUsable("it names no image by a SHA-256 digest");
  }
  notUsable("it has no field critical");
}

}  // namespace talos::parse
