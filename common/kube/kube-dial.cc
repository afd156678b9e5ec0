// Connects to a server of Kubernetes (kube-client.h).
#include "common/base/within.h"
#include "common/kube/kube-client.h"
#include "common/tls/tls.h"

namespace talos::kube {
namespace {

class KubeDialer : public kj::Refcounted {
 public:
  KubeDialer(DialDependencies deps, const KubeAccess& access)
      : deps(deps),
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
    auto stream = co_await dialHost(deps, kj::str(host), port);
    co_return co_await within(deps.timer, kDialDeadline, secure(kj::mv(stream)),
                              kj::str("no TLS handshake within ", kDialDeadline),
                              ErrorKind::kUnavailable);
  }

 private:
  DialDependencies deps;
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

KubeDial dialerOf(DialDependencies deps, const KubeAccess& access) {
  auto dialer = kj::refcounted<KubeDialer>(deps, access);
  return [dialer = kj::mv(dialer)]() mutable {
    auto again = kj::addRef(*dialer);
    auto& one = *again;
    return one.dial().attach(kj::mv(again));
  };
}

}  // namespace talos::kube
