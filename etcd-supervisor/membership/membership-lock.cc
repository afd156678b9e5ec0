#include "etcd-supervisor/membership/membership-lock.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kMembersPrefix = "talos:v1:etcd:membership"_kj,
                        kAwayPrefix = "talos:v1:etcdUpgradeMutex"_kj;
// Leases: a change of members takes some seconds, and after a crash other nodes wait no longer than
// this. A node that reboots is back after its lease has expired.
constexpr auto kMembersLease = 30 * kj::SECONDS, kAwayLease = 60 * kj::SECONDS;
// Waits: long enough for the lease of a crashed holder to expire.
constexpr auto kMembersTurn = 60 * kj::SECONDS, kAwayTurn = 75 * kj::SECONDS;

}  // namespace

kj::Own<etcd::Mutex> mutexFor(Exclusive what, Dependencies& deps, etcd::Etcd& through,
                              kj::StringPtr holder) {
  bool members = what == Exclusive::kMembers;
  return kj::heap<etcd::Mutex>(
      through, deps.timer,
      etcd::Mutex::Options{kj::str(members ? kMembersPrefix : kAwayPrefix), kj::str(holder),
                           members ? kMembersLease : kAwayLease});
}

kj::Promise<kj::Own<etcd::Mutex::Lock>> lockFor(Exclusive what, etcd::Mutex& mutex,
                                                kj::Function<void(kj::String)> say) {
  auto turn = what == Exclusive::kMembers ? kMembersTurn : kAwayTurn;
  return mutex.lock(turn, [what, say = kj::mv(say)](kj::StringPtr other) mutable {
    say(what == Exclusive::kMembers
            ? kj::str("waiting until ", other, " has changed the members of the cluster")
            : kj::str("waiting until ", other, " has restarted"));
  });
}

kj::Promise<bool> isAnyLocked(etcd::Etcd& through) {
  for (auto prefix : {kMembersPrefix, kAwayPrefix}) {
    etcd::Range request;
    request.keys = {kj::str(prefix, "/"), true};
    request.countOnly = true;
    auto queue = co_await through.range(kj::mv(request));
    if (queue.count > 0) co_return true;
  }
  co_return false;
}

kj::Promise<kj::Maybe<kj::String>> whoGoesAway(etcd::Etcd& through, kj::StringPtr own) {
  auto name = kj::str(own);
  etcd::Range request;
  request.keys = {kj::str(kAwayPrefix, "/"), true};
  auto queue = co_await through.range(kj::mv(request));
  for (auto& one : queue.kvs) {
    if (one.value != name) co_return kj::mv(one.value);
  }
  co_return nullptr;
}

kj::Promise<void> underLock(Dependencies& deps, LocalMember& self, etcd::Etcd& through,
                            kj::StringPtr holder, kj::Function<kj::Promise<void>()> work) {
  auto mutex = mutexFor(Exclusive::kMembers, deps, through, holder);
  auto lock = co_await lockFor(Exclusive::kMembers, *mutex,
                               [&self](kj::String text) { self.say(kj::mv(text)); });
  kj::Maybe<kj::Exception> failure;
  co_await work()
      .exclusiveJoin(lock->lost())
      .then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
  co_await lock->release().catch_([](kj::Exception&&) {});
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
}

}  // namespace talos::supervisor
