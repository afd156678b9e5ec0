#include "apid/join/trustd-client.h"

#include <sys/socket.h>

#include "common/base/error.h"
#include "common/tls/tls-custom-verify.h"
#include "common/wire/rpc-server.h"
#include "rpc/trust.capnp.h"

namespace talos::apid {
namespace {

constexpr auto kConnectTimeout = 5 * kj::SECONDS;
constexpr size_t kMostBytes = 64u << 10;  // of an answer's certificates

Ip localAddress(kj::AsyncIoStream& stream) {
  sockaddr_storage name{};
  kj::uint length = sizeof name;
  stream.getsockname(reinterpret_cast<sockaddr*>(&name), &length);
  return KJ_ASSERT_NONNULL(Endpoint::of(name)).address.unmapped();
}

kj::String text(capnp::Data::Reader pem) {
  if (pem.size() > kMostBytes) {
    fail(ErrorKind::kUnauthenticated,
         kj::str("the certificate of trustd has ", pem.size(), " bytes, which is too long"));
  }
  return kj::str(pem.asChars());
}

}  // namespace

kj::Promise<TrustdAnswer> callTrustd(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                     TrustdRequest trustdRequest, uint16_t port) {
  kj::Maybe<Ip> local;
  kj::Maybe<kj::String> refusal;  // connectTcp() makes Unavailable of everything
  auto secure = [&](kj::Own<kj::AsyncIoStream> stream) {
    local = localAddress(*stream);
    return connectWithVerifier(kj::mv(stream), [&](kj::ArrayPtr<const kj::String> chain) {
      refusal = trustdRequest.pin.verify(chain);
      return refusal.map([](kj::String& error) { return kj::str(error); });
    });
  };
  auto server = trustdRequest.server.toString();
  kj::Maybe<kj::Own<Connection>> connection;
  kj::Maybe<kj::Exception> failure;
  co_await connectTcp(lowLevel, timer, server, port, kj::mv(secure), kConnectTimeout,
                      &DialLimits::small)
      .then([&](kj::Own<Connection>&& up) { connection = kj::mv(up); },
            [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (error, refusal) {
    fail(ErrorKind::kUnauthenticated, kj::str("the identity of trustd is not verified: ", *error));
  }
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
  auto trust = KJ_ASSERT_NONNULL(connection)->bootstrap().castAs<rpc::Trust>();
  auto call = trust.certificateRequest();
  auto request = trustdRequest.certificateRequest(KJ_ASSERT_NONNULL(local));
  call.setRequest(request.asBytes());
  call.setToken(trustdRequest.token);
  auto answer = co_await call.send();
  co_return TrustdAnswer{text(answer.getCa()), text(answer.getCertificate())};
}

}  // namespace talos::apid
