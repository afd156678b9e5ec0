#include "etcd-supervisor/membership/member-search.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::supervisor {
namespace {

constexpr Backoff::Pace kSearchAgain{3 * kj::SECONDS, 30 * kj::SECONDS, 1.5, 1, 1.2};
constexpr auto kAfterFailure = 5 * kj::SECONDS;

}  // namespace

void MemberSearch::observe(const ObservedCluster& observed) {
  bool had = quorum, was = self.routed();
  quorum = observed.quorum && observed.local != nullptr;
  bool moved = self.phase() == Phase::kMember && hasMoved(self.config(), self.intent());
  if (!moved) {
    lonely = nullptr;
    self.setRouted(false);
  } else if (quorum) {
    lonely = nullptr;
  } else if (lonely == nullptr) {
    lonely = deps.timer.now();
  } else if (deps.timer.now() - KJ_ASSERT_NONNULL(lonely) >= kSearchAfter) {
    self.setRouted(true);
  }
  if (had != quorum || was != self.routed()) changed.raise();
}

kj::Promise<void> MemberSearch::searchOnce() {
  auto config = self.config();
  auto named = deps.store.kubernetesNodes();
  for (auto& peer : config.peers) {
    auto addresses = co_await deps.peers.resolve(peer).catch_(
        [](kj::Exception&&) { return kj::Array<kj::String>(); });
    for (auto& address : addresses) named.add(kj::mv(address));
  }
  auto places = placesOfMembers(config, self.intent(), named, deps.store.subnets());
  auto found = co_await deps.routes.find(kj::mv(places));
  if (!self.routed()) co_return;
  auto routes = routesTo(config, self.intent(), found);
  auto message = movedMessage(config, self.intent(), routes);
  deps.routes.lead(kj::mv(routes));
  if (!quorum) say(kj::mv(message));
}

void MemberSearch::say(kj::String text) {
  if (text.size() > 0 || said) self.say(kj::str(text));
  said = text.size() > 0;
}

kj::Promise<void> MemberSearch::run() {
  Backoff pause(kSearchAgain);
  auto failed = kj::runCatchingExceptions([&] { deps.routes.lead({}); });
  KJ_IF_MAYBE (e, failed) {
    log::warn("cannot open the proxy of etcd, which a moved cluster needs",
              {{"error", messageOf(*e)}});
  }
  for (;;) {
    auto next = changed.next();
    if (!self.routed() || quorum) {
      say(kj::String());
      pause.reset();
      co_await next;
      continue;
    }
    kj::Maybe<kj::Exception> failure;
    co_await searchOnce().catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      say(kj::str("cannot look for the other members of etcd: ", messageOf(*e)));
      co_await deps.timer.afterDelay(kAfterFailure);
      continue;
    }
    co_await deps.timer.afterDelay(pause.next(deps.chance())).exclusiveJoin(kj::mv(next));
  }
}

}  // namespace talos::supervisor
