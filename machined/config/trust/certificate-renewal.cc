#include "machined/config/trust/certificate-renewal.h"

namespace talos::machined {
namespace {

constexpr auto kLongestSleep = 1 * kj::HOURS;

}  // namespace

void RenewalTimer::schedule(kj::Date due) {
  auto pause = kj::max(1 * kj::SECONDS, kj::min(due - clock.now(), kLongestSleep));
  renewal = timer.afterDelay(pause).then([this] { wake(); }).eagerlyEvaluate(nullptr);
}

pki::LeafOptions clientOptions(kj::StringPtr commonName, kj::Duration lifetime, kj::Date now) {
  return {.commonName = commonName,
          .server = false,
          .lifetime = lifetime + kBackdated,
          .notBefore = now - kBackdated};
}

void fillPair(rpc::KeyPair::Builder pair, const pki::CertificateAndKey& issued) {
  pair.setCrt(issued.certificate.asBytes());
  pair.setKey(issued.key.bytes());
}

pki::CertificateInfo inspectPair(rpc::KeyPair::Reader pair) {
  return pki::inspect(kj::str(pair.getCrt().asChars()));
}

}  // namespace talos::machined
