#include "apid/join/joiner.h"

#include <kj/debug.h>

#include <algorithm>

#include "common/base/backoff.h"
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/signal.h"
#include "common/base/texts.h"
#include "common/base/within.h"
#include "common/tls/node-certificate.h"
#include "common/wire/rpc-server.h"

namespace talos::apid {
namespace {

constexpr size_t kMostText = 300;  // of what another machine said
constexpr auto kResolve = 10 * kj::SECONDS;

bool same(const kj::Vector<kj::String>& a, const kj::Vector<kj::String>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

template <typename T>
bool contains(const kj::Vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool inside(const kj::Vector<kj::String>& part, const kj::Vector<kj::String>& whole) {
  return std::all_of(part.begin(), part.end(),
                     [&](const kj::String& text) { return contains(whole, text); });
}

// One line without the token, whoever repeats it.
kj::String presentable(kj::StringPtr text, kj::StringPtr token) {
  kj::Vector<char> out;
  for (size_t i = 0; i < text.size() && out.size() < kMostText;) {
    if (token.size() > 0 && text.slice(i).startsWith(token)) {
      out.addAll("***"_kj);
      i += token.size();
    } else {
      out.add(static_cast<unsigned char>(text[i]) < ' ' ? ' ' : text[i]);
      ++i;
    }
  }
  return kj::heapString(out.asPtr());
}

kj::String seconds(kj::Duration duration) {
  return kj::str((duration + 999 * kj::MILLISECONDS) / kj::SECONDS, " s");
}

bool sameWish(const JoinWish& a, const JoinWish& b) {
  return same(a.endpoints, b.endpoints) && kj::StringPtr(a.token) == kj::StringPtr(b.token) &&
         a.authority == b.authority && a.authorityHash == b.authorityHash &&
         a.commonName == b.commonName && same(a.dnsNames, b.dnsNames) &&
         same(a.addresses, b.addresses);
}

// What is under way goes on with the wish that it began with.
struct HeldWish : kj::Refcounted {
  explicit HeldWish(JoinWish wish) : wish(kj::mv(wish)) {}
  const JoinWish wish;
};

}  // namespace

struct Joiner::State {
  Dependencies deps;
  bool wishKnown = false, identityKnown = false;
  kj::Maybe<kj::Own<HeldWish>> wish;
  kj::Maybe<Identity> identity;
  kj::Vector<Ip> addresses;
  bool clockSet = false;
  int64_t epoch = 0;

  // Of the identity: when it was first seen here, and where in its life it is renewed.
  kj::TimePoint seen;
  double share = 0.5;
  bool stale = false;  // to be renewed whatever it says: the token is another one
  kj::String from;     // the address that gave it

  kj::String beingKept;  // a certificate that is on its way into the store

  Backoff backoff{{Joiner::kFirstPause, Joiner::kLongestPause, 2, 0.75, 1.25}};
  kj::String lastGood;                 // endpoint
  kj::Maybe<kj::String> namesRefused;  // then only the address is asked for
  bool warned = false;                 // of a trustd that nobody verified
  kj::String lastLogged;               // the reasons of the last failure
  Signal changed;

  explicit State(Dependencies deps) : deps(kj::mv(deps)), seen(this->deps.timer.now()) {}

  kj::Maybe<kj::Date> now() const {
    if (clockSet) return deps.clock.now();
    return nullptr;
  }

  // --- the certificate that is there ---

  struct Life {
    kj::Date notBefore, notAfter;
    kj::Duration length;  // from its issue
    kj::Date issued;
  };
  static Life lifeOf(const pki::CertificateInfo& info) {
    auto issued = info.notBefore + kBackdated;
    if (issued >= info.notAfter) issued = info.notBefore;
    return {info.notBefore, info.notAfter, info.notAfter - issued, issued};
  }

  kj::Duration untilRenewal(const Life& life) const {
    auto part = int64_t(double(life.length / kj::NANOSECONDS) * share) * kj::NANOSECONDS;
    if (clockSet) return life.issued + part - deps.clock.now();
    return seen + part - deps.timer.now();
  }
  bool isValid(const Life& life) const {
    if (!clockSet) return true;
    auto at = deps.clock.now();
    return at >= life.notBefore && at < life.notAfter;
  }

  // Whether it is what the config and the machine's addresses ask for by now.
  bool fits(const Identity& held, const pki::CertificateInfo& info, const JoinWish& wish) const {
    if (wish.authority.size() > 0 && !pki::sameCertificate(held.authority, wish.authority)) {
      return false;
    }
    if (wish.authorityHash.size() > 0 && pki::authorityHash(held.authority) != wish.authorityHash) {
      return false;
    }
    bool known = addresses.size() > 0, own = !known, others = false;
    for (auto& text : info.addresses) {
      bool ours = false;
      KJ_IF_MAYBE (address, Ip::parse(text)) ours = contains(addresses, address->unmapped());
      own = own || ours;
      others = others || !(ours || contains(wish.addresses, text));
    }
    if (!own) return false;
    if (namesRefused != nullptr) return true;
    return !(known && others) && inside(wish.addresses, info.addresses) &&
           inside(wish.dnsNames, info.dnsNames) && inside(info.dnsNames, wish.dnsNames);
  }

  // How long it can stay; none when there is nothing to stay.
  kj::Maybe<kj::Duration> mayStay(const JoinWish& wish) const {
    KJ_IF_MAYBE (held, identity) {
      if (stale) return nullptr;
      kj::Maybe<kj::Duration> left;
      kj::runCatchingExceptions([&] {  // one that cannot be read is none
        auto info = pki::inspect(held->certificate);
        auto life = lifeOf(info);
        auto rest = untilRenewal(life);
        if (isValid(life) && rest > 0 * kj::SECONDS && fits(*held, info, wish)) left = rest;
      });
      return left;
    }
    return nullptr;
  }

  // --- what is told ---

  void tell(const JoinWish& wish, kj::StringPtr endpoint, kj::StringPtr message) {
    JoinReport report;
    kj::String prefix;
    KJ_IF_MAYBE (held, identity) {
      kj::runCatchingExceptions([&] {
        auto life = lifeOf(pki::inspect(held->certificate));
        report.ready = isValid(life);
        report.notBefore = life.notBefore;
        report.notAfter = life.notAfter;
        if (!report.ready) {
          prefix = kj::str("the certificate is valid from ", dateText(life.notBefore), " to ",
                           dateText(life.notAfter), ", but the clock shows ",
                           dateText(deps.clock.now()), "; ");
        }
      });
    }
    report.endpoint = kj::str(endpoint);
    report.message = kj::str(prefix, message);
    report.failures = backoff.failures();
    report.verified = kj::str(configured(wish).kind());
    deps.tell(kj::mv(report));
  }

  void tellGood(const JoinWish& wish, kj::Duration left) {
    auto message =
        clockSet ? kj::str("certificate will be renewed at ", dateText(deps.clock.now() + left))
                 : kj::str("certificate will be renewed in ", seconds(left),
                           "; its times are checked when the clock is set");
    KJ_IF_MAYBE (why, namesRefused) {
      message = kj::str(message, "; it names the address only: ", *why);
    }
    if (configured(wish).kind() == "nothing") {
      message = kj::str(message,
                        "; the identity of its issuer is not verified, as the config has neither "
                        "machine.ca nor machine.caHash");
    }
    tell(wish, from, message);
  }

  // --- asking ---

  Pin configured(const JoinWish& wish) const {
    return {kj::str(wish.authority), kj::str(wish.authorityHash), now()};
  }
  // The first authority that was believed is the one from then on.
  Pin pinOf(const JoinWish& wish) const {
    auto pin = configured(wish);
    KJ_IF_MAYBE (held, identity) {
      if (pin.kind() == "nothing") pin.authority = kj::str(held->authority);
    }
    return pin;
  }

  kj::String request(const JoinWish& wish, kj::StringPtr key, const Ip& local) const {
    pki::LeafOptions options;
    kj::Vector<kj::String> all;
    all.add(local.toString());
    if (namesRefused == nullptr) {
      options.commonName = wish.commonName;
      options.dnsNames = copyOf(wish.dnsNames);
      for (auto& address : wish.addresses) {
        if (address != all[0]) all.add(kj::str(address));
      }
    }
    options.addresses = all.releaseAsArray();
    return pki::makeRequest(key, options);
  }

  kj::Promise<void> askAt(const JoinWish& wish, const Ip& to) {
    tell(wish, to.toString(), kj::str("requesting a certificate from ", to.toString()));
    auto key = pki::makeKey(pki::KeyType::kEd25519);
    auto pin = pinOf(wish);
    kj::Maybe<Ip> local;
    JoinQuestion question{to, pinOf(wish), wish.token, [&](const Ip& seenAs) {
                            local = seenAs;
                            return request(wish, key, seenAs);
                          }};
    auto answer = co_await within(deps.timer, kAnswer, deps.ask(kj::mv(question)),
                                  kj::str("no answer within ", kAnswer));
    checkAnswer(answer, pin, key, KJ_ASSERT_NONNULL(local, "an answer without a request"));
    warnUnverified(wish, to);
    Identity fresh{kj::mv(answer.authority), kj::mv(answer.certificate), kj::mv(key)};
    beingKept = kj::str(fresh.certificate);
    KJ_DEFER(beingKept = nullptr);
    co_await within(deps.timer, kAnswer, deps.keep(fresh),
                    kj::str("the certificate was not stored within ", kAnswer));
    take(kj::mv(fresh));
    from = to.toString();
  }

  void warnUnverified(const JoinWish& wish, const Ip& to) {
    if (warned || configured(wish).kind() != "nothing") return;
    warned = true;
    log::warn(
        "identity of trustd is not verified: the config has neither machine.ca nor machine.caHash",
        {{"server", to.toString()}});
  }

  void take(Identity fresh) {
    identity = kj::mv(fresh);
    seen = deps.timer.now();
    share = 0.45 + 0.1 * deps.chance();
    stale = false;
  }

  // What went wrong at the addresses of one endpoint; empty when one gave a certificate.
  kj::Promise<kj::Vector<kj::String>> askEndpoint(const JoinWish& wish, kj::StringPtr endpoint) {
    kj::Vector<kj::String> reasons;
    kj::Array<kj::String> found;
    kj::Maybe<kj::String> unresolved;
    co_await within(deps.timer, kResolve, deps.resolve(endpoint),
                    kj::str("no answer from the name servers within ", kResolve))
        .then([&](kj::Array<kj::String>&& texts) { found = kj::mv(texts); },
              [&](kj::Exception&& e) { unresolved = messageOf(e); });
    KJ_IF_MAYBE (why, unresolved) {
      reasons.add(kj::str(endpoint, ": ", presentable(*why, wish.token)));
      co_return kj::mv(reasons);
    }
    for (auto& text : found) {
      auto address = Ip::require(text).unmapped();
      kj::Maybe<kj::Exception> failure;
      co_await kj::evalNow([&]() { return askAt(wish, address); }).catch_([&](kj::Exception&& e) {
        failure = kj::mv(e);
      });
      KJ_IF_MAYBE (e, failure) {
        reasons.add(kj::str(text, ": ", presentable(messageOf(*e), wish.token)));
        considerNames(*e, wish);
      } else {
        lastGood = kj::str(endpoint);
        co_return kj::Vector<kj::String>();
      }
    }
    co_return kj::mv(reasons);
  }

  // Another machine's name must not keep this one's API from coming up: the next request is for the
  // address alone.
  void considerNames(const kj::Exception& e, const JoinWish& wish) {
    if (kindOf(e) != ErrorKind::kPermissionDenied) return;
    if (namesRefused == nullptr) {
      namesRefused = presentable(messageOf(e), wish.token);
    } else {
      namesRefused = nullptr;
    }
  }

  // All endpoints once.
  kj::Promise<void> round(const JoinWish& wish) {
    kj::Vector<kj::StringPtr> order;
    for (auto& endpoint : wish.endpoints) {
      if (endpoint == lastGood) order.add(endpoint);
    }
    for (auto& endpoint : wish.endpoints) {
      if (endpoint != lastGood) order.add(endpoint);
    }
    kj::Vector<kj::String> reasons;
    for (auto endpoint : order) {
      auto more = co_await askEndpoint(wish, endpoint);
      if (more.empty()) {
        if (mayStay(wish) != nullptr) {
          succeeded();
          co_return;
        }
        // Better than none, but to ask again at once would give the same.
        reasons.add(kj::str(from, ": its certificate is not what was requested, or half of its ",
                            "lifetime has passed by this node's clock"));
        break;
      }
      for (auto& reason : more) reasons.add(kj::mv(reason));
    }
    co_await pause(wish, kj::strArray(reasons, "; "));
  }

  void succeeded() {
    log::info("certificate of the API received", {{"server", from}});
    backoff.reset();
    lastLogged = nullptr;
  }

  kj::Promise<void> pause(const JoinWish& wish, kj::String reasons) {
    auto delay = backoff.next(deps.chance());
    if (reasons != lastLogged)
      log::warn("cannot get a certificate for the API; retrying", {{"error", reasons}});
    tell(wish, "", kj::str(reasons, "; retry in ", seconds(delay)));
    lastLogged = kj::mv(reasons);
    return deps.timer.afterDelay(delay);
  }

  // --- one look at everything ---

  // Until something is to be looked at again.
  kj::Promise<void> step() {
    if (!wishKnown || !identityKnown) return kj::NEVER_DONE;
    KJ_IF_MAYBE (w, wish) {
      auto held = kj::addRef(**w);
      auto promise = stepTowards(held->wish);
      return promise.attach(kj::mv(held));
    }
    deps.forget();
    return kj::NEVER_DONE;
  }

  kj::Promise<void> stepTowards(const JoinWish& wish) {
    if (kj::StringPtr(wish.token).size() == 0) {
      tell(wish, "", "the config has no machine.token, without which trustd signs nothing");
      return kj::NEVER_DONE;
    }
    if (wish.endpoints.empty()) {
      tell(wish, "",
           "the config names no control plane; set cluster.controlPlane.endpoint or "
           "cluster.trustd.endpoints");
      return kj::NEVER_DONE;
    }
    KJ_IF_MAYBE (left, mayStay(wish)) {
      tellGood(wish, *left);
      return deps.timer.afterDelay(std::min<kj::Duration>(*left, kLongestSleep));
    }
    if (backoff.failures() == 0) namesRefused = nullptr;  // whoever had them may be gone
    return round(wish);
  }
};

Joiner::Joiner(Dependencies deps) : state(kj::heap<State>(kj::mv(deps))) {}
Joiner::~Joiner() noexcept(false) {}

void Joiner::want(kj::Maybe<JoinWish> fresh) {
  bool first = !state->wishKnown;
  state->wishKnown = true;
  KJ_IF_MAYBE (wish, fresh) {
    KJ_IF_MAYBE (old, state->wish) {
      if (sameWish((*old)->wish, *wish)) return;
      state->stale =
          state->stale || kj::StringPtr((*old)->wish.token) != kj::StringPtr(wish->token);
    }
    state->wish = kj::refcounted<HeldWish>(kj::mv(*wish));
  } else {
    if (!first && state->wish == nullptr) return;
    state->wish = nullptr;
  }
  state->namesRefused = nullptr;
  state->backoff.reset();
  state->changed.raise();
}

void Joiner::have(kj::Maybe<Identity> fresh) {
  bool first = !state->identityKnown;
  state->identityKnown = true;
  KJ_IF_MAYBE (identity, fresh) {
    KJ_IF_MAYBE (held, state->identity) {
      if (held->certificate == identity->certificate) return;
    }
    if (identity->certificate == state->beingKept) return;  // whoever keeps it goes on
    state->take(kj::mv(*identity));
  } else {
    if (!first && state->identity == nullptr) return;
    state->identity = nullptr;
  }
  state->changed.raise();
}

void Joiner::clockIs(bool set, int64_t epoch) {
  if (set == state->clockSet && epoch == state->epoch) return;
  state->clockSet = set;
  state->epoch = epoch;
  state->backoff.reset();
  state->changed.raise();
}

void Joiner::addressesAre(kj::ArrayPtr<const Ip> addresses) {
  auto& known = state->addresses;
  if (std::equal(known.begin(), known.end(), addresses.begin(), addresses.end())) return;
  known.clear();
  known.addAll(addresses);
  state->changed.raise();
}

kj::Promise<void> Joiner::run() {
  for (;;) {
    auto change = state->changed.next();
    kj::Maybe<kj::String> failure;
    co_await kj::evalNow([this]() { return state->step(); })
        .exclusiveJoin(kj::mv(change))
        .catch_([&](kj::Exception&& e) { failure = messageOf(e); });
    KJ_IF_MAYBE (why, failure) {
      log::error("cannot request a certificate; retrying", {{"error", *why}});
      co_await state->deps.timer.afterDelay(kLongestPause);
    }
  }
}

}  // namespace talos::apid
