#include "talosctl/client/tls-unverified.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/tls/pki.h"
#include "common/tls/tls-custom-verify.h"

namespace talos {

kj::Promise<UnverifiedStream> connectUnverified(kj::Own<kj::AsyncIoStream> stream,
                                                kj::ArrayPtr<const kj::String> fingerprints) {
  kj::String found;
  auto expected = KJ_MAP(f, fingerprints) {
    return kj::str(f);
  };
  auto judge = [&](kj::ArrayPtr<const kj::String> chain) -> kj::Maybe<kj::String> {
    found = pki::fingerprint(chain[0]);
    if (expected.size() == 0) return nullptr;
    for (auto& f : expected) {
      if (f == found) return nullptr;
    }
    return kj::str("wrong fingerprint: the machine has ", found, ", not ",
                   kj::strArray(expected, " or "),
                   "; it is another machine, or has restarted with a new key");
  };
  auto up = co_await connectWithVerifier(kj::mv(stream), kj::mv(judge));
  co_return UnverifiedStream{kj::mv(up), kj::mv(found)};
}

void checkFingerprint(kj::StringPtr text) {
  auto decoded = kj::decodeBase64(text);
  if (decoded.hadErrors || decoded.size() != 32 || kj::encodeBase64(decoded) != text) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", text,
                 "\" is not a valid fingerprint; use the 44 characters of base64 on the ",
                 "machine's console"));
  }
}

}  // namespace talos
