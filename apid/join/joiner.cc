#include "apid/join/joiner.h"

#include <kj/debug.h>

#include <algorithm>

#include "apid/join/current-certificate.h"
#include "apid/join/requested-names.h"
#include "common/base/backoff.h"
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/join-token.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/base/signal.h"
#include "common/base/within.h"
#include "common/text/foreign-text.h"
#include "common/text/secret-text.h"
#include "common/wire/rpc-server.h"

namespace talos::apid {
namespace {

constexpr size_t kMostText = 300;  // limit for another node's error
constexpr auto kResolveTimeout = 10 * kj::SECONDS;

// Returns the text as a field, without the token if a server repeats it.
kj::String presentable(kj::StringPtr text, kj::StringPtr token) {
  return fieldText(withoutSecret(text, token), kMostText);
}

kj::String seconds(kj::Duration duration) {
  return kj::str((duration + 999 * kj::MILLISECONDS) / kj::SECONDS, " s");
}

bool same(const kj::Vector<kj::String>& a, const kj::Vector<kj::String>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool sameConfig(const JoinConfig& a, const JoinConfig& b) {
  return same(a.endpoints, b.endpoints) && kj::StringPtr(a.token) == kj::StringPtr(b.token) &&
         kj::StringPtr(a.key) == kj::StringPtr(b.key) && a.authority == b.authority &&
         a.authorityHash == b.authorityHash && a.accepted == b.accepted &&
         a.commonName == b.commonName && same(a.dnsNames, b.dnsNames) &&
         same(a.addresses, b.addresses);
}

// Keeps the config that a request in progress started with.
struct HeldConfig : kj::Refcounted {
  explicit HeldConfig(JoinConfig config) : config(kj::mv(config)) {}
  const JoinConfig config;
};

}  // namespace

struct Joiner::State {
  kj::Timer& timer;
  const kj::Clock& clock;
  Dependencies& deps;
  bool configKnown = false, identityKnown = false;
  kj::Maybe<kj::Own<HeldConfig>> config;
  CurrentCertificate current;
  kj::TimePoint addressesAgain;
  int64_t epoch = 0;
  kj::String issuer;       // address of trustd
  kj::String beingStored;  // the certificate, while it is being stored

  Backoff backoff{{Joiner::kFirstPause, Joiner::kLongestPause, 2, 0.75, 1.25}};
  kj::String lastGood;  // last endpoint that issued a certificate
  // Names of the next request, and the last refusal of names.
  Names requested = Names::kAll;
  kj::String refusal;
  bool answered = false;  // The last request was answered: a later error concerns the answer.
  // While the certificate lacks names, all are requested again, long before the renewal: the
  // kubelet of a worker waits for the host name.
  Backoff namesBackoff{{Joiner::kFirstNamesPause, Joiner::kLongestNamesPause, 2, 0.75, 1.25}};
  Backoff earlyBackoff{{Joiner::kFirstEarlyPause, Joiner::kLongestEarlyPause, 2, 0.75, 1.25}};
  bool early = false;  // the last refusal came from a trustd that signs no names yet
  kj::TimePoint namesAgain;
  bool warned = false;    // warned about an unverified trustd
  kj::String lastLogged;  // errors of the last failure
  Signal changed;

  State(kj::Timer& timer, const kj::Clock& clock, Dependencies& deps)
      : timer(timer),
        clock(clock),
        deps(deps),
        current(timer, clock),
        addressesAgain(timer.now()),
        namesAgain(timer.now()) {}

  // --- reports ---

