#include "kubed/nodes/watch-reconciler.h"

#include "common/base/error.h"

namespace talos::kubed {
namespace {

constexpr auto kWatchAgain = 500 * kj::MILLISECONDS;  // after the server has ended the watch

}  // namespace

kj::Promise<void> WatchReconciler::run() {
  for (;;) {
    auto change = changed.next().fork();
    kj::Maybe<kj::String> failure;
    auto following = follow().then([] {}, [&](kj::Exception&& e) { failure = messageOf(e); });
    co_await following.exclusiveJoin(change.addBranch());
    KJ_IF_MAYBE (error, failure) {
      co_await failed(kj::mv(*error));
      auto pause = timer.afterDelay(backoff.next(random()));
      co_await change.addBranch().exclusiveJoin(kj::mv(pause));
    }
  }
}

// Ends only by failing.
kj::Promise<void> WatchReconciler::follow() {
  auto selected = co_await select();
  KJ_IF_MAYBE (selection, selected) {
    for (;;) {
      co_await watchOnce(*selection);
      co_await timer.afterDelay(kWatchAgain);
    }
  }
  co_await kj::Promise<void>(kj::NEVER_DONE);
}

kj::Promise<void> WatchReconciler::watchOnce(Selection& selection) {
  auto& kubernetes = **selection.kubernetes;
  kube::ListOptions options{.labels = "", .fields = selection.fields};
  kj::String version;
  if (selection.keepsNone) {
    startList();
    version = co_await kubernetes.visit(selection.resource, "", options,
                                        [this](const kube::Json& one) { take(one, false); });
  } else {
    auto listed = co_await kubernetes.list(selection.resource, "", options);
    startList();
    for (auto& one : listed.items) take(one, false);
    version = kj::mv(listed.version);
  }
  co_await publish();
  auto watch = co_await kubernetes.watch(selection.resource, "", options, version);
  backoff.reset();
  watchStarted();
  for (;;) {
    auto event = co_await watch->next();
    if (event == nullptr) co_return;
    auto& one = KJ_ASSERT_NONNULL(event);
    if (one.type == kube::WatchEvent::Type::kBookmark) continue;
    take(one.object, one.type == kube::WatchEvent::Type::kDeleted);
    co_await publish();
  }
}

}  // namespace talos::kubed
