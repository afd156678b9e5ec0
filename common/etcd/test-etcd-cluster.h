// A cluster of model etcds, for tests: its members, whether they are alive, and the leader.
// test-etcd.h calls it.
//
// The death of a leader is noticed after an election timeout; until then calls that need a leader
// get no answer. Then another member leads, if most voting members are alive, and leases start
// again. Without a leader nothing expires.
#pragma once

#include <kj/timer.h>

#include <map>
#include <set>
#include <vector>

#include "common/etcd/test-etcd-store.h"

namespace talos::etcd {

class ModelCluster final : private kj::TaskSet::ErrorHandler {
 public:
  struct Options {
    kj::Duration election = 1 * kj::SECONDS;
    kj::Duration minTtl = 2 * kj::SECONDS;   // etcd's minimum with its default timers
    kj::Duration healthy = 5 * kj::SECONDS;  // alive for so long, a member counts
  };

  // Starts with one member, which leads.
  ModelCluster(kj::Timer& timer, kj::StringPtr name, kj::StringPtr peerUrl, kj::StringPtr clientUrl,
               Options options)
      : timer(timer), store(timer, options.minTtl), options(options), tasks(*this) {
    auto& first = insert(peerUrl, false);
    first.member.name = kj::str(name);
    first.member.clientUrls = kj::arr(kj::str(clientUrl));
    first.alive = first.inSync = true;
    first.aliveSince = kj::origin<kj::TimePoint>() - options.healthy;
    leader = first.member.id;
    tasks.add(expire());
  }
  ModelCluster(kj::Timer& timer, kj::StringPtr name, kj::StringPtr peerUrl, kj::StringPtr clientUrl)
      : ModelCluster(timer, name, peerUrl, clientUrl, Options()) {}
  explicit ModelCluster(kj::Timer& timer)
      : ModelCluster(timer, "m1", "https://10.5.0.2:2380", "https://10.5.0.2:2379") {}

  struct State {
    Member member;
    bool alive = false;   // its process is running
    bool inSync = false;  // for a learner that may be promoted
    kj::TimePoint aliveSince = kj::origin<kj::TimePoint>();
  };

  kj::Timer& timer;
  ModelStore store;
  std::map<MemberId, State> members;
  // Members that consider an existing connection lost; they refuse changes of members.
  std::set<MemberId> mistaken;
  MemberId leader = 0;
  uint64_t term = 2;
  std::vector<Alarm> alarms;
  kj::String version = kj::str("3.5.16");
  int64_t dbSize = 20480, dbSizeInUse = 16384;
  kj::Array<kj::byte> database = filled(20480);  // content of a snapshot

  // --- events that a test causes ---

  // Starts the process of a member that was added, for the first time.
  void start(MemberId id, kj::StringPtr name, kj::StringPtr clientUrl) {
    auto& state = members.at(id);
    state.member.name = kj::str(name);
    state.member.clientUrls = kj::arr(kj::str(clientUrl));
    state.inSync = true;
    revive(id);
  }
  void revive(MemberId id) {
    auto& state = members.at(id);
    state.alive = true;
    state.aliveSince = timer.now();
    settle();
  }
  // Kills a process or a node.
  void kill(MemberId id) {
    members.at(id).alive = false;
    disconnect(id);
    settle();
  }
  // Closes the connections to one member, with everything open on them.
  void disconnect(MemberId id) {
    auto lost = kj::mv(watches[id]);
    watches.erase(id);
    for (auto& w : lost) w->end(error(ErrorKind::kUnavailable, "the connection was lost: closed"));
  }
  // Adds a member that is alive and votes, as if it had always been a member.
  MemberId grow(kj::StringPtr name, kj::StringPtr peerUrl, kj::StringPtr clientUrl) {
    auto& state = insert(peerUrl, false);
    auto id = state.member.id;
    start(id, name, clientUrl);
    state.aliveSince = kj::origin<kj::TimePoint>() - options.healthy;
    return id;
  }
  void raise(Alarm alarm) { alarms.push_back(alarm); }

  // --- answers of members ---