  void report(const JoinConfig& config, kj::StringPtr endpoint, kj::StringPtr message) {
    JoinReport result;
    kj::String prefix;
    KJ_IF_MAYBE (held, current.identity) {
      kj::runCatchingExceptions([&] {
        auto life = current.lifeOf(pki::inspect(held->certificate));
        result.ready = current.isValid(life);
        result.notBefore = life.notBefore;
        result.notAfter = life.notAfter;
        if (!result.ready) {
          prefix = kj::str(messages::kOwnCertificate, dateText(life.notBefore), " to ",
                           dateText(life.notAfter), ", but the clock shows ", dateText(clock.now()),
                           "; ");
        }
      });
    }
    result.endpoint = kj::str(endpoint);
    result.message = kj::str(prefix, message);
    result.failures = backoff.failures();
    result.verified = kj::str(configured(config).kind());
    deps.report(kj::mv(result));
  }

  void reportValid(const JoinConfig& config, kj::Duration left) {
    auto message = current.clockSet
                       ? kj::str("certificate will be renewed at ", dateText(clock.now() + left))
                       : kj::str("certificate will be renewed in ", seconds(left),
                                 "; its times are checked when the clock is set");
    if (current.granted != Names::kAll) {
      message = kj::str(message, "; it names ", describe(current.granted), " only: ", refusal,
                        "; all names are asked for again in ", seconds(untilNames()));
    }
    if (current.isOfOther(config)) {
      message = kj::str(message,
                        "; it is of a CA that the config accepts beside its own, whose is asked "
                        "for in ",
                        seconds(untilNames()));
    }
    if (configured(config).kind() == "nothing") {
      message = kj::str(message,
                        "; the identity of its issuer is not verified, as the config has neither "
                        "machine.ca nor machine.caHash");
    }
    report(config, issuer, message);
  }

  kj::Duration untilNames() const {
    return std::max<kj::Duration>(namesAgain - timer.now(), 0 * kj::SECONDS);
  }
  void requestNamesLater() {
    namesAgain = timer.now() + (early ? earlyBackoff : namesBackoff).next(deps.random());
  }
  void resetNames() {
    early = false;
    namesBackoff.reset();
    earlyBackoff.reset();
  }

  // --- requests ---

  Pin configured(const JoinConfig& config) const {
    return {.authority = kj::str(config.authority),
            .hash = kj::str(config.authorityHash),
            .at = current.now(),
            .accepted = kj::str(config.accepted)};
  }
  // Returns the pin: without a configured CA, the CA of the first answer is required from then on.
  Pin pinOf(const JoinConfig& config) const {
    auto pin = configured(config);
    KJ_IF_MAYBE (held, current.identity) {
      if (pin.kind() == "nothing") pin.authority = kj::str(held->authority);
    }
    return pin;
  }

  kj::Promise<void> requestFrom(const JoinConfig& config, const Ip& server) {
    report(config, server.toString(), kj::str("requesting a certificate from ", server.toString()));
    auto key = kj::StringPtr(config.key).size() > 0 ? config.key.clone()
                                                    : pki::makeKey(pki::KeyType::kEd25519);
    auto pin = pinOf(config);
    kj::Maybe<Ip> local;
    bool proves = requested == Names::kAll || requested == Names::kAddresses;
    TrustdRequest trustdRequest{
        .server = server,
        .pin = pinOf(config),
        .token = config.token,
        .held = current.identity.map([](const Identity& held) { return held.clone(); }),
        .addresses = proves ? current.provable() : nullptr,
        .certificateRequest = [&](const Ip& address, kj::ArrayPtr<const Ip> proven) {
          local = address;
          return certificateRequest(config, requested, key, address, proven);
        }};
    kj::Vector<Ip> tried;
    tried.addAll(current.addresses);
    answered = false;
    auto answer =
        co_await within(timer, kAnswerTimeout, deps.requestCertificate(kj::mv(trustdRequest)),
                        kj::str("no answer within ", kAnswerTimeout));
    answered = true;
    checkAnswer(answer, pin, key, KJ_ASSERT_NONNULL(local, "an answer without a request"));
    warnUnverified(config, server);
    Identity fresh =
        dressed({kj::mv(answer.authority), kj::mv(answer.certificate), kj::mv(key)}, config);
    co_await store(fresh);
    take(kj::mv(fresh));
    current.granted = requested;
    current.attempted = kj::mv(tried);
    issuer = server.toString();
  }

