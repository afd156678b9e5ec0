#include "etcd-supervisor/membership/leader-placement.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/etcd/address-elections.h"
#include "etcd-supervisor/membership/membership-lock.h"

namespace talos::supervisor {
namespace {

// Addresses and leaders that change often must not make each other change.
constexpr Backoff::Pace kBetweenMoves{.first = 1 * kj::MINUTES, .longest = 30 * kj::MINUTES};
// Time without a move after which the pauses are short again.
constexpr auto kCalm = 1 * kj::HOURS;
// Entries of etcd's log that the next leader may lack. etcd sends these before it moves the
// leadership, within an election timeout, and takes no writes meanwhile.
constexpr uint64_t kEntriesBehind = 1000;

bool localLeads(const ObservedCluster& observed) {
  KJ_IF_MAYBE (local, observed.local) {
    return observed.problem.size() == 0 && local->leader == local->member;
  }
  return false;
}

bool isAmong(kj::ArrayPtr<const kj::String> holders, kj::StringPtr name) {
  for (auto& holder : holders) {
    if (holder == name) return true;
  }
  return false;
}

bool couldLead(const ObservedMember& other, const etcd::Status& local) {
  if (other.isLocal || other.member.learner || other.problem.size() > 0) return false;
  KJ_IF_MAYBE (status, other.status) {
    return status->leader == local.member && status->raftTerm == local.raftTerm &&
           status->raftIndex + kEntriesBehind >= local.raftIndex;
  }
  return false;
}

}  // namespace

kj::Maybe<const ObservedMember&> betterLeader(const ObservedCluster& observed,
                                              kj::ArrayPtr<const kj::String> holders) {
  if (!localLeads(observed)) return nullptr;
  auto& local = KJ_ASSERT_NONNULL(observed.local);
  KJ_IF_MAYBE (own, observed.find(local.member)) {
    if (!isAmong(holders, own->member.name)) return nullptr;
    for (auto& other : observed.members) {
      if (couldLead(other, local) && !isAmong(holders, other.member.name)) return other;
    }
  }
  return nullptr;
}

LeaderPlacement::LeaderPlacement(Dependencies& deps) : deps(deps), pauses(kBetweenMoves) {}

kj::Promise<void> LeaderPlacement::settle(const ObservedCluster& observed) {
  if (!localLeads(observed) || deps.store.sharedAddresses().empty()) co_return;
  KJ_IF_MAYBE (earliest, next) {
    if (deps.timer.now() < *earliest) co_return;
  }
  auto& local = deps.endpoints.at(kLocal);
  etcd::Range request;
  request.keys = {kj::str(etcd::kAddressElections), true};
  auto elections = co_await local.range(kj::mv(request));
  auto holders = etcd::addressHolders(elections.kvs);
  KJ_IF_MAYBE (better, betterLeader(observed, holders)) {
    if (co_await isAnyLocked(local)) co_return;
    co_await move(better->member);
  }
}

kj::Promise<void> LeaderPlacement::move(const etcd::Member& to) {
  auto now = deps.timer.now();
  KJ_IF_MAYBE (earliest, next) {
    if (now >= *earliest + kCalm) pauses.reset();
  }
  next = now + pauses.next();
  auto name = describe(to);
  co_await deps.endpoints.at(kLocal).moveLeader(to.id).then(
      [&name] {
        log::info("moved the leadership, because this node holds a shared address", {{"to", name}});
      },
      [&name](kj::Exception&& e) {
        log::warn("cannot move the leadership although this node holds a shared address; retrying",
                  {{"to", name}, {"error", messageOf(e)}});
      });
}

}  // namespace talos::supervisor
