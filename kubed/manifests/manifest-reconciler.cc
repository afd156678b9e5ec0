#include "kubed/manifests/manifest-reconciler.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/etcd/etcd-mutex.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kMutexPrefix = "talos:v1:manifestApplyMutex"_kj;
constexpr kj::StringPtr kManifestStatusId = "manifests"_kj;
constexpr auto kManifestLease = 60 * kj::SECONDS, kManifestTurn = 2 * kj::MINUTES;

}  // namespace

kj::Promise<void> ManifestKeeper::run() {
  for (;;) {
    auto change = world.changed.next();
    kj::Maybe<kj::String> failure;
    co_await pass().catch_([&](kj::Exception&& e) { failure = messageOf(e); });
    KJ_IF_MAYBE (why, failure) {
      if (failed != *why) log::error("cannot apply the manifests; retrying", {{"error", *why}});
      failed = kj::str(*why);
      co_await tell(kj::mv(*why));
      auto pause = backoff.next(world.random());
      change = change.exclusiveJoin(world.timer.afterDelay(pause));
    } else {
      failed = nullptr;
      backoff.reset();
      KJ_IF_MAYBE (at, extraRetry) {
        // One that is over waits for something else, which is told by a change.
        if (*at > world.timer.now()) change = change.exclusiveJoin(world.timer.atTime(*at));
      }
    }
    co_await change;
  }
}

kj::Promise<void> ManifestKeeper::tell(kj::String message) {
  if (!recalled) co_await recall().catch_([](kj::Exception&&) {});
  if (!recalled) co_return;  // machined is away; a snapshot wakes us
  auto all = world.board.manifests();
  auto applied = progress.applied(all, world.board.manifestsKnown());
  auto now = kj::str(message, "\n", kj::strArray(applied, "\n"));
  if (now == told) co_return;
  told = kj::mv(now);
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::ManifestStatusSpec>();
  spec.setMessage(message);
  auto ids = spec.initManifestsApplied(applied.size());
  for (auto i : kj::indices(applied)) ids.set(i, applied[i]);
  StoreClient::Wanted wanted;
  wanted.insert(kj::str(kManifestStatusId), kj::mv(record));
  // It is told with the next change.
  co_await world.store.replaceAll<rpc::ManifestStatusSpec>(kj::mv(wanted))
      .catch_([this](kj::Exception&&) { told = nullptr; });
}

kj::Promise<void> ManifestKeeper::pass() {
  auto client = world.board.client();
  KJ_SWITCH_ONEOF(client) {
    KJ_CASE_ONEOF(why, kj::String) {
      co_return co_await tell(kj::mv(why));
    }
    KJ_CASE_ONEOF(kubernetes, kj::Own<SharedKube>) {
      KJ_IF_MAYBE (why, world.board.obstacle()) co_return co_await tell(kj::mv(*why));
      if (world.board.manifests().empty()) {
        co_return co_await tell(kj::str("waiting for manifests"));
      }
      bool again = false;
      KJ_IF_MAYBE (at, extraRetry) again = world.timer.now() >= *at;
      auto due = progress.due(world.board.manifests(), world.board.secretsVersion(), again);
      if (!due.empty()) {
        // Copies: the store may change meanwhile.
        auto held = KJ_MAP(one, due) {
          return HeldManifest{kj::str(one.id), kj::str(one.objects), one.extra, one.version};
        };
        co_await apply(kj::mv(kubernetes), kj::mv(held));
      }
      if (progress.failure().size() == 0) {
        extraBackoff.reset();
        extraRetry = nullptr;
      } else if (!due.empty()) {
        if (!again) extraBackoff.reset();
        extraRetry = world.timer.now() + extraBackoff.next(world.random());
      }
      co_await tellApplied();
    }
  }
}

bool ManifestKeeper::quiet() const {
  return failed.size() > 0 || progress.failure().size() > 0;
}

kj::Promise<void> ManifestKeeper::recall() {
  kj::Vector<kj::String> before;
  co_await world.store.visit<rpc::ManifestStatusSpec>([&](auto status) {
    for (auto id : status.getManifestsApplied()) before.add(kj::str(id));
  });
  progress.recall(kj::mv(before));
  recalled = true;
}

kj::Promise<void> ManifestKeeper::tellApplied() {
  kj::Vector<kj::String> words;
  words.add(progress.failure());
  if (words[0].size() == 0) words[0] = kj::str("applied");
  if (problem().size() > 0) words.add(kj::str(problem()));
  return tell(kj::strArray(words, "; "));
}

kj::Promise<void> ManifestKeeper::apply(kj::Own<SharedKube> kubernetes,
                                        kj::Array<HeldManifest> manifests) {
  // Whoever cannot reach the API keeps nobody from it.
  if (!quiet()) co_await tell(kj::str("waiting for the Kubernetes API"));
  co_await (**kubernetes).getJson("/version").ignoreResult();
  if (!quiet()) log::info("waiting for mutex");
  etcd::Mutex mutex(etcd, world.timer,
                    {kj::str(kMutexPrefix), world.board.hostname(), kManifestLease});
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

kj::Promise<void> ManifestKeeper::create(SharedKube& kubernetes,
                                         kj::ArrayPtr<const HeldManifest> manifests) {
  auto secret = world.board.tokenSecret();
  if (secret.bytes().size() == 0) {
    fail(ErrorKind::kUnavailable, "waiting for the bootstrap token of the kubelet");
  }
  auto texts = KJ_MAP(one, manifests) {
    return ManifestText{one.id, one.objects, one.extra, one.version};
  };
  auto result = co_await createManifests(
      *kubernetes, texts, secret, [](auto& one) { log::info(kj::str("created ", one.words())); });
  auto before = progress.failure();
  progress.note(texts, result);
  auto now = progress.failure();
  if (now.size() > 0 && now != before) {
    log::error("cannot apply all manifests; retrying", {{"error", now}});
  }
}

}  // namespace talos::kubed
