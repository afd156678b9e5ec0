#include "machined/config/trust/certificate-renewal.h"

#include "common/net/text-values.h"

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

constexpr kj::StringPtr kArgument = "talos.debug.certificates"_kj;

kj::Duration certificateLifetime(const KernelArguments& arguments, kj::StringPtr platform,
                                 kj::Duration usual, kj::FunctionParam<void(kj::StringPtr)> warn) {
  if (platform != "container") return usual;
  KJ_IF_MAYBE (text, arguments.first(kArgument)) {
    KJ_IF_MAYBE (given, config::parseDuration(*text)) {
      if (*given >= 1 * kj::MINUTES && *given <= usual) return *given;
    }
    warn(kj::str(kArgument, ": \"", *text, "\" is not a duration from 1m to ", usual / kj::HOURS,
                 "h; certificates have their usual lifetime"));
  }
  return usual;
}

}  // namespace talos::machined
