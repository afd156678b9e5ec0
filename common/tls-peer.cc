#include "common/tls-peer.h"

#include <kj/debug.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/openssl.h"

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

// OpenSSL's error queue carries numbers; their words come from tables. This makes the reasons of
// refused certificates errors of a library of their own. The table is OpenSSL's from then on.
int verifyErrorLibrary() {
  static ERR_STRING_DATA reasons[kVerifyErrors] = {};
  static const int library = [] {
    int number = ERR_get_next_error_library();
    for (int code = 1; code < kVerifyErrors; ++code) {
      reasons[code - 1] = {static_cast<unsigned long>(code), X509_verify_cert_error_string(code)};
    }
    ERR_load_strings(number, reasons);
    return number;
  }();
  return library;
}

int explain(int ok, X509_STORE_CTX* store) {
  if (!ok) {
    int code = X509_STORE_CTX_get_error(store);
    if (code > 0 && code < kVerifyErrors) ERR_raise(verifyErrorLibrary(), code);
  }
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