  kj::Promise<void> store(const Identity& fresh) {
    beingStored = kj::str(fresh.certificate);
    KJ_DEFER(beingStored = nullptr);
    co_await within(timer, kAnswerTimeout, deps.storeIdentity(fresh),
                    kj::str("the certificate was not stored within ", kAnswerTimeout));
  }

  // Stores the new trusted CAs with the current certificate, which stays valid, without a request
  // to trustd.
  kj::Promise<void> storeDressed(const JoinConfig& config) {
    KJ_IF_MAYBE (held, current.identity) {
      auto fresh = dressed(*held, config);
      co_await store(fresh);
      current.identity = kj::mv(fresh);
    }
  }
  bool isDressed(const JoinConfig& config) const {
    KJ_IF_MAYBE (held, current.identity) {
      auto wanted = dressed(*held, config);
      return wanted.authority == held->authority && wanted.certificate == held->certificate;
    }
    return true;
  }

  kj::Duration untilAddresses() const {
    return std::max<kj::Duration>(addressesAgain - timer.now(), 0 * kj::SECONDS);
  }

  void warnUnverified(const JoinConfig& config, const Ip& server) {
    if (warned || configured(config).kind() != "nothing") return;
    warned = true;
    log::warn(
        "identity of trustd is not verified: the config has neither machine.ca nor machine.caHash",
        {{"server", server.toString()}});
  }

  void take(Identity fresh) {
    current.identity = kj::mv(fresh);
    current.receivedAt = timer.now();
    current.renewalShare = 0.45 + 0.1 * deps.random();
    current.stale = false;
  }

  // Returns the errors of all addresses of one endpoint; empty if one issued a certificate.
  kj::Promise<kj::Vector<kj::String>> tryEndpoint(const JoinConfig& config, kj::StringPtr endpoint,
                                                  kj::Maybe<Names> enough) {
    kj::Vector<kj::String> errors;
    kj::Array<kj::String> found;
    kj::Maybe<kj::String> unresolved;
    co_await within(timer, kResolveTimeout, deps.resolve(endpoint),
                    kj::str("no answer from the name servers within ", kResolveTimeout))
        .then([&](kj::Array<kj::String>&& texts) { found = kj::mv(texts); },
              [&](kj::Exception&& e) { unresolved = messageOf(e); });
    KJ_IF_MAYBE (error, unresolved) {
      errors.add(kj::str(endpoint, ": ", presentable(*error, config.token)));
      co_return kj::mv(errors);
    }
    for (auto& text : found) {
      auto address = Ip::require(text).unmapped();
      kj::Maybe<kj::Exception> failure;
      co_await kj::evalNow([&]() {
        return requestFrom(config, address);
      }).catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
      KJ_IF_MAYBE (e, failure) {
        errors.add(kj::str(text, ": ", presentable(messageOf(*e), config.token)));
        considerNames(*e, config);
        if (isNoBetter(enough)) break;
      } else {
        lastGood = kj::str(endpoint);
        co_return kj::Vector<kj::String>();
      }
    }
    co_return kj::mv(errors);
  }

  // Reduces the names of the next request after a refusal: a name that another node has must not
  // keep this node's API from starting. A round for more names stops at the names that the node
  // already has.
  void considerNames(const kj::Exception& e, const JoinConfig& config) {
    bool tooEarly = kindOf(e) == ErrorKind::kFailedPrecondition && requested < Names::kAddresses;
    bool ofNames = tooEarly || kindOf(e) == ErrorKind::kPermissionDenied ||
                   kindOf(e) == ErrorKind::kInvalidArgument;
    if (answered || !ofNames || (tooEarly && current.hasNames(config))) return;
    early = tooEarly || (early && requested >= Names::kAddresses);
    if (requested < Names::kAddresses) refusal = presentable(messageOf(e), config.token);
    requested = requested == Names::kAddress ? Names::kAll
                : tooEarly                   ? Names::kAddresses
                                             : lessThan(config, requested);
  }
  bool isNoBetter(kj::Maybe<Names> enough) const {
    return enough.map([&](Names e) { return requested >= e; }).orDefault(false);
  }

