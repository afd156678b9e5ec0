#include "common/tls-peer.h"

#include <kj/debug.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "common/openssl.h"
#include "common/tls-times.h"

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
      X509_STORE_CTX_get_error_depth(store) > 0 ? "the authority's " : "",
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

// The place of OpenSSL's own verification of a chain. KJ looks at the store's error afterwards.
int judgeLeaf(X509_STORE_CTX* store, void* argument) {
  auto& accept = *static_cast<kj::Function<bool(kj::StringPtr)>*>(argument);
  bool good = false;
  auto failed = kj::runCatchingExceptions([&] {  // no exception passes through C
    auto* leaf = X509_STORE_CTX_get0_cert(store);
    good = leaf != nullptr && accept(pki::writeCertificate(leaf));
  });
  good = good && failed == nullptr;
  X509_STORE_CTX_set_error(store, good ? X509_V_OK : X509_V_ERR_APPLICATION_VERIFICATION);
  return good ? 1 : 0;
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

void acceptOnlyBy(kj::TlsContext& context, kj::Function<bool(kj::StringPtr leaf)>& accept) {
  auto* raw = static_cast<SSL_CTX*>(context.*reach(ContextHandle()));
  SSL_CTX_set_cert_verify_callback(raw, judgeLeaf, &accept);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);  // a refusal ends the handshake
}

}  // namespace talos
