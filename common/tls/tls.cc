#include "common/tls/tls.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/tls/authorities.h"
#include "common/tls/kj-tls-access.h"
#include "common/tls/tls-validity.h"

namespace talos {
namespace {

// Splits a text, because kj::TlsCertificate takes it for one chain, and trusts only its first
// certificate.
kj::Vector<kj::TlsCertificate> certificatesOf(kj::StringPtr pem) {
  kj::Vector<kj::TlsCertificate> result;
  for (auto& one : pki::certificatesIn(pem)) {
    pki::inspect(one);
    result.add(kj::StringPtr(one));
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
  return error(kind, kj::str("TLS handshake with ", with, ": ", tlsErrorText(e)));
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
  return connectWithAlpn("", kj::mv(stream), expectedName);
}

kj::Promise<kj::Own<kj::AsyncIoStream>> TlsVerifier::connectWithAlpn(
    kj::StringPtr protocol, kj::Own<kj::AsyncIoStream> stream, kj::StringPtr expectedName) {
  auto name = kj::str(expectedName);
  kj::Maybe<kj::Exception> failure;
  try {
    // A connection copies it from the context when it is made, which wrapClient() does at once.
    offerProtocol(*context, protocol);
    co_return co_await context->wrapClient(kj::mv(stream), name);
  } catch (...) {
    failure = handshakeError(kj::getCaughtExceptionAsKj(), name);
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

struct TlsEndpoint::State {
  // Refcounted: a handshake that started before replace() ends with its credentials.
  struct Context : kj::Refcounted {
    kj::Own<kj::TlsContext> tls;
    kj::Maybe<Credentials> credentials;  // credentials of the context; nullptr if anonymous
    Validity own;                        // of the certificate that is shown
    Context(kj::Own<kj::TlsContext> tls, kj::Maybe<Credentials> credentials, Validity own)
        : tls(kj::mv(tls)), credentials(kj::mv(credentials)), own(own) {}
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
  if (clientsOptional) makeCertificatesOptional(*context);
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
    if (http2) selectHttp2(*context->tls);
    auto up = co_await context->tls->wrapServer(
        kj::AuthenticatedStream{kj::mv(stream), kj::UnknownPeerIdentity::newInstance()});
    auto& identity = kj::downcast<kj::TlsPeerIdentity>(*up.peerIdentity);
    if (context->credentials == nullptr || (clientsOptional && !identity.hasCertificate())) {
      Peer anonymous;
      anonymous.address = kj::mv(peerAddress);
      anonymous.anonymous = true;
      co_return Accepted{kj::mv(up.stream), kj::mv(anonymous)};
    }
    auto info = pki::inspect(peerCertificate(identity));
    co_return Accepted{kj::mv(up.stream), Peer{.address = kj::mv(peerAddress),
                                               .commonName = kj::mv(info.commonName),
                                               .organizations = kj::mv(info.organizations),
                                               .anonymous = false,
                                               .serial = kj::mv(info.serial)}};
  } catch (...) {
    failure = handshakeError(kj::getCaughtExceptionAsKj(), peerAddress);
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

kj::Promise<kj::Own<kj::AsyncIoStream>> TlsEndpoint::connect(kj::Own<kj::AsyncIoStream> stream,
                                                             kj::StringPtr expectedName) {
  return connectWithAlpn("", kj::mv(stream), expectedName);
}

kj::Promise<kj::Own<kj::AsyncIoStream>> TlsEndpoint::connectWithAlpn(
    kj::StringPtr protocol, kj::Own<kj::AsyncIoStream> stream, kj::StringPtr expectedName) {
  auto context = state->use();
  auto name = kj::str(expectedName);
  kj::Maybe<kj::Exception> failure;
  try {
    // A connection copies it from the context when it is made, which wrapClient() does at once.
    offerProtocol(*context->tls, protocol);
    co_return explainRefusal(co_await context->tls->wrapClient(kj::mv(stream), name), context->own);
  } catch (...) {
    failure = handshakeError(kj::getCaughtExceptionAsKj(), name);
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

kj::Promise<TlsEndpoint::Identified> TlsEndpoint::connectIdentified(
    kj::Own<kj::AsyncIoStream> stream, kj::StringPtr expectedName) {
  auto context = state->use();
  auto name = kj::str(expectedName);
  kj::Maybe<kj::Exception> failure;
  try {
    auto up = co_await context->tls->wrapClient(
        kj::AuthenticatedStream{kj::mv(stream), kj::UnknownPeerIdentity::newInstance()}, name);
    auto shown = pki::inspect(peerCertificate(kj::downcast<kj::TlsPeerIdentity>(*up.peerIdentity)));
    co_return Identified{explainRefusal(kj::mv(up.stream), context->own), kj::mv(shown)};
  } catch (...) {
    failure = handshakeError(kj::getCaughtExceptionAsKj(), name);
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

kj::Promise<TlsEndpoint::TolerantConnection> TlsEndpoint::connectTolerant(
    kj::Own<kj::AsyncIoStream> stream, kj::StringPtr expectedName) {
  auto name = kj::str(expectedName);
  // A separate context: ordinary connections tolerate nothing.
  auto shared = state->use();
  auto error = kj::heap<kj::Maybe<kj::String>>();
  auto context =
      makeContext(KJ_REQUIRE_NONNULL(shared->credentials, "an anonymous endpoint cannot connect"));
  tolerateUnverified(*context, *error);
  kj::Maybe<kj::Exception> failure;
  try {
    auto up = co_await context->wrapClient(
        kj::AuthenticatedStream{kj::mv(stream), kj::UnknownPeerIdentity::newInstance()}, name);
    auto verificationError = kj::mv(*error);
    pki::CertificateInfo shown;
    if (verificationError == nullptr) {
      shown = pki::inspect(peerCertificate(kj::downcast<kj::TlsPeerIdentity>(*up.peerIdentity)));
    }
    auto explained = explainRefusal(kj::mv(up.stream), shared->own);
    co_return TolerantConnection{explained.attach(kj::mv(context), kj::mv(error)),
                                 kj::mv(verificationError), kj::mv(shown)};
  } catch (...) {
    failure = handshakeError(kj::getCaughtExceptionAsKj(), name);
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

}  // namespace talos
