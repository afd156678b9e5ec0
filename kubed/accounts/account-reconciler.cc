#include "kubed/accounts/account-reconciler.h"

#include <algorithm>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {
namespace {

constexpr size_t kMostRefused = 1000;

kube::Resource secrets() {
  return kube::coreResource("secrets", "Secret");
}

// Returns true if the API server cannot be reached now, which affects all accounts.
bool isForAll(const kj::Exception& e) {
  auto kind = kindOf(e);
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded ||
         kind == ErrorKind::kUnauthenticated;
}

kj::Promise<kj::Maybe<kube::Json>> tryGetSecret(kube::KubeClient& kubernetes,
                                                const PodAccount& account) {
  return kubernetes.get(secrets(), account.nameSpace, account.name)
      .then([](kube::Json found) { return kj::Maybe<kube::Json>(kj::mv(found)); },
            [](kj::Exception&& e) -> kj::Maybe<kube::Json> {
              if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
              return nullptr;
            });
}

}  // namespace

kj::Promise<void> AccountReconciler::again() {
  return forwardChanges().exclusiveJoin(listRegularly());
}

kj::Promise<void> AccountReconciler::forwardChanges() {
  for (;;) {
    co_await deps.changed.next();
    wake.raise();
  }
}

kj::Promise<void> AccountReconciler::listRegularly() {
  for (;;) {
    co_await listed.next();
    co_await deps.timer.afterDelay(kAccountsAgain);
    wake.raise();
  }
}

kj::Promise<kj::Maybe<WatchReconciler::Selection>> AccountReconciler::select() {
  kubernetes = nullptr;
  auto client = deps.adapter.client();
  auto wanted = access.policy();
  KJ_IF_MAYBE (found, client.tryGet<kj::Own<SharedKube>>()) {
    KJ_IF_MAYBE (allowed, wanted) {
      if (deps.adapter.machineCa().size() > 0) {
        policy = kj::mv(*allowed);
        kubernetes = kj::addRef(**found);
        return kj::Maybe<Selection>(
            Selection{.kubernetes = kj::mv(*found), .resource = podAccounts(), .keepsNone = true});
      }
    }
  }
  return kj::Maybe<Selection>(nullptr);
}

void AccountReconciler::take(const kube::Json& object, bool deleted) {
  auto account = readPodAccount(object);
  KJ_IF_MAYBE (one, account) {
    auto label = one->label();
    pending.erase(label);
    if (deleted) {
      refused.erase(label);
    } else {
      pending.insert(kj::mv(label), kj::mv(*one));
    }
  }
}

kj::Promise<void> AccountReconciler::publish() {
  while (pending.size() > 0) {
    auto first = pending.begin();
    auto label = kj::str(first->key);
    auto account = kj::mv(first->value);
    pending.erase(label);
    kj::Maybe<kj::Exception> failure;
    co_await reconcile(account).catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      if (isForAll(*e)) kj::throwFatalException(kj::mv(*e));
      auto error = messageOf(*e);
      auto known = refused.find(label).map([&](auto& before) { return before == error; });
      if (known.orDefault(false)) continue;
      log::warn("cannot give an account access to the machine API; retrying",
                {{"account", label}, {"error", error}});
      if (refused.size() >= kMostRefused) refused.clear();
      refused.upsert(kj::mv(label), kj::mv(error));
    } else {
      refused.erase(label);
    }
  }
}

kj::Promise<void> AccountReconciler::reconcile(const PodAccount& account) {
  auto secret = co_await tryGetSecret(**kubernetes, account);
  KJ_DEFER(KJ_IF_MAYBE (found, secret) kube::wipe(*found););
  auto there = secret.map([](kube::Json& found) -> const kube::Json& { return found; });
  auto error = accountError(account, there, policy);
  KJ_IF_MAYBE (e, error) co_return co_await refuse(account, kj::mv(*e));
  kj::Maybe<kj::StringPtr> cause = "it is new"_kj;
  KJ_IF_MAYBE (found, secret) {
    cause = renewalCause(*found, account, deps.adapter.machineCa(), deps.clock.now());
  }
  KJ_IF_MAYBE (c, cause) co_return co_await issue(account, secret != nullptr, *c);
  co_await setFailure(account, "");
}

uint64_t AccountReconciler::nextNumber() {
  // Greater than the numbers before a restart, whose events may still exist.
  uint64_t now = (deps.clock.now() - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  lastNumber = std::max(now, lastNumber + 1);
  return lastNumber;
}

kj::Promise<void> AccountReconciler::issue(const PodAccount& account, bool exists,
                                           kj::StringPtr cause) {
  auto key = pki::makeKey(pki::KeyType::kEd25519);
  auto name = account.clientName();
  auto request = pki::makeRequest(key, {.commonName = name});
  auto made = co_await access.sign(account, request, nextNumber());
  pki::checkPair(made.certificate, key);
  auto object = accountSecret(account, made.ca, made.certificate, key);
  KJ_DEFER(kube::wipe(object));
  if (exists) {
    co_await (**kubernetes)
        .patch(kube::Patch::kMerge, secrets(), account.nameSpace, account.name, object,
               kFieldManager)
        .then([](kube::Json written) { kube::wipe(written); });
  } else {
    auto created =
        co_await (**kubernetes).create(secrets(), account.nameSpace, object, kFieldManager);
    // Another client was faster; the next look finds its Secret.
    if (created == nullptr) fail(ErrorKind::kConflict, "the Secret has just been created");
    KJ_IF_MAYBE (written, created) kube::wipe(*written);
  }
  log::info("gave an account access to the machine API",
            {{"account", account.label()},
             {"role", kj::strArray(KJ_ASSERT_NONNULL(account.roles), ",")},
             {"until", dateText(pki::inspect(made.certificate).notAfter)}});
  co_await note(account, "Normal", "Synced", kj::str("the Secret was written: ", cause));
  co_await setFailure(account, "");
}

kj::Promise<void> AccountReconciler::refuse(const PodAccount& account, AccountError error) {
  if (account.failure == error.message) co_return;
  co_await note(account, "Warning", error.reason, error.message);
  co_await setFailure(account, error.message);
}

kj::Promise<void> AccountReconciler::note(const PodAccount& account, kj::StringPtr type,
                                          kj::StringPtr reason, kj::StringPtr message) {
  auto event = accountEvent(account, type, reason, message, nextNumber(), deps.clock.now());
  return (**kubernetes)
      .create(kube::coreResource("events", "Event"), account.nameSpace, event, kFieldManager)
      .ignoreResult();
}

kj::Promise<void> AccountReconciler::setFailure(const PodAccount& account, kj::StringPtr failure) {
  if (account.failure == failure) return kj::READY_NOW;
  return (**kubernetes)
      .patch(kube::Patch::kMerge, podAccounts(), account.nameSpace, account.name,
             failurePatch(failure), kFieldManager)
      .ignoreResult();
}

void AccountReconciler::watchStarted() {
  logged = kj::str();
  listed.raise();
}

kj::Promise<void> AccountReconciler::failed(kj::String error) {
  if (logged != error) {
    log::warn("cannot watch the ServiceAccounts of talos.dev; retrying", {{"error", error}});
  }
  logged = kj::mv(error);
  return kj::READY_NOW;
}

}  // namespace talos::kubed
