#include "etcd-supervisor/membership/leader-placement.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/etcd/address-elections.h"

namespace talos::supervisor {
namespace {

// Addresses and leaders that change often must not make each other change.
constexpr auto kBetweenMoves = 1 * kj::MINUTES;
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

kj::Promise<void> LeaderPlacement::settle(const ObservedCluster& observed) {
  if (!localLeads(observed) || deps.store.sharedAddresses().empty()) co_return;
  KJ_IF_MAYBE (last, moved) {
    if (deps.timer.now() < *last + kBetweenMoves) co_return;
  }
  etcd::Range request;
  request.keys = {kj::str(etcd::kAddressElections), true};
  auto& local = deps.endpoints.at(kLocal);
  auto elections = co_await local.range(kj::mv(request));
  auto holders = etcd::addressHolders(elections.kvs);
  KJ_IF_MAYBE (next, betterLeader(observed, holders)) {
    moved = deps.timer.now();
    auto name = describe(next->member);
    co_await local.moveLeader(next->member.id)
        .then(
            [&name] {
              log::info("moved the leadership, because this node holds a shared address",
                        {{"to", name}});
            },
            [&name](kj::Exception&& e) {
              log::warn(
                  "cannot move the leadership although this node holds a shared address; "
                  "retrying",
                  {{"to", name}, {"error", messageOf(e)}});
            });
  }
}

}  // namespace talos::supervisor
