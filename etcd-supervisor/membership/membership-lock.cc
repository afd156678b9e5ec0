#include "etcd-supervisor/membership/membership-lock.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kMembersPrefix = "talos:v1:etcd:membership"_kj,
                        kAwayPrefix = "talos:v1:etcdUpgradeMutex"_kj;
// A change of members takes some seconds; after a crash nobody waits longer than this. Who is away
// for a reboot comes back after the lease has ended.
constexpr auto kMembersLease = 30 * kj::SECONDS, kAwayLease = 60 * kj::SECONDS;
constexpr auto kTurn = 60 * kj::SECONDS;

}  // namespace

kj::Own<etcd::Mutex> mutexFor(Exclusive what, Edges& edges, etcd::Etcd& through,
                              kj::StringPtr holder) {
  bool members = what == Exclusive::kMembers;
  return kj::heap<etcd::Mutex>(
      through, edges.timer,
      etcd::Mutex::Options{kj::str(members ? kMembersPrefix : kAwayPrefix), kj::str(holder),
                           members ? kMembersLease : kAwayLease});
}

kj::Promise<kj::Own<etcd::Mutex::Lock>> lockFor(Exclusive what, etcd::Mutex& mutex,
                                                kj::Function<void(kj::String)> say) {
  return mutex.lock(kTurn, [what, say = kj::mv(say)](kj::StringPtr other) mutable {
    say(what == Exclusive::kMembers
            ? kj::str("waiting until ", other, " has changed the members of the cluster")
            : kj::str("waiting until ", other, " has restarted"));
  });
}

kj::Promise<void> underLock(Edges& edges, Here& here, etcd::Etcd& through, kj::StringPtr holder,
                            kj::Function<kj::Promise<void>()> work) {
  auto mutex = mutexFor(Exclusive::kMembers, edges, through, holder);
  auto lock = co_await lockFor(Exclusive::kMembers, *mutex,
                               [&here](kj::String text) { here.say(kj::mv(text)); });
  kj::Maybe<kj::Exception> failure;
  co_await work()
      .exclusiveJoin(lock->lost())
      .then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
  co_await lock->release().catch_([](kj::Exception&&) {});
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
}

}  // namespace talos::supervisor
