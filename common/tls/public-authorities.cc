#include "common/tls/public-authorities.h"

#include "common/base/file.h"

namespace talos {
namespace {

constexpr kj::StringPtr kPublicAuthorities = "/etc/ssl/certs/ca-certificates.crt"_kj;
constexpr size_t kMostAuthorities = 8u << 20;

}  // namespace

kj::Promise<std::shared_ptr<kj::Own<TlsVerifier>>> verifierOf(DiskQueue& queue,
                                                              kj::String authorities) {
  auto verifier = std::make_shared<kj::Own<TlsVerifier>>();
  co_await queue.run([verifier, pem = kj::mv(authorities)]() {
    *verifier = kj::heap<TlsVerifier>(
        pem.size() > 0 ? kj::str(pem) : readFile(kPublicAuthorities, kMostAuthorities));
  });
  co_return kj::mv(verifier);
}

}  // namespace talos
