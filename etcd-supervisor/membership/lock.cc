#include "etcd-supervisor/membership/lock.h"

#include "common/etcd/mutex.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kPrefix = "talos:v1:etcd:membership"_kj;
// A change of members takes some seconds; after a crash nobody waits longer than this.
constexpr auto kLease = 30 * kj::SECONDS, kTurn = 60 * kj::SECONDS;

}  // namespace

kj::Promise<void> underLock(Edges& edges, Here& here, etcd::Etcd& through, kj::StringPtr holder,
                            kj::Function<kj::Promise<void>()> work) {
  etcd::Mutex mutex(through, edges.timer, {kj::str(kPrefix), kj::str(holder), kLease});
  auto lock = co_await mutex.lock(kTurn, [&](kj::StringPtr other) {
    here.say(kj::str("waiting until ", other, " has changed the members of the cluster"));
  });
  kj::Maybe<kj::Exception> failure;
  co_await work()
      .exclusiveJoin(lock->lost())
      .then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
  co_await lock->release().catch_([](kj::Exception&&) {});
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
}

}  // namespace talos::supervisor
