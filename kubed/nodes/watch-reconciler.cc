#include "kubed/nodes/watch-reconciler.h"

#include "common/base/error.h"

namespace talos::kubed {
namespace {

constexpr auto kWatchAgain = 500 * kj::MILLISECONDS;  // when the server has ended it

}  // namespace

kj::Promise<void> WatchLoop::run(Follow follow, Failed failed) {
  for (;;) {
    auto change = changed.next().fork();
    kj::Maybe<kj::String> failure;
    auto following = follow().then([] {}, [&](kj::Exception&& e) { failure = messageOf(e); });
    co_await following.exclusiveJoin(change.addBranch());
    KJ_IF_MAYBE (why, failure) {
      co_await failed(kj::mv(*why));
      auto pause = timer.afterDelay(backoff.next(random()));
      co_await change.addBranch().exclusiveJoin(kj::mv(pause));
    }
  }
}

kj::Promise<void> WatchLoop::watch(SharedKube& kubernetes, const kube::Resource& resource,
                                   const kube::ListOptions& options, Objects& objects) {
  for (;;) {
    co_await watchOnce(kubernetes, resource, options, objects);
    co_await timer.afterDelay(kWatchAgain);
  }
}

kj::Promise<void> WatchLoop::watchOnce(SharedKube& kubernetes, const kube::Resource& resource,
                                       const kube::ListOptions& options, Objects& objects) {
  auto listed = co_await (*kubernetes).list(resource, "", options);
  objects.begin();
  for (auto& one : listed.items) objects.take(one, false);
  co_await objects.publish();
  auto watch = co_await (*kubernetes).watch(resource, "", options, listed.version);
  works();
  objects.watched();
  for (;;) {
    auto event = co_await watch->next();
    if (event == nullptr) co_return;
    auto& one = KJ_ASSERT_NONNULL(event);
    if (one.type == kube::WatchEvent::Type::kBookmark) continue;
    objects.take(one.object, one.type == kube::WatchEvent::Type::kDeleted);
    co_await objects.publish();
  }
}

}  // namespace talos::kubed
