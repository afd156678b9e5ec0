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

// OpenSSL's error queue carries numbers; their words come from tables. This makes the reasons of
// refused certificates errors of a library of their own, one for each thread: the words of the last
// one, kTimes, are written anew for each refusal, and read before the handshake returns.
class Reasons {
 public:
  Reasons() : library(ERR_get_next_error_library()) {
    for (int code = 1; code < kVerifyErrors; ++code) {
      table[code - 1] = {static_cast<unsigned long>(code), X509_verify_cert_error_string(code)};
    }
    table[kTimes - 1] = {kTimes, times};
    ERR_load_strings(library, table);
  }
  ~Reasons() { ERR_unload_strings(library, table); }
  KJ_DISALLOW_COPY_AND_MOVE(Reasons);

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

// What a certificate says of its times, and the clock.
kj::String aboutTimes(int code, X509_STORE_CTX* store) {
  auto info = pki::inspect(pki::writeCertificate(X509_STORE_CTX_get_current_cert(store)));
  return kj::str(
      X509_STORE_CTX_get_error_depth(store) > 0 ? "CA certificate: " : "",
      X509_verify_cert_error_string(code), ": it is ",
      validityText({info.notBefore, info.notAfter}, kj::systemCoarseCalendarClock().now()));
}

int explain(int ok, X509_STORE_CTX* store) {
  if (ok) return ok;
  thread_local Reasons reasons;
  int code = X509_STORE_CTX_get_error(store);
  if (code == X509_V_ERR_CERT_HAS_EXPIRED || code == X509_V_ERR_CERT_NOT_YET_VALID) {
    kj::String text;
    // No exception passes through C.
    auto failed = kj::runCatchingExceptions([&] { text = aboutTimes(code, store); });
    if (failed == nullptr) {
      reasons.raiseTimes(text);
      return ok;
    }
  }
  if (code > 0 && code < kVerifyErrors) reasons.raise(code);
  return ok;
}

constexpr int kMostShown = 8;  // certificates of a chain

// The place of OpenSSL's own verification of a chain. KJ looks at the store's error afterwards.
int judgeChain(X509_STORE_CTX* store, void* argument) {
  auto& accept = *static_cast<AcceptChain*>(argument);
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

int judgeUnproven(X509_STORE_CTX* store, void* argument) {
  auto& why = *static_cast<kj::Maybe<kj::String>*>(argument);
  ERR_set_mark();
  int result = X509_verify_cert(store);
  int code = X509_STORE_CTX_get_error(store);
  bool unproven =
      result != 1 && X509_STORE_CTX_get_error_depth(store) == 0 &&
      (code == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT || code == X509_V_ERR_CERT_HAS_EXPIRED);
  if (!unproven) {
    ERR_clear_last_mark();
    return result;
  }
  ERR_pop_to_mark();  // what explain() said: nobody is refused
  X509_STORE_CTX_set_error(store, X509_V_OK);
  why = kj::str(X509_verify_cert_error_string(code));
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

void speak(kj::TlsContext& context, kj::StringPtr protocol) {
  auto* raw = static_cast<SSL_CTX*>(context.*reach(ContextHandle()));
  KJ_REQUIRE(protocol.size() < 256, "the name of a protocol is too long", protocol);
  auto list = kj::str(static_cast<char>(protocol.size()), protocol);  // each with its length
  bool failed = protocol.size() == 0
                    ? SSL_CTX_set_alpn_protos(raw, nullptr, 0) != 0
                    : SSL_CTX_set_alpn_protos(raw, list.asBytes().begin(), list.size()) != 0;
  pki::check(!failed, "naming the protocol");
}

void chooseH2(kj::TlsContext& context) {
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

void acceptOnlyBy(kj::TlsContext& context, AcceptChain& accept) {
  auto* raw = static_cast<SSL_CTX*>(context.*reach(ContextHandle()));
  SSL_CTX_set_cert_verify_callback(raw, judgeChain, &accept);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);  // a refusal ends the handshake
}

void letUnprovenPass(kj::TlsContext& context, kj::Maybe<kj::String>& why) {
  auto* raw = static_cast<SSL_CTX*>(context.*reach(ContextHandle()));
  SSL_CTX_set_cert_verify_callback(raw, judgeUnproven, &why);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, explain);
}

}  // namespace talos
