// How a server of Kubernetes is connected to (kube-client.h).
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/base/within.h"
#include "common/kube/kube-client.h"
#include "common/net/ip.h"
#include "common/net/resolver.h"
#include "common/tls/tls.h"

namespace talos::kube {
namespace {

constexpr auto kDialDeadline = 10 * kj::SECONDS, kEachAddress = 3 * kj::SECONDS;

// "connect(): Connection refused" -> "Connection refused".
kj::String dialCause(const kj::Exception& e) {
  auto text = messageOf(e);
  constexpr kj::StringPtr kMark = "(): "_kj;
  for (size_t i = 0; i + kMark.size() < text.size(); ++i) {
    if (text.slice(i).startsWith(kMark)) return kj::str(text.slice(i + kMark.size()));
  }
  return text;
}

class KubeDialer : public kj::Refcounted {
 public:
  KubeDialer(kj::LowLevelAsyncIoProvider& lowLevel, kj::UnixEventPort& port, kj::Timer& timer,
             const KubeAccess& access)
      : lowLevel(lowLevel),
        port(port),
        timer(timer),
        host(kj::str(access.host)),
        tlsName(kj::str(access.tlsName)),
        tcpPort(access.port) {
    if (access.certificate.size() == 0) {
      verifier.emplace(access.authority);
    } else {
      endpoint.emplace(
          Credentials{kj::str(access.authority), kj::str(access.certificate), access.key.clone()});
    }
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> dial() {
    auto addresses = co_await resolve(port, timer, host);
    kj::String why;
    for (auto& address : addresses) {
      auto trying = within(timer, kEachAddress, tcp(address), kj::str("no answer"))
                        .then([](auto&& stream) -> kj::Maybe<kj::Own<kj::AsyncIoStream>> {
                          return kj::mv(stream);
                        })
                        .catch_([&](kj::Exception&& e) -> kj::Maybe<kj::Own<kj::AsyncIoStream>> {
                          why = dialCause(e);
                          return nullptr;
                        });
      auto reached = co_await trying;
      KJ_IF_MAYBE (stream, reached) co_return co_await secure(kj::mv(*stream));
    }
    fail(ErrorKind::kUnavailable, kj::str("cannot connect: ", why));
  }

 private:
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::UnixEventPort& port;
  kj::Timer& timer;
  kj::String host, tlsName;
  uint16_t tcpPort;
  kj::Maybe<TlsEndpoint> endpoint;
  kj::Maybe<TlsVerifier> verifier;

  kj::Promise<kj::Own<kj::AsyncIoStream>> tcp(kj::StringPtr address) {
    auto at = Endpoint{Ip::require(address), tcpPort}.socketName();
    int fd;
    KJ_SYSCALL(fd = socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd owned(fd);
    int on = 1;  // requests are small and somebody waits for each
    KJ_SYSCALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    co_return co_await lowLevel.wrapConnectingSocketFd(kj::mv(owned), at.get(), at.size());
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> secure(kj::Own<kj::AsyncIoStream> stream) {
    KJ_IF_MAYBE (known, endpoint) return known->connect(kj::mv(stream), tlsName);
    return KJ_ASSERT_NONNULL(verifier).connect(kj::mv(stream), tlsName);
  }
};

}  // namespace

KubeDial dialerOf(kj::LowLevelAsyncIoProvider& lowLevel, kj::UnixEventPort& port, kj::Timer& timer,
                  const KubeAccess& access) {
  auto dialer = kj::refcounted<KubeDialer>(lowLevel, port, timer, access);
  return [dialer = kj::mv(dialer), &timer]() mutable {
    auto again = kj::addRef(*dialer);
    auto& one = *again;
    return within(timer, kDialDeadline, one.dial(),
                  kj::str("cannot connect: no answer within ", kDialDeadline),
                  ErrorKind::kUnavailable)
        .attach(kj::mv(again));
  };
}

}  // namespace talos::kube