  // Tries all endpoints once. `enough`: the node has a certificate, so requesting these names or
  // fewer is useless.
  kj::Promise<void> round(const JoinConfig& config, kj::Maybe<Names> enough) {
    kj::Vector<kj::StringPtr> order;
    for (auto& endpoint : config.endpoints) {
      if (endpoint == lastGood) order.add(endpoint);
    }
    for (auto& endpoint : config.endpoints) {
      if (endpoint != lastGood) order.add(endpoint);
    }
    kj::Vector<kj::String> errors;
    for (auto endpoint : order) {
      auto more = co_await tryEndpoint(config, endpoint, enough);
      if (more.empty()) {
        if (current.untilNextRequest(config) != nullptr) {
          succeeded();
          co_return;
        }
        // This certificate is better than none; another request now would give the same.
        errors.add(kj::str(issuer, ": its certificate is not what was requested, or half of its ",
                           "lifetime has passed by this node's clock"));
        break;
      }
      for (auto& error : more) errors.add(kj::mv(error));
      if (isNoBetter(enough)) {
        backoff.reset();
        // The report contains the error, and the log already has it.
        co_return requestNamesLater();
      }
    }
    co_await pause(config, kj::strArray(errors, "; "));
  }

  void succeeded() {
    log::info("certificate of the API received", {{"server", issuer}});
    backoff.reset();
    lastLogged = nullptr;
    KJ_IF_MAYBE (c, config) {
      if (current.isOfOther((*c)->config)) {
        log::warn("trustd signs with another CA than that of the config; it is asked again");
        return requestNamesLater();
      }
    }
    if (current.granted == Names::kAll) return resetNames();
    log::warn("trustd refuses names of this node; they are asked for again",
              {{"error", refusal}, {"certificate", describe(current.granted)}});
    requestNamesLater();
  }

  kj::Promise<void> pause(const JoinConfig& config, kj::String errors) {
    auto delay = backoff.next(deps.random());
    if (errors != lastLogged)
      log::warn("cannot get a certificate for the API; retrying", {{"error", errors}});
    report(config, "", kj::str(errors, "; retry in ", seconds(delay)));
    lastLogged = kj::mv(errors);
    return timer.afterDelay(delay);
  }

  // --- one pass ---

  // Resolves when the next pass is due.
  kj::Promise<void> step() {
    if (!configKnown || !identityKnown) return kj::NEVER_DONE;
    KJ_IF_MAYBE (w, config) {
      auto held = kj::addRef(**w);
      auto promise = stepTowards(held->config);
      return promise.attach(kj::mv(held));
    }
    deps.clearReport();
    return kj::NEVER_DONE;
  }

