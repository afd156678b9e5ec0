#include "kubed/manifests/manifest-reconciler.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/etcd/etcd-mutex.h"
#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kMutexPrefix = "talos:v1:manifestApplyMutex"_kj;
constexpr kj::StringPtr kManifestStatusId = "manifests"_kj;
constexpr auto kManifestLease = 60 * kj::SECONDS, kManifestTurn = 2 * kj::MINUTES;

}  // namespace

kj::Promise<void> ManifestReconciler::run() {
  controller.started();
  for (;;) {
    auto change = deps.changed.next();
    kj::Maybe<kj::String> failure;
    co_await pass().catch_([&](kj::Exception&& e) { failure = messageOf(e); });
    KJ_IF_MAYBE (error, failure) {
      controller.failed(*error, deps.timer.now());
      failed = kj::str(*error);
      co_await report(kj::mv(*error));
      auto pause = backoff.next(deps.random());
      change = change.exclusiveJoin(deps.timer.afterDelay(pause));
    } else {
      failed = nullptr;
      if (progress.failure().size() == 0) controller.succeeded();
      backoff.reset();
      KJ_IF_MAYBE (at, extraRetry) {
        // When the time has passed already, the pass waits for something else, and a change wakes
        // it.
        if (*at > deps.timer.now()) change = change.exclusiveJoin(deps.timer.atTime(*at));
      }
      KJ_IF_MAYBE (at, nextCheck) {
        if (*at > deps.timer.now()) change = change.exclusiveJoin(deps.timer.atTime(*at));
      }
    }
    co_await change;
  }
}

kj::Promise<void> ManifestReconciler::report(kj::String message) {
  if (!recalled) co_await recall().catch_([](kj::Exception&&) {});
  if (!recalled) co_return;  // machined does not answer; its next snapshot wakes us
  auto all = deps.adapter.manifests();
  auto applied = progress.applied(all, deps.adapter.manifestsKnown());
  auto now = kj::str(message, "\n", kj::strArray(applied, "\n"));
  if (now == lastReported) co_return;
  lastReported = kj::mv(now);
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::ManifestStatusSpec>();
  spec.setMessage(message);
  fillTexts(spec.initManifestsApplied(applied.size()), applied);
  StoreClient::Wanted wanted;
  wanted.insert(kj::str(kManifestStatusId), kj::mv(record));
  // After a failure the next change reports it.
  co_await deps.store.replaceAll<rpc::ManifestStatusSpec>(kj::mv(wanted))
      .catch_([this](kj::Exception&&) { lastReported = nullptr; });
}

kj::Promise<void> ManifestReconciler::pass() {
  auto client = deps.adapter.client();
  KJ_SWITCH_ONEOF(client) {
    KJ_CASE_ONEOF(error, kj::String) {
      co_return co_await report(kj::mv(error));
    }
    KJ_CASE_ONEOF(kubernetes, kj::Own<SharedKube>) {
      KJ_IF_MAYBE (obstacle, deps.adapter.obstacle()) {
        co_return co_await report(kj::mv(*obstacle));
      }
      if (deps.adapter.manifests().empty()) {
        co_return co_await report(kj::str(messages::kWaitingFor, "manifests"));
      }
      bool again = false;
      KJ_IF_MAYBE (at, extraRetry) again = deps.timer.now() >= *at;
      auto due = progress.due(deps.adapter.manifests(), deps.adapter.secretsVersion(), again);
      KJ_IF_MAYBE (at, nextCheck) checking = deps.timer.now() >= *at;
      KJ_DEFER(checking = false);
      if (checking) due = deps.adapter.manifests();
      if (!due.empty()) {
        // Copies: the store may change meanwhile.
        auto held = KJ_MAP(one, due) {
          return HeldManifest{kj::str(one.id), kj::str(one.objects), one.extra, one.version};
        };
        co_await apply(kj::mv(kubernetes), kj::mv(held));
        if (checking || nextCheck == nullptr) nextCheck = deps.timer.now() + kCheckAgain;
      }
      if (progress.failure().size() == 0) {
        extraBackoff.reset();
        extraRetry = nullptr;
      } else if (!due.empty()) {
        if (!again) extraBackoff.reset();
        extraRetry = deps.timer.now() + extraBackoff.next(deps.random());
      }
      co_await reportApplied();
    }
  }
}

bool ManifestReconciler::quiet() const {
  return checking || failed.size() > 0 || progress.failure().size() > 0;
}

kj::Promise<void> ManifestReconciler::recall() {
  kj::Vector<kj::String> before;
  co_await deps.store.visit<rpc::ManifestStatusSpec>([&](auto status) {
    for (auto id : status.getManifestsApplied()) before.add(kj::str(id));
  });
  progress.recall(kj::mv(before));
  recalled = true;
}

kj::Promise<void> ManifestReconciler::reportApplied() {
  kj::Vector<kj::String> messages;
  messages.add(progress.failure());
  if (messages[0].size() == 0) messages[0] = kj::str(messages::kApplied);
  auto notFetched = deps.adapter.extraProblem();
  if (notFetched.size() > 0) messages.add(kj::str(notFetched));
  return report(kj::strArray(messages, messages::kNextMessage.cStr()));
}

kj::Promise<void> ManifestReconciler::apply(kj::Own<SharedKube> kubernetes,
                                            kj::Array<HeldManifest> manifests) {
  // A node that cannot reach the API must not hold the mutex.
  if (!quiet()) co_await report(kj::str(messages::kWaitingFor, "the Kubernetes API"));
  co_await (**kubernetes).getJson("/version").ignoreResult();
  if (!quiet()) log::info("waiting for mutex");
  etcd::Mutex mutex(etcd, deps.timer,
                    {kj::str(kMutexPrefix), deps.adapter.hostname(), kManifestLease});
  auto lock = co_await mutex.lock(kManifestTurn, [&](kj::StringPtr other) {
    log::info("another node applies the manifests", {{"node", other}});
  });
  if (!quiet()) log::info("mutex acquired");
  kj::Maybe<kj::Exception> failure;
  co_await create(*kubernetes, manifests)
      .exclusiveJoin(lock->lost())
      .then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
  co_await lock->release().catch_([](kj::Exception&&) {});
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
}

kj::Promise<void> ManifestReconciler::create(SharedKube& kubernetes,
                                             kj::ArrayPtr<const HeldManifest> manifests) {
  auto token = deps.adapter.token();
  auto& secret = token.secret;
  if (secret.bytes().size() == 0) {
    fail(ErrorKind::kUnavailable, "waiting for the bootstrap token of the kubelet");
  }
  auto texts = KJ_MAP(one, manifests) {
    return ManifestText{one.id, one.objects, one.extra, one.version};
  };
  auto end = dateText(deps.clock.now() + kTokenLifetime);
  auto result = co_await createManifests(
      *kubernetes, texts, secret,
      [this](auto& one) { controller.info(kj::str("created ", one.displayName())); }, end);
  co_await removeRetired(*kubernetes, [](kj::StringPtr name) {
    log::info(kj::str("removed ", name, ", which gave more rights than are needed"));
  });
  progress.note(texts, result);
  auto failure = progress.failure();
  if (failure.size() > 0) controller.failed(failure, deps.timer.now());
}

}  // namespace talos::kubed
