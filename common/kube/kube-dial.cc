// How a server of Kubernetes is connected to (kube-client.h).
#include "common/base/within.h"
#include "common/kube/kube-client.h"
#include "common/tls/tls.h"

namespace talos::kube {
namespace {

class KubeDialer : public kj::Refcounted {
 public:
  KubeDialer(DialEdges edges, const KubeAccess& access)
      : edges(edges),
        host(kj::str(access.host)),
        tlsName(kj::str(access.tlsName)),
        port(access.port) {
    if (access.certificate.size() == 0) {
      verifier.emplace(access.authority);
    } else {
      endpoint.emplace(
          Credentials{kj::str(access.authority), kj::str(access.certificate), access.key.clone()});
    }
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> dial() {
    auto stream = co_await dialHost(edges, kj::str(host), port);
    co_return co_await within(edges.timer, kDialDeadline, secure(kj::mv(stream)),
                              kj::str("no TLS handshake within ", kDialDeadline),
                              ErrorKind::kUnavailable);
  }

 private:
  DialEdges edges;
  kj::String host, tlsName;
  uint16_t port;
  kj::Maybe<TlsEndpoint> endpoint;
  kj::Maybe<TlsVerifier> verifier;

  kj::Promise<kj::Own<kj::AsyncIoStream>> secure(kj::Own<kj::AsyncIoStream> stream) {
    KJ_IF_MAYBE (known, endpoint) return known->connect(kj::mv(stream), tlsName);
    return KJ_ASSERT_NONNULL(verifier).connect(kj::mv(stream), tlsName);
  }
};

}  // namespace

KubeDial dialerOf(DialEdges edges, const KubeAccess& access) {
  auto dialer = kj::refcounted<KubeDialer>(edges, access);
  return [dialer = kj::mv(dialer)]() mutable {
    auto again = kj::addRef(*dialer);
    auto& one = *again;
    return one.dial().attach(kj::mv(again));
  };
}

}  // namespace talos::kube
