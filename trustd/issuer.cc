#include "trustd/issuer.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/base/same-secret.h"
#include "common/text/texts.h"

namespace talos::trustd {
Issuer::Issuer(const kj::Clock& clock, const kj::MonotonicClock& monotonic)
    : clock(clock), monotonic(monotonic), proofs(monotonic), lines(monotonic) {}

void Issuer::use(Authority next) {
  pki::Signer signer(next.certificate, next.key);
  held = Held{kj::mv(next), kj::mv(signer)};
}

void Issuer::forgetAuthority() {
  held = nullptr;
}

void Issuer::remember(const Record& record) {
  for (auto& name : record.dnsNames) {
    book.enter(name, record.caller, record.notBefore, record.notAfter);
  }
}

const Issuer::Held& Issuer::authorize(kj::StringPtr token, const Ip& caller) {
  auto& by = KJ_UNWRAP_OR(held, {
    fail(ErrorKind::kUnavailable, "this node does not have the key of the CA yet; retry");
  });
  // Before any back-off: failing callers must not lock out others behind the same address.
  if (!isSameSecret(token, by.authority.token)) refuseToken(caller);
  return by;
}

kj::Array<kj::byte> Issuer::prove(kj::StringPtr token, const Ip& caller) {
  authorize(token, caller);
  throttle.succeeded(caller);
  return proofs.make(caller);
}

kj::Vector<Ip> Issuer::provenBy(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> given) const {
  if (given.size() > kMostProofs) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request has ", given.size(), " proofs of addresses; at most ", kMostProofs));
  }
  kj::Vector<Ip> proven;
  for (auto proof : given) {
    KJ_IF_MAYBE (address, proofs.check(proof)) proven.add(*address);
  }
  return proven;
}

Issuer::Issued Issuer::issue(kj::StringPtr request, kj::StringPtr token, const Ip& caller,
                             kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> given) {
  auto& by = authorize(token, caller);
  kj::Maybe<Issued> issued;
  auto refusal =
      kj::runCatchingExceptions([&]() { issued = sign(by, request, caller, provenBy(given)); });
  KJ_IF_MAYBE (e, refusal) {
    logRefused(caller, messageOf(*e));
    kj::throwFatalException(kj::mv(*e));
  }
  throttle.succeeded(caller);
  return kj::mv(KJ_ASSERT_NONNULL(issued));
}

void Issuer::refuseToken(const Ip& caller) {
  auto now = monotonic.now();
  auto wait = throttle.wait(caller, now);
  if (wait > 0 * kj::SECONDS) {
    fail(ErrorKind::kUnavailable, kj::str("too many failed requests from ", caller.toString(),
                                          "; retry in ", wait / kj::MILLISECONDS, " ms"));
  }
  throttle.failed(caller, now);
  auto wrong = kj::str(messages::kWrongToken, "; use machine.token of the control-plane nodes");
  logRefused(caller, wrong);
  fail(ErrorKind::kUnauthenticated, wrong);
}

void Issuer::logRefused(const Ip& caller, kj::StringPtr error) {
  lines.warn("certificate request refused", holderOf(caller).toString(), caller.toString(), error);
}

Issuer::Issued Issuer::sign(const Held& by, kj::StringPtr request, const Ip& caller,
                            kj::ArrayPtr<const Ip> proven) {
  if (request.size() > kMostRequestBytes) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request has ", request.size(), " bytes; at most ", kMostRequestBytes));
  }
  auto now = clock.now();
  auto lifetime = by.authority.lifetime;
  Grant grant;
  auto made = by.signer.sign(request, [&](const pki::RequestInfo& info) {
    grant = decide(info, caller, by.authority.reserved, book, by.authority.anyAddress, now,
                   now + lifetime, proven);
    return pki::LeafOptions{.dnsNames = copyOf(grant.dnsNames),
                            .addresses = copyOf(grant.addresses),
                            .server = true,
                            .client = false,
                            .lifetime = lifetime + kBackdated,
                            .notBefore = now - kBackdated};
  });
  Issued issued{kj::str(by.authority.certificate), kj::mv(made.certificate), {}};
  auto& record = issued.record;
  record.serial = kj::mv(made.serial);
  record.fingerprint = kj::mv(made.fingerprint);
  record.caller = caller;
  record.dnsNames = kj::mv(grant.dnsNames);
  record.addresses = kj::mv(grant.addresses);
  record.issued = now;
  record.notBefore = now - kBackdated;
  record.notAfter = now + lifetime;
  remember(record);
  return issued;
}

}  // namespace talos::trustd
