#include "machined/kubed/manifest-keeper.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/etcd/mutex.h"
#include "machined/kubed/manifest-creation.h"

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
    }
    co_await change;
  }
}

kj::Promise<void> ManifestKeeper::tell(kj::String message) {
  if (message == told) co_return;
  told = kj::mv(message);
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::ManifestStatusSpec>();
  spec.setMessage(told);
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
      auto state = world.board.manifestState();
      KJ_IF_MAYBE (done, appliedState) {
        if (*done == state) co_return co_await tellApplied();
      }
      co_await apply(kj::mv(kubernetes));
      appliedState = kj::mv(state);
      co_await tellApplied();
    }
  }
}

kj::Promise<void> ManifestKeeper::tellApplied() {
  auto why = problem();
  return tell(kj::str("applied", why.size() > 0 ? "; " : "", why));
}

kj::Promise<void> ManifestKeeper::apply(kj::Own<SharedKube> kubernetes) {
  // Whoever cannot reach the API keeps nobody from it.
  if (failed.size() == 0) co_await tell(kj::str("waiting for the Kubernetes API"));
  co_await (**kubernetes).getJson("/version").ignoreResult();
  if (failed.size() == 0) log::info("waiting for mutex");
  etcd::Mutex mutex(etcd, world.timer,
                    {kj::str(kMutexPrefix), world.board.hostname(), kManifestLease});
  auto lock = co_await mutex.lock(kManifestTurn, [&](kj::StringPtr other) {
    log::info("another node applies the manifests", {{"node", other}});
  });
  if (failed.size() == 0) log::info("mutex acquired");
  kj::Maybe<kj::Exception> failure;
  co_await create(*kubernetes)
      .exclusiveJoin(lock->lost())
      .then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
  co_await lock->release().catch_([](kj::Exception&&) {});
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
}

kj::Promise<void> ManifestKeeper::create(SharedKube& kubernetes) {
  auto secret = world.board.tokenSecret();
  if (secret.bytes().size() == 0) {
    fail(ErrorKind::kUnavailable, "waiting for the bootstrap token of the kubelet");
  }
  // Copies: the store may change meanwhile.
  auto manifests = KJ_MAP(one, world.board.manifests()) {
    return HeldManifest{kj::str(one.id), kj::str(one.objects), one.extra};
  };
  auto texts = KJ_MAP(one, manifests) {
    return ManifestText{one.id, one.objects, one.extra};
  };
  auto result = co_await createManifests(
      *kubernetes, texts, secret, [](auto& one) { log::info(kj::str("created ", one.words())); });
  applied = kj::mv(result.applied);
  if (result.failures.size() > 0) {
    fail(ErrorKind::kUnavailable, kj::strArray(result.failures, "; "));
  }
}

}  // namespace talos::kubed
