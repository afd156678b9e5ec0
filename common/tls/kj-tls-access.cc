#include "common/tls/kj-tls-access.h"

#include <kj/debug.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "common/tls/openssl.h"
#include "common/tls/tls-validity.h"

namespace talos {
namespace {

template <auto Member, typename Tag>
struct Reach {
  friend auto reach(Tag) { return Member; }
};
struct PeerCertificate {
  friend auto reach(PeerCertificate);
};
struct ContextHandle {
  friend auto reach(ContextHandle);
};
template struct Reach<&kj::TlsPeerIdentity::cert, PeerCertificate>;
template struct Reach<&kj::TlsContext::ctx, ContextHandle>;

static_assert(kj::isSameType<decltype(reach(PeerCertificate())), void * kj::TlsPeerIdentity::*>());
static_assert(kj::isSameType<decltype(reach(ContextHandle())), void * kj::TlsContext::*>());

constexpr int kVerifyErrors = 128;  // more than there are X509_V_ERR_* codes
constexpr int kTimes = kVerifyErrors;

// OpenSSL's error queue carries numbers; their texts come from tables. This class makes the errors
// of refused certificates those of a separate library, one for each thread. The text of the last
// error, kTimes, is written for each refusal, and read before the handshake returns.
class VerifyErrors {
 public:
  VerifyErrors() : library(ERR_get_next_error_library()) {
    for (int code = 1; code < kVerifyErrors; ++code) {
      table[code - 1] = {static_cast<unsigned long>(code), X509_verify_cert_error_string(code)};
    }
    table[kTimes - 1] = {kTimes, times};
    ERR_load_strings(library, table);
  }
  ~VerifyErrors() { ERR_unload_strings(library, table); }
  KJ_DISALLOW_COPY_AND_MOVE(VerifyErrors);

  void raise(int code) { ERR_raise(library, code); }
  void raiseTimes(kj::StringPtr text) {
    auto size = kj::min(text.size(), sizeof times - 1);
    memcpy(times, text.begin(), size);
    times[size] = '\0';
    ERR_raise(library, kTimes);
  }

