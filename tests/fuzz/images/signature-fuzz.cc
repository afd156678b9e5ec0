// link: machined-confined-parser
// The signatures of an image in a registry: any bytes, as the manifest and as a payload.
#include <kj/debug.h>

#include "machined/confined/parser-client/parser-messages.h"
#include "machined/confined/parser/image-signature.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  kj::Vector<machined::ImageSignature> found;
  kj::Maybe<kj::String> about;
  (void)kj::runCatchingExceptions([&]() { found = parse::findSignatures(text); });
  (void)kj::runCatchingExceptions([&]() { about = parse::signedImage(text); });
  KJ_ASSERT(found.size() <= machined::kMostImageSignatures);
  for (auto& signature : found) {
    KJ_ASSERT(machined::isSha256(signature.payload));
    KJ_ASSERT(signature.signature.size() > 0 &&
              signature.signature.size() <= machined::kMostImageSignature);
  }
  KJ_IF_MAYBE (digest, about) {
    KJ_ASSERT(machined::isSha256(*digest));
  }
  return 0;
}
