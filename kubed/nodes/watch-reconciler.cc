#include "kubed/nodes/watch-reconciler.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::kubed {
namespace {

constexpr auto kWatchAgain = 500 * kj::MILLISECONDS;  // after the server has ended the watch
// Kubernetes stores objects of up to 1.5 MiB, which are some 2 MiB as JSON.
constexpr unsigned kFew = 5;

void cutOff(const kube::Resource& resource, size_t count, kj::StringPtr error) {
  log::warn(
      "the list of objects was cut off; those after it are looked at when they change, or "
      "with the next list",
      {{"kind", resource.plural}, {"read", kj::str(count)}, {"error", error}});
}

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

kj::Promise<kj::String> WatchReconciler::takeList(Selection& selection) {
  kube::ListOptions options{.labels = "", .fields = selection.fields};
  auto listed = co_await (**selection.kubernetes).list(selection.resource, "", options);
  startList();
  for (auto& one : listed.items) take(one, false);
  co_await publish();
  co_return kj::mv(listed.version);
}

// Reads a list in pages; if an answer is too large, the same number of objects is read one by one.
kj::Promise<kj::String> WatchReconciler::takePages(Selection& selection) {
  kube::ListOptions options{.labels = "", .fields = selection.fields};
  startList();
  kj::String version, next;
  unsigned single = 0, pages = 0;
  for (size_t count = 0;;) {
    kube::Json page;
    kj::Maybe<kj::Exception> failure;
    co_await (**selection.kubernetes)
        .page(selection.resource, "", options, single > 0 ? 1 : kFew, next)
        .then([&](kube::Json&& got) { page = kj::mv(got); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      if (single == 0 && kindOf(*e) == ErrorKind::kResourceExhausted) {
        single = kFew;
        continue;
      }
      if (version.size() == 0) kj::throwFatalException(kj::mv(*e));
      cutOff(selection.resource, count, messageOf(*e));
      break;
    }
    if (single > 0) --single;
    auto items = kube::itemsAt(page, {"items"});
    for (auto one : items) take(*one, false);
    count += items.size();
    co_await publish();
    if (version.size() == 0) version = kj::str(kube::textAt(page, {"metadata", "resourceVersion"}));
    next = kj::str(kube::textAt(page, {"metadata", "continue"}));
    if (next.size() == 0) break;
    if (count >= kube::kMostListed || ++pages >= kube::kMostListed) {
      cutOff(selection.resource, count, "there are more");
      break;
    }
  }
  co_return kj::mv(version);
}

kj::Promise<void> WatchReconciler::watchOnce(Selection& selection) {
  auto& kubernetes = **selection.kubernetes;
  auto version = co_await (selection.keepsNone ? takePages(selection) : takeList(selection));
  kube::ListOptions options{.labels = "", .fields = selection.fields};
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
