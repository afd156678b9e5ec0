#include "machined/upgrade/image-signatures.h"

#include <string.h>

#include "common/base/error.h"
#include "common/tls/signature.h"
#include "machined/confined/parser-client/parser-messages.h"
#include "machined/services/containers/container-images.h"
#include "machined/services/containers/registry-artifacts.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kAlgorithm = "sha256:"_kj;

size_t digestAt(kj::StringPtr pinned) {
  KJ_IF_MAYBE (at, pinned.findFirst('@')) {
    if (isSha256(pinned.slice(*at + 1))) return *at + 1;
  }
  fail(ErrorKind::kInternal,
       kj::str("containerd did not report the digest of the image: \"", pinned, "\""));
}

// The verdict of the key on the image's signatures.
struct Found {
  size_t signatures = 0;
  bool fits = false;
  kj::String other = {};   // why a signature by the key does not count
  kj::String unread = {};  // why a signature cannot be read
};

kj::Promise<Found> look(Containerd& containerd, ForeignBytes& foreign, kj::StringPtr place,
                        kj::StringPtr digest, const pki::VerifyKey& key) {
  auto manifest = co_await pullManifest(containerd, kj::str(place), kMostSignatureManifest);
  auto signatures = co_await foreign.signatures(place, manifest);
  Found found{.signatures = signatures.size()};
  for (auto& signature : signatures) {
    kj::Maybe<kj::Array<kj::byte>> read;
    co_await pulledContent(containerd, kj::str(signature.payload), kMostSignedPayload)
        .then([&](kj::Array<kj::byte> bytes) { read = kj::mv(bytes); },
              [&](kj::Exception&& e) {
                // Adding a signature must not make the signatures of others invalid.
                auto kind = kindOf(e);
                if (kind != ErrorKind::kFailedPrecondition && kind != ErrorKind::kNotFound) {
                  kj::throwFatalException(kj::mv(e));
                }
                found.unread = messageOf(e);
              });
    if (read == nullptr) continue;
    auto& payload = KJ_ASSERT_NONNULL(read);
    if (!key.verifies(payload, signature.signature)) continue;
    kj::String about;
    co_await foreign.signedImage(place, payload)
        .then([&](kj::String d) { about = kj::mv(d); },
              [&](kj::Exception&& e) {
                if (kindOf(e) != ErrorKind::kFailedPrecondition) {
                  kj::throwFatalException(kj::mv(e));
                }
                found.other = kj::str("is not one of an image: ", messageOf(e));
              });
    if (about == digest) {
      found.fits = true;
      break;
    }
    if (about.size() > 0) found.other = kj::str("is one of another image, ", about);
  }
  co_return kj::mv(found);
}

}  // namespace

kj::String signaturesOf(kj::StringPtr pinned) {
  auto at = digestAt(pinned);
  return kj::str(pinned.slice(0, at - 1), ":sha256-", pinned.slice(at + kAlgorithm.size()), ".sig");
}

kj::Promise<void> requireSignature(Containerd& containerd, ForeignBytes& foreign, kj::String pinned,
                                   kj::String pem) {
  pki::VerifyKey key(pem);
  auto place = signaturesOf(pinned);
  auto digest = kj::str(pinned.slice(digestAt(pinned)));
  auto refuse = [&](kj::StringPtr problem) {
    return error(ErrorKind::kPermissionDenied,
                 kj::str(pinned, " is not signed by the key of machine.install.imageKey, ",
                         key.name(), ": ", problem, "; nothing was written"));
  };
  kj::Maybe<Found> found;
  kj::Maybe<kj::Exception> wrong;
  co_await look(containerd, foreign, place, digest, key)
      .then([&](Found f) { found = kj::mv(f); }, [&](kj::Exception&& e) { wrong = kj::mv(e); });
  // The pulled artifact is not needed any more; a later pull replaces it if it cannot be removed
  // now.
  co_await forgetImage(containerd, kj::str(place)).catch_([](kj::Exception&&) {});
  KJ_IF_MAYBE (e, wrong) {
    switch (kindOf(*e)) {
      case ErrorKind::kNotFound:
        kj::throwFatalException(
            refuse(kj::str("there is no ", place, "; sign it with cosign sign --key")));
      case ErrorKind::kFailedPrecondition:
      case ErrorKind::kInvalidArgument:
        kj::throwFatalException(
            refuse(kj::str(place, " has no signatures that can be read: ", messageOf(*e))));
      default:
        fail(kindOf(*e), kj::str("cannot verify whether ", pinned, " is signed: ", messageOf(*e)));
    }
  }
  auto& f = KJ_ASSERT_NONNULL(found);
  if (f.fits) co_return;
  if (f.other.size() > 0) {
    kj::throwFatalException(refuse(kj::str("the signature by it in ", place, " ", f.other)));
  }
  if (f.unread.size() > 0) {
    kj::throwFatalException(refuse(kj::str(
        "no signature in ", place, " that can be read fits the key, and one cannot: ", f.unread)));
  }
  kj::throwFatalException(refuse(
      f.signatures == 0
          ? kj::str(place, " has no signature")
          : kj::str("none of the signatures in ", place, " (", f.signatures, ") fits the key")));
}

}  // namespace talos::machined
