// Signatures of an image in a registry, as cosign puts them there. Beside the image, by a tag that
// is made of its digest, lies a manifest; each of its layers of type simplesigning is a payload,
// and has an annotation with the signature of its bytes in base64:
//   {"layers": [{"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", "digest":
//   "sha256:…",
//                "annotations": {"dev.cosignproject.cosign/signature": "…"}}]}
// The payload says which image it is about:
//   {"critical": {"image": {"docker-manifest-digest": "sha256:…"}, "type": "cosign container image
//   signature"}}
//
// Pure. Nothing here verifies a signature: that needs no parsing.
#pragma once

#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::parse {

// In their order. A layer of another type, or without a signature that could be one, is passed
// over. FailedPrecondition when it is not a manifest, or has more than kMostImageSignatures.
kj::Vector<machined::ImageSignature> findSignatures(kj::ArrayPtr<const char> manifest);

// sha256:<hex>. FailedPrecondition when it is not about an image.
kj::String signedImage(kj::ArrayPtr<const char> payload);

}  // namespace talos::parse
