#include "common/tls/tls.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/tls/kj-tls-access.h"
#include "common/tls/tls-validity.h"

namespace talos {
namespace {

// Every certificate of a PEM text; kj::TlsCertificate takes the text for one chain, and trusts only
// its first.
kj::Vector<kj::TlsCertificate> certificatesOf(kj::StringPtr pem) {
  constexpr kj::StringPtr kEnd = "-----END CERTIFICATE-----"_kj;
  kj::Vector<kj::TlsCertificate> result;
  size_t begin = 0;
  for (size_t i = 0; i + kEnd.size() <= pem.size(); ++i) {
    if (!pem.slice(i).startsWith(kEnd)) continue;
    auto block = kj::heapString(pem.slice(begin, i + kEnd.size()));
    pki::inspect(block);
    result.add(kj::StringPtr(block));
    begin = i + kEnd.size();
  }
  if (result.empty()) fail(ErrorKind::kInvalidArgument, "no CA certificate is given");
  return result;
}

kj::Own<kj::TlsContext> makeContext(const Credentials& credentials) {
  pki::checkPair(credentials.certificate, credentials.key);
  auto authorities = certificatesOf(credentials.authorities);
  kj::TlsKeypair pair{kj::TlsPrivateKey(kj::StringPtr(pki::toPkcs8(credentials.key))),
                      kj::TlsCertificate(credentials.certificate)};
  kj::TlsContext::Options options;
  options.useSystemTrustStore = false;
  options.verifyClients = true;
  options.trustedCertificates = authorities;
  options.minVersion = kj::TlsVersion::TLS_1_3;
  options.defaultKeypair = pair;
  auto context = kj::heap<kj::TlsContext>(kj::mv(options));
  harden(*context);
  return context;
}

kj::Own<kj::TlsContext> makeAnonymousContext(kj::StringPtr certificate, kj::StringPtr key) {
  pki::checkPair(certificate, key);
  kj::TlsKeypair pair{kj::TlsPrivateKey(kj::StringPtr(pki::toPkcs8(key))),
                      kj::TlsCertificate(certificate)};
  kj::TlsContext::Options options;
  options.useSystemTrustStore = false;
  options.verifyClients = false;
  options.minVersion = kj::TlsVersion::TLS_1_3;
  options.defaultKeypair = pair;
  auto context = kj::heap<kj::TlsContext>(kj::mv(options));
  harden(*context);
  return context;
}

kj::Exception handshakeError(const kj::Exception& e, kj::StringPtr with) {
  auto kind = e.getType() == kj::Exception::Type::DISCONNECTED ? ErrorKind::kUnavailable
                                                               : ErrorKind::kUnauthenticated;
  return error(kind, kj::str("TLS handshake with ", with, ": ", tlsReason(e)));
}

}  // namespace

TlsVerifier::TlsVerifier(kj::StringPtr authorities) {
  auto trusted = certificatesOf(authorities);
  kj::TlsContext::Options options;
  options.useSystemTrustStore = false;
  options.trustedCertificates = trusted;
  options.minVersion = kj::TlsVersion::TLS_1_2;
  context = kj::heap<kj::TlsContext>(kj::mv(options));
  explainRefusals(*context);
}

TlsVerifier::~TlsVerifier() noexcept(false) {}

kj::Promise<kj::Own<kj::AsyncIoStream>> TlsVerifier::connect(kj::Own<kj::AsyncIoStream> stream,
                                                             kj::StringPtr expectedName) {
  auto name = kj::str(expectedName);
  kj::Maybe<kj::Exception> failure;
  try {
    co_return co_await context->wrapClient(kj::mv(stream), name);
  } catch (...) {
    failure = handshakeError(kj::getCaughtExceptionAsKj(), name);
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

struct TlsEndpoint::State {
  // Refcounted: a handshake that began before replace() ends with what it had.
  struct Context : kj::Refcounted {
    kj::Own<kj::TlsContext> tls;
    kj::Maybe<Credentials> made;  // of what; none: anonymous
    Validity own;                 // of the certificate that is shown
    Context(kj::Own<kj::TlsContext> tls, kj::Maybe<Credentials> made, Validity own)
        : tls(kj::mv(tls)), made(kj::mv(made)), own(own) {}
  };
  kj::Maybe<kj::Own<Context>> current;

  kj::Own<Context> use() {
    KJ_IF_MAYBE (c, current) return kj::addRef(**c);
    fail(ErrorKind::kFailedPrecondition, "TLS handshake: this node has no certificate yet");
  }
};

TlsEndpoint::TlsEndpoint(Credentials credentials) : state(kj::heap<State>()) {
  replace(kj::mv(credentials));
}

TlsEndpoint::TlsEndpoint() : state(kj::heap<State>()) {}

TlsEndpoint::~TlsEndpoint() noexcept(false) {}

void TlsEndpoint::replace(Credentials credentials) {
  auto info = pki::inspect(credentials.certificate);
  auto context = makeContext(credentials);
  state->current = kj::refcounted<State::Context>(kj::mv(context), kj::mv(credentials),
                                                  Validity{info.notBefore, info.notAfter});
}

void TlsEndpoint::replaceAnonymous(kj::StringPtr certificate, kj::StringPtr key) {
  state->current =
      kj::refcounted<State::Context>(makeAnonymousContext(certificate, key), nullptr, Validity());
}

void TlsEndpoint::close() {
  state->current = nullptr;
}

kj::Promise<TlsEndpoint::Accepted> TlsEndpoint::accept(kj::Own<kj::AsyncIoStream> stream,
                                                       kj::String peerAddress) {
  auto context = state->use();
  kj::Maybe<kj::Exception> failure;
  try {
    if (h2) chooseH2(*context->tls);
    auto up = co_await context->tls->wrapServer(
        kj::AuthenticatedStream{kj::mv(stream), kj::UnknownPeerIdentity::newInstance()});
    if (context->made == nullptr) {
      Peer visitor;
      visitor.address = kj::mv(peerAddress);
      visitor.anonymous = true;
      co_return Accepted{kj::mv(up.stream), kj::mv(visitor)};
    }
    auto info = pki::inspect(peerCertificate(kj::downcast<kj::TlsPeerIdentity>(*up.peerIdentity)));
    co_return Accepted{kj::mv(up.stream),
                       Peer{kj::mv(peerAddress), kj::mv(info.commonName),
                            kj::mv(info.organizations), false, kj::mv(info.serial)}};
  } catch (...) {
    failure = handshakeError(kj::getCaughtExceptionAsKj(), peerAddress);
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

kj::Promise<kj::Own<kj::AsyncIoStream>> TlsEndpoint::connect(kj::Own<kj::AsyncIoStream> stream,
                                                             kj::StringPtr expectedName) {
  return connectAs("", kj::mv(stream), expectedName);
}

kj::Promise<kj::Own<kj::AsyncIoStream>> TlsEndpoint::connectAs(kj::StringPtr protocol,
                                                               kj::Own<kj::AsyncIoStream> stream,
                                                               kj::StringPtr expectedName) {
  auto context = state->use();
  auto name = kj::str(expectedName);
  kj::Maybe<kj::Exception> failure;
  try {
    // A connection copies it from the context when it is made, which wrapClient() does at once.
    speak(*context->tls, protocol);
    co_return explainRefusal(co_await context->tls->wrapClient(kj::mv(stream), name), context->own);
  } catch (...) {
    failure = handshakeError(kj::getCaughtExceptionAsKj(), name);
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

kj::Promise<TlsEndpoint::Reached> TlsEndpoint::reach(kj::Own<kj::AsyncIoStream> stream,
                                                     kj::StringPtr expectedName) {
  auto name = kj::str(expectedName);
  // A context of its own: what is tolerated here is tolerated nowhere else.
  auto shared = state->use();
  auto unproven = kj::heap<kj::Maybe<kj::String>>();
  auto context =
      makeContext(KJ_REQUIRE_NONNULL(shared->made, "an anonymous endpoint cannot connect"));
  letUnprovenPass(*context, *unproven);
  kj::Maybe<kj::Exception> failure;
  try {
    auto up = explainRefusal(co_await context->wrapClient(kj::mv(stream), name), shared->own);
    auto why = kj::mv(*unproven);
    co_return Reached{up.attach(kj::mv(context), kj::mv(unproven)), kj::mv(why)};
  } catch (...) {
    failure = handshakeError(kj::getCaughtExceptionAsKj(), name);
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

}  // namespace talos
