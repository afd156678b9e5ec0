#include "kubed/manifests/bootstrap-token-reconciler.h"

#include <kj/encoding.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/memory/zeroize.h"
#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {
namespace {

constexpr auto kTokenCheck = 5 * kj::MINUTES;
constexpr kj::StringPtr kNamespace = "kube-system"_kj;

std::string toStd(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

kj::String nameOfToken(kj::StringPtr id) {
  return kj::str("bootstrap-token-", id);
}

// Decodes a value of the Secret, which is in base64.
kj::String valueOf(const kube::Json& secret, kj::StringPtr key) {
  auto bytes = kj::decodeBase64(kube::textAt(secret, {"data", key}));
  KJ_DEFER(zeroize(bytes));
  return kj::heapString(bytes.asChars());
}

}  // namespace

kube::Json tokenObject(kj::StringPtr id, kj::StringPtr secret, kj::Date end) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", {{"name", toStd(nameOfToken(id))}, {"namespace", toStd(kNamespace)}}},
          {"type", "bootstrap.kubernetes.io/token"},
          {"stringData",
           {{"token-id", toStd(id)},
            {"token-secret", toStd(secret)},
            {"expiration", toStd(dateText(end))},
            {"usage-bootstrap-authentication", "true"}}}};
}

kj::Maybe<kube::Json> tokenRenewal(const kube::Json& there, kj::StringPtr secret, kj::Date now) {
  auto held = valueOf(there, "token-secret");
  KJ_DEFER(zeroize(held.asArray()));
  bool same = held == secret;
  KJ_IF_MAYBE (end, parseDate(valueOf(there, "expiration"))) {
    // An end that is too far away is not ours.
    bool good = *end > now + kTokenLifetime / 2 && *end <= now + kTokenLifetime;
    if (same && good) return nullptr;
  }
  return kube::Json{
      {"stringData",
       {{"token-secret", toStd(secret)}, {"expiration", toStd(dateText(now + kTokenLifetime))}}}};
}

kj::Promise<void> BootstrapTokenReconciler::run() {
  for (;;) {
    auto change = deps.changed.next();
    kj::Maybe<kj::String> failure;
    auto pause = kTokenCheck;
    co_await renew().catch_([&](kj::Exception&& e) { failure = messageOf(e); });
    KJ_IF_MAYBE (error, failure) {
      if (failed != *error) {
        log::warn("cannot renew the bootstrap token; retrying", {{"error", *error}});
      }
      failed = kj::mv(*error);
      pause = backoff.next(deps.random());
    } else {
      failed = nullptr;
      backoff.reset();
    }
    co_await change.exclusiveJoin(deps.timer.afterDelay(pause));
  }
}

kj::Promise<void> BootstrapTokenReconciler::renew() {
  auto client = deps.adapter.client();
  auto token = deps.adapter.token();
  if (token.id.size() == 0 || deps.adapter.obstacle() != nullptr) co_return;
  KJ_IF_MAYBE (kubernetes, client.tryGet<kj::Own<SharedKube>>()) {
    auto& api = ***kubernetes;
    auto secrets = kube::coreResource("secrets", "Secret");
    auto name = nameOfToken(token.id);
    kj::Maybe<kube::Json> there;
    co_await api.get(secrets, kNamespace, name)
        .then([&](kube::Json found) { there = kj::mv(found); },
              [](kj::Exception&& e) {
                if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
              });
    KJ_IF_MAYBE (secret, there) {
      KJ_DEFER(kube::wipe(*secret));
      auto renewal = tokenRenewal(*secret, token.secret, deps.clock.now());
      KJ_IF_MAYBE (patch, renewal) {
        KJ_DEFER(kube::wipe(*patch));
        co_await api.patch(kube::Patch::kMerge, secrets, kNamespace, name, *patch, kFieldManager)
            .ignoreResult();
        log::info("renewed the bootstrap token", {{"id", token.id}});
      }
    } else {
      auto object = tokenObject(token.id, token.secret, deps.clock.now() + kTokenLifetime);
      KJ_DEFER(kube::wipe(object));
      auto made = co_await api.create(secrets, kNamespace, object, kFieldManager);
      // Another client was faster, perhaps with another end or without one.
      if (made == nullptr) co_return co_await renew();
      log::info("created the bootstrap token", {{"id", token.id}});
    }
  }
}

}  // namespace talos::kubed
