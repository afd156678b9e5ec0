#include "kubed/accounts/pod-access.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/etcd/etcd-mutex.h"
#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kMutexPrefix = "talos:v1:serviceAccountCRDController"_kj;
// The node that has the mutex keeps it as long as it runs.
constexpr auto kMutexLease = 60 * kj::SECONDS, kMutexTurn = 1 * kj::HOURS;
constexpr auto kEndpointsAgain = 1 * kj::MINUTES;

}  // namespace

kj::Promise<void> PodAccess::run() {
  for (;;) {
    auto change = deps.changed.next();
    if (enabled()) {
      kj::Maybe<kj::Exception> failure;
      co_await hold().catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
      KJ_IF_MAYBE (e, failure) {
        auto error = messageOf(*e);
        // DeadlineExceeded: another node has the mutex.
        if (logged != error && kindOf(*e) != ErrorKind::kDeadlineExceeded) {
          log::warn("cannot keep the access of pods to the machine API; retrying",
                    {{"error", error}});
        }
        logged = kj::mv(error);
        co_await deps.timer.afterDelay(backoff.next(deps.random()));
      }
    } else {
      logged = kj::str();
      backoff.reset();
      co_await change;
    }
  }
}

bool PodAccess::enabled() const {
  auto client = deps.adapter.client();
  return access.policy() != nullptr && deps.adapter.obstacle() == nullptr &&
         client.is<kj::Own<SharedKube>>();
}

kj::Promise<void> PodAccess::disabled() {
  for (;;) {
    auto change = deps.changed.next();
    if (!enabled()) co_return;
    co_await change;
  }
}

// Runs until the access is disabled; rejects if the mutex is lost.
kj::Promise<void> PodAccess::hold() {
  etcd::Mutex mutex(etcd, deps.timer,
                    {kj::str(kMutexPrefix), deps.adapter.hostname(), kMutexLease});
  kj::Maybe<kj::Own<etcd::Mutex::Lock>> held;
  auto locking = mutex.lock(kMutexTurn, [](kj::StringPtr holder) {
    log::info("another node gives pods access to the machine API", {{"node", holder}});
  });
  co_await locking.then([&](auto lock) { held = kj::mv(lock); }).exclusiveJoin(disabled());
  KJ_IF_MAYBE (lock, held) {
    log::info("gives pods access to the machine API");
    backoff.reset();
    co_await accounts.run()
        .exclusiveJoin(accounts.again())
        .exclusiveJoin(keepEndpoints())
        .exclusiveJoin((*lock)->lost())
        .exclusiveJoin(disabled());
    co_await (*lock)->release().catch_([](kj::Exception&&) {});
  }
}

kj::Promise<void> PodAccess::keepEndpoints() {
  auto endpoints = kube::coreResource("endpoints", "Endpoints");
  kj::String failed;
  for (;;) {
    auto change = deps.changed.next();
    auto addresses = access.apiAddresses();
    auto client = deps.adapter.client();
    KJ_IF_MAYBE (kubernetes, client.tryGet<kj::Own<SharedKube>>()) {
      if (!addresses.empty()) {
        co_await (***kubernetes)
            .patch(kube::Patch::kApply, endpoints, kAccessNamespace, kAccessService,
                   accessEndpoints(addresses), kFieldManager)
            .then([&](kube::Json) { failed = kj::str(); },
                  [&](kj::Exception&& e) {
                    auto error = messageOf(e);
                    if (failed != error) {
                      log::warn("cannot write the endpoints of the machine API; retrying",
                                {{"error", error}});
                    }
                    failed = kj::mv(error);
                  });
      }
    }
    auto pause = failed.size() > 0 ? backoff.next(deps.random()) : kj::Duration(kEndpointsAgain);
    co_await change.exclusiveJoin(deps.timer.afterDelay(pause));
  }
}

}  // namespace talos::kubed