  // Returns true while the members have not noticed the loss of the leader.
  bool unsettled() const { return electing; }
  bool alive(MemberId id) const {
    auto found = members.find(id);
    return found != members.end() && found->second.alive;
  }
  kj::Array<Member> list() const {
    return KJ_MAP(item, members) {
      return copy(item.second.member);
    };
  }
  void watchedThrough(MemberId id, kj::Own<ModelStore::Watcher> watcher) {
    auto& list = watches[id];
    std::erase_if(list, [](auto& w) { return !w->isShared() || w->over != nullptr; });
    list.push_back(kj::mv(watcher));
  }
  void leasesChanged() {
    KJ_IF_MAYBE (w, leaseWaiter) (*w)->fulfill();
    leaseWaiter = nullptr;
  }

  // `asked` is the member that decides about add() and remove(), by its own observations.
  MemberAdded add(MemberId asked, kj::ArrayPtr<const kj::String> urls, bool learner) {
    KJ_REQUIRE(urls.size() == 1, "the model knows members of one peer URL");
    requireFree(urls);
    if (!learner && !enough(0, true)) notEnough();
    if (mistaken.contains(asked)) unhealthy();
    requireHealthy();
    for (auto& item : members) {
      if (!learner || !item.second.member.learner) continue;
      fail(ErrorKind::kFailedPrecondition, "etcdserver: too many learner members in cluster");
    }
    auto added = copy(insert(urls[0], learner).member);
    settle();
    return {kj::mv(added), list()};
  }
  kj::Array<Member> remove(MemberId asked, MemberId id) {
    auto& state = require(id);
    if (!state.member.learner) {
      if (!enough(id, false)) notEnough();
      if (mistaken.contains(asked) && state.alive) unhealthy();
      requireQuorumWithout(id);
    }
    members.erase(id);
    disconnect(id);
    settle();
    return list();
  }
  kj::Array<Member> promote(MemberId id) {
    auto& state = require(id);
    if (!state.member.learner) {
      fail(ErrorKind::kFailedPrecondition, "etcdserver: can only promote a learner member");
    }
    if (!state.alive || !state.inSync) {
      fail(ErrorKind::kFailedPrecondition,
           "etcdserver: can only promote a learner member which is in sync with leader");
    }
    state.member.learner = false;
    settle();
    return list();
  }
  void moveLeader(MemberId asked, MemberId to) {
    if (asked != leader) fail(ErrorKind::kFailedPrecondition, "etcdserver: not leader");
    auto found = members.find(to);
    if (found == members.end() || found->second.member.learner) {
      fail(ErrorKind::kFailedPrecondition, "etcdserver: bad leader transferee");
    }
    if (!found->second.alive) {
      fail(ErrorKind::kUnavailable, "etcdserver: request timed out, leader transfer took too long");
    }
    if (to != leader) lead(to);
  }
  std::vector<Alarm> disarm(const Alarm& alarm) {
    std::vector<Alarm> removed;
    std::erase_if(alarms, [&](auto& a) {
      bool matches = a.type == alarm.type && (alarm.member == 0 || a.member == alarm.member);
      if (matches) removed.push_back(a);
      return matches;
    });
    return removed;
  }

  // Runs calls, which continue at the server after their callers have dropped them.
  void run(kj::Promise<void> call) { tasks.add(kj::mv(call)); }

  static Member copy(const Member& m) {
    auto texts = [](kj::ArrayPtr<const kj::String> list) {
      return KJ_MAP(t, list) {
        return kj::str(t);
      };
    };
    return {m.id, kj::str(m.name), texts(m.peerUrls), texts(m.clientUrls), m.learner};
  }

 private:
  Options options;
  MemberId lastId = 0x8e00;
  bool electing = false;
  std::map<MemberId, std::vector<kj::Own<ModelStore::Watcher>>> watches;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> leaseWaiter;
  kj::TaskSet tasks;

  void taskFailed(kj::Exception&& e) override { KJ_LOG(ERROR, "the model failed", e); }

