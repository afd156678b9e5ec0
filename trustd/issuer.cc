#include "trustd/issuer.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/base/sha256.h"
#include "common/text/texts.h"
#include "common/tls/held-message.h"

namespace talos::trustd {
namespace {

// Explains the refusal. Its receiver has the secret, so no other caller learns of the token.
// Refuses without back-off: a node retries every few seconds, and its status must show why it gets
// no certificate.
kj::Exception refusalOf(const ShownToken& shown, kj::Maybe<kj::String> ofCertificate) {
  using State = ShownToken::State;
  if (shown.state == State::kUnverified) {
    return error(ErrorKind::kUnavailable,
                 kj::str(messages::kUnverifiedToken, shown.error, "; retry"));
  }
  auto how = shown.state == State::kExpired ? "expired"_kj
             : shown.state == State::kRevoked
                 ? "was revoked"_kj
                 : "was used by another node, or by this one before it "
                   "lost its key,"_kj;
  auto refused = kj::str(messages::kJoinToken, shown.id, " ", how, " at ", dateText(shown.since),
                         "; use a new one");
  KJ_IF_MAYBE (e, ofCertificate) {
    refused = kj::str(refused, " (the present certificate renews nothing: ", *e, ")");
  }
  return error(ErrorKind::kUnauthenticated, refused);
}

}  // namespace

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

Issuer::Access Issuer::authorize(kj::StringPtr token, const HeldCertificate& given,
                                 kj::StringPtr message, const Ip& caller,
                                 kj::Maybe<const ShownToken&> shown) {
  using State = ShownToken::State;
  auto& by = KJ_UNWRAP_OR(held, {
    fail(ErrorKind::kUnavailable, "this node does not have the key of the CA yet; retry");
  });
  // Checked before any back-off: failing callers must not lock out others with the same address.
  if (isSameSecret(token, by.authority.token)) return {by, nullptr, nullptr, true};
  kj::Maybe<const ShownToken&> join;
  KJ_IF_MAYBE (s, shown) {
    if (s->state == State::kUnused) return {by, nullptr, *s, true};
    if (s->state != State::kUnknown) join = *s;
  }
  kj::Maybe<pki::CertificateInfo> renews;
  kj::Maybe<kj::String> error;
  if (given.certificate.size() > 0) {
    auto failure = kj::runCatchingExceptions(
        [&] { renews = verifyHeld(given, message, by.authority.certificate, clock.now()); });
    KJ_IF_MAYBE (e, failure) error = messageOf(*e);
  }
  KJ_IF_MAYBE (s, join) {
    if (s->state == State::kUsed) return {by, kj::mv(renews), *s};
    if (renews == nullptr) refuseShown(*s, caller, kj::mv(error));
  }
  if (renews == nullptr) refuseToken(caller, kj::mv(error));
  return {by, kj::mv(renews), nullptr};
}

kj::Array<kj::byte> Issuer::prove(kj::StringPtr token, const Ip& caller, HeldCertificate given,
                                  kj::Maybe<const ShownToken&> shown) {
  auto access = authorize(token, given, messageToProve(), caller, shown);
  if (access.provesToken) throttle.succeeded(caller);
  return proofs.make(caller);
}

void Issuer::requireSpent(const Issued& issued, const ShownToken& spent, const Ip& caller) {
  bool mine =
      spent.state == ShownToken::State::kUsed && spent.fingerprint == issued.record.fingerprint;
  if (mine) return;
  if (spent.state == ShownToken::State::kUnknown) refuseToken(caller, nullptr);
  refuseShown(spent, caller, nullptr);
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
                             kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> given,
                             HeldCertificate certificate, kj::Maybe<const ShownToken&> shown) {
  // Before the request is hashed or parsed: its sender is still unknown.
  if (request.size() > kMostRequestBytes) certificate = {};
  auto access = authorize(token, certificate, messageToRenew(request), caller, shown);
  kj::Maybe<Issued> issued;
  auto refusal =
      kj::runCatchingExceptions([&]() { issued = sign(access, request, caller, provenBy(given)); });
  KJ_IF_MAYBE (e, refusal) {
    logRefused(caller, messageOf(*e));
    kj::throwFatalException(kj::mv(*e));
  }
  if (access.provesToken) throttle.succeeded(caller);
  return kj::mv(KJ_ASSERT_NONNULL(issued));
}

void Issuer::refuseToken(const Ip& caller, kj::Maybe<kj::String> ofCertificate) {
  auto now = monotonic.now();
  auto wait = throttle.wait(caller, now);
  if (wait > 0 * kj::SECONDS) {
    fail(ErrorKind::kUnavailable, kj::str(messages::kTooManyFailed, caller.toString(),
                                          "; retry in ", wait / kj::MILLISECONDS, " ms"));
  }
  throttle.failed(caller, now);
  auto wrong = kj::str(messages::kWrongToken,
                       "; use machine.token of the control-plane nodes, or a join token");
  KJ_IF_MAYBE (error, ofCertificate) {
    wrong = kj::str(wrong, " (the present certificate renews nothing: ", *error, ")");
  }
  logRefused(caller, wrong);
  fail(ErrorKind::kUnauthenticated, wrong);
}

void Issuer::refuseShown(const ShownToken& shown, const Ip& caller,
                         kj::Maybe<kj::String> ofCertificate) {
  auto refusal = refusalOf(shown, kj::mv(ofCertificate));
  logRefused(caller, messageOf(refusal));
  kj::throwFatalException(kj::mv(refusal));
}

void Issuer::logRefused(const Ip& caller, kj::StringPtr error) {
  lines.warn("certificate request refused", holderOf(caller).toString(), caller.toString(), error);
}

Issuer::Issued Issuer::sign(const Access& access, kj::StringPtr request, const Ip& caller,
                            kj::ArrayPtr<const Ip> proven) {
  auto& by = access.by;
  if (request.size() > kMostRequestBytes) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request has ", request.size(), " bytes; at most ", kMostRequestBytes));
  }
  auto now = clock.now();
  auto lifetime = by.authority.lifetime;
  Grant grant;
  bool spends = false, renewal = false;
  // True if it is certain that no control-plane node has these names: this node knows the other
  // nodes, or the administrator has bound the join token to a name.
  bool decided = by.authority.controlPlaneKnown;
  kj::String joinToken;
  auto made = by.signer.sign(request, [&](const pki::RequestInfo& info) {
    grant = decide(info, caller, by.authority.reserved, book, by.authority.anyAddress, now,
                   now + lifetime, proven);
    bool joins = false;
    KJ_IF_MAYBE (join, access.join) {
      bool used = join->state == ShownToken::State::kUsed;
      joins = !used || join->fingerprint == info.fingerprint;
      if (!joins && access.renews == nullptr) {
        kj::throwFatalException(refusalOf(*join, nullptr));
      }
      if (joins) requireBound(grant, join->id, join->hostname);
      if (joins && join->hostname.size() > 0) decided = true;
      if (joins) joinToken = kj::str(join->id);
      spends = joins && !used;
    }
    if (!joins) {
      KJ_IF_MAYBE (held, access.renews) requireNoMore(grant, *held);
    }
    renewal = !joins && access.renews != nullptr;
    if (!decided && !renewal) requireKnown(grant, book, caller, now);
    return pki::LeafOptions{.dnsNames = copyOf(grant.dnsNames),
                            .addresses = copyOf(grant.addresses),
                            .server = true,
                            .client = false,
                            .lifetime = lifetime + kBackdated,
                            .notBefore = now - kBackdated};
  });
  Issued issued{kj::str(by.authority.certificate),
                kj::mv(made.certificate),
                {},
                spends,
                {book, grant.dnsNames, caller, now - kBackdated, now + lifetime}};
  auto& record = issued.record;
  record.serial = kj::mv(made.serial);
  record.fingerprint = kj::mv(made.fingerprint);
  record.caller = caller;
  record.renewal = renewal;
  record.joinToken = kj::mv(joinToken);
  record.dnsNames = kj::mv(grant.dnsNames);
  record.addresses = kj::mv(grant.addresses);
  record.issued = now;
  record.notBefore = now - kBackdated;
  record.notAfter = now + lifetime;
  return issued;
}

}  // namespace talos::trustd