 private:
  int library;
  char times[400] = "";
  ERR_STRING_DATA table[kVerifyErrors + 1] = {};
};

// Describes the validity of a certificate, and the clock.
kj::String describeTimes(int code, X509_STORE_CTX* store) {
  auto info = pki::inspect(pki::writeCertificate(X509_STORE_CTX_get_current_cert(store)));
  return kj::str(
      X509_STORE_CTX_get_error_depth(store) > 0 ? "CA certificate: " : "",
      X509_verify_cert_error_string(code), ": it is ",
      validityText({info.notBefore, info.notAfter}, kj::systemCoarseCalendarClock().now()));
}

int explain(int ok, X509_STORE_CTX* store) {
  if (ok) return ok;
  thread_local VerifyErrors errors;
  int code = X509_STORE_CTX_get_error(store);
  if (code == X509_V_ERR_CERT_HAS_EXPIRED || code == X509_V_ERR_CERT_NOT_YET_VALID) {
    kj::String text;
    // No exception passes through C.
    auto failed = kj::runCatchingExceptions([&] { text = describeTimes(code, store); });
    if (failed == nullptr) {
      errors.raiseTimes(text);
      return ok;
    }
  }
  if (code > 0 && code < kVerifyErrors) errors.raise(code);
  return ok;
}

constexpr int kMostShown = 8;  // certificates of a chain

// Verifies by the callback; OpenSSL calls this function instead of its own verification of a chain.
// KJ reads the store's error afterwards.
int verifyByCallback(X509_STORE_CTX* store, void* argument) {
  auto& accept = *static_cast<ChainVerifier*>(argument);
  bool good = false;
  auto failed = kj::runCatchingExceptions([&] {  // no exception passes through C
    kj::Vector<kj::String> chain;
    auto* sent = X509_STORE_CTX_get0_untrusted(store);  // begins with the leaf
    for (int i = 0; i < sk_X509_num(sent) && i < kMostShown; ++i) {
      chain.add(pki::writeCertificate(sk_X509_value(sent, i)));
    }
    good = chain.size() > 0 && accept(chain);
  });
  good = good && failed == nullptr;
  X509_STORE_CTX_set_error(store, good ? X509_V_OK : X509_V_ERR_APPLICATION_VERIFICATION);
  return good ? 1 : 0;
}

int verifyTolerantly(X509_STORE_CTX* store, void* argument) {
  auto& error = *static_cast<kj::Maybe<kj::String>*>(argument);
  ERR_set_mark();
  int result = X509_verify_cert(store);
  int code = X509_STORE_CTX_get_error(store);
  bool tolerated =
      result != 1 && X509_STORE_CTX_get_error_depth(store) == 0 &&
      (code == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT || code == X509_V_ERR_CERT_HAS_EXPIRED);
  if (!tolerated) {
    ERR_clear_last_mark();
    return result;
  }
  ERR_pop_to_mark();  // the errors of explain(): the peer is accepted
  X509_STORE_CTX_set_error(store, X509_V_OK);
  error = kj::str(X509_verify_cert_error_string(code));
  return 1;
}

}  // namespace

kj::String peerCertificate(kj::TlsPeerIdentity& identity) {
  KJ_REQUIRE(identity.hasCertificate(), "the peer showed no certificate");
  return pki::writeCertificate(static_cast<X509*>(identity.*reach(PeerCertificate())));
}

void explainRefusals(kj::TlsContext& context) {
  auto* raw = static_cast<SSL_CTX*>(context.*reach(ContextHandle()));
  SSL_CTX_set_verify(raw, SSL_CTX_get_verify_mode(raw), explain);
}

void harden(kj::TlsContext& context) {
  auto* raw = static_cast<SSL_CTX*>(context.*reach(ContextHandle()));
  pki::check(SSL_CTX_set1_groups_list(raw, "X25519") == 1, "choosing a key exchange");
  pki::check(SSL_CTX_set_num_tickets(raw, 0) == 1, "switching off session tickets");
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  // An idle connection keeps no buffers: 34 KiB less for each.
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(raw,
                      SSL_OP_NO_RX_CERTIFICATE_COMPRESSION | SSL_OP_NO_TX_CERTIFICATE_COMPRESSION);
  explainRefusals(context);
}

void makeCertificatesOptional(kj::TlsContext& context) {
  SSL_CTX_set_verify(static_cast<SSL_CTX*>(context.*reach(ContextHandle())), SSL_VERIFY_PEER,
                     explain);
}

void offerProtocol(kj::TlsContext& context, kj::StringPtr protocol) {
  auto* raw = static_cast<SSL_CTX*>(context.*reach(ContextHandle()));
  KJ_REQUIRE(protocol.size() < 256, "the name of a protocol is too long", protocol);
  auto list = kj::str(static_cast<char>(protocol.size()), protocol);  // each with its length
  bool failed = protocol.size() == 0
                    ? SSL_CTX_set_alpn_protos(raw, nullptr, 0) != 0
                    : SSL_CTX_set_alpn_protos(raw, list.asBytes().begin(), list.size()) != 0;
  pki::check(!failed, "naming the protocol");
}

void selectHttp2(kj::TlsContext& context) {
  auto choose = [](SSL*, const unsigned char** chosen, unsigned char* size,
                   const unsigned char* offered, unsigned offeredSize, void*) {
    static constexpr unsigned char kH2[] = {2, 'h', '2'};
    unsigned char* found;
    if (SSL_select_next_proto(&found, size, kH2, sizeof kH2, offered, offeredSize) !=
        OPENSSL_NPN_NEGOTIATED) {
      return SSL_TLSEXT_ERR_NOACK;
    }
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
  };
  SSL_CTX_set_alpn_select_cb(static_cast<SSL_CTX*>(context.*reach(ContextHandle())), choose,
                             nullptr);
}

void setChainVerifier(kj::TlsContext& context, ChainVerifier& accept) {
  auto* raw = static_cast<SSL_CTX*>(context.*reach(ContextHandle()));
  SSL_CTX_set_cert_verify_callback(raw, verifyByCallback, &accept);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);  // a refusal ends the handshake
}

void tolerateUnverified(kj::TlsContext& context, kj::Maybe<kj::String>& error) {
  auto* raw = static_cast<SSL_CTX*>(context.*reach(ContextHandle()));
  SSL_CTX_set_cert_verify_callback(raw, verifyTolerantly, &error);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, explain);
}

}  // namespace talos
