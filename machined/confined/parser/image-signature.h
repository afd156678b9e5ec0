// Signatures of an image in a registry, as cosign stores them. A manifest lies beside the image,
// with a tag that is made of the image's digest. Each of its layers of type simplesigning is a
// payload, and has an annotation with the signature of the payload's bytes in base64:
//   {"layers": [{"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
//                "digest": "sha256:…",
//                "annotations": {"dev.cosignproject.cosign/signature": "…"}}]}
// The payload names the signed image:
//   {"critical": {"image": {"docker-manifest-digest": "sha256:…"},
//                 "type": "cosign container image signature"}}
//
// Pure. This unit verifies no signature, because that needs no parsing.
#pragma once

#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::parse {

// Returns the signatures in their order. Skips a layer of another type, or without a valid
// signature. FailedPrecondition if it is not a manifest, or has more than kMostImageSignatures.
kj::Vector<machined::ImageSignature> findSignatures(kj::ArrayPtr<const char> manifest);

// Returns sha256:<hex>. FailedPrecondition if the payload names no image.
kj::String signedImage(kj::ArrayPtr<const char> payload);

}  // namespace talos::parse
