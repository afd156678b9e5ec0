#include "common/tls-unverified.h"

#include <kj/compat/tls.h>
#include <kj/debug.h>
#include <kj/encoding.h>

#include "common/error.h"
#include "common/tls-peer.h"
#include "common/tls.h"

namespace talos {
namespace {

// One connection's own context, and what its handshake found.
class Handshake {
 public:
  explicit Handshake(kj::ArrayPtr<const kj::String> expected)
      : expected(KJ_MAP(f, expected) { return kj::str(f); }), context(options()) {
    harden(context);
    acceptOnlyBy(context, accept);
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> run(kj::Own<kj::AsyncIoStream> stream) {
    // The name goes nowhere: it is neither sent, being an address, nor compared.
    return context.wrapClient(kj::mv(stream), "127.0.0.1");
  }
  bool refused() const { return found.size() > 0 && !known(); }

  kj::Array<kj::String> expected;
  kj::String found;

 private:
  kj::Function<bool(kj::StringPtr)> accept = [this](kj::StringPtr leaf) {
    found = pki::fingerprint(leaf);
    return known();
  };
  kj::TlsContext context;

  bool known() const {
    if (expected.size() == 0) return true;
    for (auto& f : expected) {
      if (f == found) return true;
    }
    return false;
  }
  static kj::TlsContext::Options options() {
    kj::TlsContext::Options options;
    options.useSystemTrustStore = false;
    options.minVersion = kj::TlsVersion::TLS_1_3;
    return options;
  }
};

}  // namespace

kj::Promise<UnverifiedStream> connectUnverified(kj::Own<kj::AsyncIoStream> stream,
                                                kj::ArrayPtr<const kj::String> fingerprints) {
  auto handshake = kj::heap<Handshake>(fingerprints);
  kj::Maybe<kj::Exception> failure;
  try {
    auto up = co_await handshake->run(kj::mv(stream));
    KJ_ASSERT(handshake->found.size() > 0, "a handshake without a certificate");
    auto fingerprint = kj::str(handshake->found);
    co_return UnverifiedStream{up.attach(kj::mv(handshake)), kj::mv(fingerprint)};
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  if (handshake->refused()) {
    fail(ErrorKind::kUnauthenticated,
         kj::str("this is another machine, or its key is a new one: its fingerprint is ",
                 handshake->found, ", not ", kj::strArray(handshake->expected, " or ")));
  }
  fail(ErrorKind::kUnavailable, kj::str("TLS handshake: ", tlsReason(KJ_ASSERT_NONNULL(failure))));
}

void checkFingerprint(kj::StringPtr text) {
  auto decoded = kj::decodeBase64(text);
  if (decoded.hadErrors || decoded.size() != 32 || kj::encodeBase64(decoded) != text) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", text, "\" is no fingerprint: those are 44 characters of base64, as the ",
                 "machine shows it on its console"));
  }
}

}  // namespace talos
