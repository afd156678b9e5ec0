#include "common/tls/tls-custom-verify.h"

#include <kj/compat/tls.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/tls/kj-tls-access.h"
#include "common/tls/tls.h"

namespace talos {
namespace {

// The TLS context of one connection, and the result of its handshake.
class Handshake {
 public:
  explicit Handshake(ServerVerifier verify) : verify(kj::mv(verify)), context(options()) {
    harden(context);
    setChainVerifier(context, accept);
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> run(kj::Own<kj::AsyncIoStream> stream) {
    // The name is unused: as an address it is not sent, and it is not compared.
    return context.wrapClient(kj::mv(stream), "127.0.0.1");
  }
  bool verified = false;
  kj::Maybe<kj::String> refusal;

 private:
  ServerVerifier verify;
  ChainVerifier accept = [this](kj::ArrayPtr<const kj::String> chain) {
    verified = true;
    refusal = verify(chain);
    return refusal == nullptr;
  };
  kj::TlsContext context;

  static kj::TlsContext::Options options() {
    kj::TlsContext::Options options;
    options.useSystemTrustStore = false;
    options.minVersion = kj::TlsVersion::TLS_1_3;
    return options;
  }
};

}  // namespace

kj::Promise<kj::Own<kj::AsyncIoStream>> connectWithVerifier(kj::Own<kj::AsyncIoStream> stream,
                                                            ServerVerifier verify) {
  auto handshake = kj::heap<Handshake>(kj::mv(verify));
  kj::Maybe<kj::Exception> failure;
  try {
    auto up = co_await handshake->run(kj::mv(stream));
    KJ_ASSERT(handshake->verified, "a handshake without a certificate");
    co_return up.attach(kj::mv(handshake));
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  KJ_IF_MAYBE (error, handshake->refusal) fail(ErrorKind::kUnauthenticated, *error);
  fail(ErrorKind::kUnavailable,
       kj::str("TLS handshake: ", tlsErrorText(KJ_ASSERT_NONNULL(failure))));
}

}  // namespace talos
