#include "common/tls/tls-custom-verify.h"

#include <kj/compat/tls.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/tls/kj-tls-access.h"
#include "common/tls/tls.h"

namespace talos {
namespace {

// One connection's own context, and what its handshake found.
class Handshake {
 public:
  explicit Handshake(JudgeServer judge) : judge(kj::mv(judge)), context(options()) {
    harden(context);
    acceptOnlyBy(context, accept);
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> run(kj::Own<kj::AsyncIoStream> stream) {
    // The name goes nowhere: it is neither sent, being an address, nor compared.
    return context.wrapClient(kj::mv(stream), "127.0.0.1");
  }
  bool judged = false;
  kj::Maybe<kj::String> refusal;

 private:
  JudgeServer judge;
  AcceptChain accept = [this](kj::ArrayPtr<const kj::String> chain) {
    judged = true;
    refusal = judge(chain);
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

kj::Promise<kj::Own<kj::AsyncIoStream>> connectJudged(kj::Own<kj::AsyncIoStream> stream,
                                                      JudgeServer judge) {
  auto handshake = kj::heap<Handshake>(kj::mv(judge));
  kj::Maybe<kj::Exception> failure;
  try {
    auto up = co_await handshake->run(kj::mv(stream));
    KJ_ASSERT(handshake->judged, "a handshake without a certificate");
    co_return up.attach(kj::mv(handshake));
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  KJ_IF_MAYBE (why, handshake->refusal) fail(ErrorKind::kUnauthenticated, *why);
  fail(ErrorKind::kUnavailable, kj::str("TLS handshake: ", tlsReason(KJ_ASSERT_NONNULL(failure))));
}

}  // namespace talos