  kj::Promise<void> stepTowards(const JoinConfig& config) {
    if (kj::StringPtr(config.token).size() == 0) {
      report(config, "", kj::str(messages::kNoToken, ", without which trustd signs nothing"));
      return kj::NEVER_DONE;
    }
    if (isJoinTokenLike(config.token) && kj::StringPtr(config.key).size() == 0) {
      report(config, "", "waiting for the key of the join, which is stored first");
      return kj::NEVER_DONE;
    }
    if (config.endpoints.empty()) {
      report(config, "", kj::str(messages::kNoControlPlane, "; set cluster.controlPlane.endpoint"));
      return kj::NEVER_DONE;
    }
    auto left = current.untilNextRequest(config);
    if (left != nullptr && !isDressed(config)) return storeDressed(config);
    bool forAuthority =
        left != nullptr && current.isOfOther(config) && untilNames() == 0 * kj::SECONDS;
    if (forAuthority) left = nullptr;
    bool forNames =
        left != nullptr && current.granted != Names::kAll && untilNames() == 0 * kj::SECONDS;
    bool forAddresses =
        left != nullptr && current.hasNewAddress() && untilAddresses() == 0 * kj::SECONDS;
    KJ_IF_MAYBE (renewal, left) {
      if (!forNames && !forAddresses) {
        reportValid(config, *renewal);
        auto sleep = std::min<kj::Duration>(*renewal, kLongestSleep);
        if (current.granted != Names::kAll || current.isOfOther(config)) {
          sleep = std::min(sleep, untilNames());
        }
        if (current.hasNewAddress()) sleep = std::min(sleep, untilAddresses());
        return timer.afterDelay(sleep);
      }
    }
    if (forAddresses) addressesAgain = timer.now() + namesBackoff.next(deps.random());
    if (backoff.failures() == 0) requested = Names::kAll;  // The names may be free by now.
    kj::Maybe<Names> enough;
    if (forNames || forAddresses) enough = current.granted;
    if (forAddresses && current.granted == Names::kAddresses) enough = Names::kAddress;
    return round(config, enough);
  }
};

Joiner::Joiner(kj::Timer& timer, const kj::Clock& clock, Dependencies& dependencies)
    : state(kj::heap<State>(timer, clock, dependencies)) {}
Joiner::~Joiner() noexcept(false) {}

void Joiner::setConfig(kj::Maybe<JoinConfig> fresh) {
  bool first = !state->configKnown;
  state->configKnown = true;
  KJ_IF_MAYBE (config, fresh) {
    KJ_IF_MAYBE (old, state->config) {
      if (sameConfig((*old)->config, *config)) return;
      bool newToken = kj::StringPtr((*old)->config.token) != kj::StringPtr(config->token);
      state->current.stale = state->current.stale || newToken;
    }
    state->config = kj::refcounted<HeldConfig>(kj::mv(*config));
  } else {
    if (!first && state->config == nullptr) return;
    state->config = nullptr;
  }
  state->requested = state->current.granted = Names::kAll;
  state->resetNames();
  state->namesAgain = state->timer.now();
  state->backoff.reset();
  state->changed.raise();
}

void Joiner::setIdentity(kj::Maybe<Identity> fresh) {
  bool first = !state->identityKnown;
  state->identityKnown = true;
  KJ_IF_MAYBE (identity, fresh) {
    KJ_IF_MAYBE (held, state->current.identity) {
      if (held->certificate == identity->certificate && held->authority == identity->authority) {
        return;
      }
    }
    if (identity->certificate == state->beingStored) return;  // requestFrom() sets it
    state->take(kj::mv(*identity));
  } else {
    if (!first && state->current.identity == nullptr) return;
    state->current.identity = nullptr;
  }
  state->changed.raise();
}

void Joiner::setClock(bool synced, int64_t epoch) {
  if (synced == state->current.clockSet && epoch == state->epoch) return;
  state->current.clockSet = synced;
  state->epoch = epoch;
  state->backoff.reset();
  state->changed.raise();
}

void Joiner::setAddresses(kj::ArrayPtr<const Ip> addresses) {
  auto& known = state->current.addresses;
  if (std::equal(known.begin(), known.end(), addresses.begin(), addresses.end())) return;
  known.clear();
  known.addAll(addresses);
  state->addressesAgain = state->timer.now() + kNewAddressPause;
  state->changed.raise();
}

kj::Promise<void> Joiner::run() {
  for (;;) {
    auto change = state->changed.next();
    kj::Maybe<kj::String> failure;
    co_await kj::evalNow([this]() { return state->step(); })
        .exclusiveJoin(kj::mv(change))
        .catch_([&](kj::Exception&& e) { failure = messageOf(e); });
    KJ_IF_MAYBE (error, failure) {
      log::error("cannot request a certificate; retrying", {{"error", *error}});
      co_await state->timer.afterDelay(kLongestPause);
    }
  }
}

}  // namespace talos::apid