  static kj::Array<kj::byte> filled(size_t size) {
    auto bytes = kj::heapArray<kj::byte>(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<kj::byte>(i * 7 + i / 256);
    return bytes;
  }

  State& insert(kj::StringPtr peerUrl, bool learner) {
    auto id = ++lastId;
    auto& state = members[id];
    state.member.id = id;
    state.member.peerUrls = kj::arr(kj::str(peerUrl));
    state.member.learner = learner;
    return state;
  }
  State& require(MemberId id) {
    auto found = members.find(id);
    if (found == members.end()) fail(ErrorKind::kNotFound, "etcdserver: member not found");
    return found->second;
  }
  void requireFree(kj::ArrayPtr<const kj::String> urls) {
    for (auto& item : members) {
      for (auto& url : urls) {
        if (item.second.member.peerUrls[0] != url) continue;
        fail(ErrorKind::kFailedPrecondition, "etcdserver: Peer URLs already exists");
      }
    }
  }

  // --- etcd's checks for its quorum (--strict-reconfig-check, its default) ---

  [[noreturn]] static void notEnough() {
    fail(ErrorKind::kFailedPrecondition,
         "etcdserver: re-configuration failed due to not enough started members");
  }
  [[noreturn]] static void unhealthy() {
    fail(ErrorKind::kUnavailable, "etcdserver: unhealthy cluster");
  }
  // Returns true if the started members are a majority after the change.
  bool enough(MemberId removed, bool adding) const {
    unsigned all = adding ? 1 : 0, started = 0;
    for (auto& item : members) {
      if (item.first == removed || item.second.member.learner) continue;
      ++all;
      if (item.second.member.name.size() > 0) ++started;
    }
    if (adding && started == 1 && all == 2) return true;
    return started >= all / 2 + 1;
  }
  // Counts the voting members that have been alive for a while; the leader, which decides, always
  // counts.
  unsigned active() const {
    unsigned count = 0;
    for (auto& item : members) {
      auto& state = item.second;
      if (state.member.learner) continue;
      bool since = state.alive && timer.now() - state.aliveSince >= options.healthy;
      if (since || item.first == leader) ++count;
    }
    return count;
  }
  unsigned voters() const {
    unsigned count = 0;
    for (auto& item : members) count += item.second.member.learner ? 0 : 1;
    return count;
  }
  void requireHealthy() const {
    if (active() < voters()) unhealthy();
  }
  void requireQuorumWithout(MemberId id) const {
    if (id != leader && !alive(id)) return;  // it is not part of the quorum
    if (active() - 1 < 1 + (voters() - 1) / 2) unhealthy();
  }

  // --- leader ---

  bool quorum() const {
    unsigned up = 0;
    for (auto& item : members) up += !item.second.member.learner && item.second.alive ? 1 : 0;
    return up > voters() / 2;
  }
  bool led() const { return leader != 0 && alive(leader) && quorum(); }

  void settle() {
    if (electing || led() || (leader == 0 && !quorum())) return;
    electing = true;
    tasks.add(timer.afterDelay(options.election).then([this]() {
      electing = false;
      if (led()) return;
      if (quorum()) return elect();
      leader = 0;
      for (auto& list : watches) {
        for (auto& w : list.second) {
          w->end(error(ErrorKind::kUnavailable, "etcdserver: no leader"));
        }
      }
    }));
  }
  void elect() {
    for (auto& item : members) {
      if (!item.second.member.learner && item.second.alive) return lead(item.first);
    }
  }
  void lead(MemberId id) {
    leader = id;
    ++term;
    store.restartLeases();
    leasesChanged();
  }

  // --- leases ---

  kj::Promise<void> expire() {
    for (;;) {
      auto paf = kj::newPromiseAndFulfiller<void>();
      leaseWaiter = kj::mv(paf.fulfiller);
      auto changed = kj::mv(paf.promise);
      KJ_IF_MAYBE (next, store.nextExpiry()) {
        if (led() && !electing) changed = changed.exclusiveJoin(timer.atTime(*next));
      }
      co_await changed;
      if (led() && !electing) store.expireLeases();
    }
  }
};

}  // namespace talos::etcd
