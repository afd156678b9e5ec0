#include "etcd-supervisor/membership/cluster-view.h"

#include <algorithm>

#include "common/base/node-layout.h"
#include "common/base/texts.h"
#include "common/base/within.h"
#include "etcd-supervisor/plan/departure-check.h"

namespace talos::supervisor {
namespace {

constexpr auto kPatience = 2 * kj::SECONDS;
// What the first one has before all others are asked at once.
constexpr auto kHeadStart = 500 * kj::MILLISECONDS;

bool isHere(const etcd::Member& member, const Config& config,
            const kj::Maybe<etcd::Status>& local) {
  KJ_IF_MAYBE (status, local) return member.id == status->member;
  if (config.member != 0) return member.id == config.member;
  // A host name may have changed since; the place may have, too.
  for (auto& url : member.peerUrls) {
    if (url == urlOf(config.addresses[0], kEtcdPeerPort)) return true;
  }
  return member.name == config.name;
}

}  // namespace

etcd::Status clone(const etcd::Status& status) {
  return {status.member,           status.cluster, kj::str(status.version), status.dbSize,
          status.dbSizeInUse,      status.leader,  status.raftIndex,        status.raftTerm,
          status.raftAppliedIndex, status.learner, copyOf(status.errors)};
}

kj::Array<Voice> Seen::voices() const {
  return KJ_MAP(one, members) {
    return Voice{supervisor::clone(one.member), one.status != nullptr, kj::str(one.problem)};
  };
}

kj::Maybe<const SeenMember&> Seen::find(etcd::MemberId id) const {
  for (auto& one : members) {
    if (one.member.id == id) return one;
  }
  return nullptr;
}

kj::Maybe<const SeenMember&> Seen::leader() const {
  etcd::MemberId leader = 0;
  uint64_t term = 0;
  for (auto& one : members) {
    KJ_IF_MAYBE (status, one.status) {
      if (status->leader == 0 || status->raftTerm < term) continue;
      leader = status->leader;
      term = status->raftTerm;
    }
  }
  return leader == 0 ? nullptr : find(leader);
}

kj::Promise<SeenMember> View::lookAt(etcd::Member member, const Config& config,
                                     kj::Maybe<etcd::Status>& local, kj::StringPtr localProblem,
                                     bool here) {
  SeenMember seen{kj::mv(member), nullptr, kj::String(), here};
  if (here) {
    KJ_IF_MAYBE (status, local) {
      seen.status = supervisor::clone(*status);
    } else {
      seen.problem = kj::str(localProblem);
    }
    co_return kj::mv(seen);
  }
  kj::Vector<kj::String> hosts;
  addHosts(hosts, config, seen.member);
  if (hosts.empty()) {
    seen.problem = kj::str("it has no address");
    co_return kj::mv(seen);
  }
  co_await within(edges.timer, kPatience, edges.doors.at(hosts[0]).status(),
                  kj::str("no answer within 2 s"))
      .then([&](etcd::Status&& status) { seen.status = kj::mv(status); },
            [&](kj::Exception&& e) { seen.problem = messageOf(e); });
  co_return kj::mv(seen);
}

kj::Promise<kj::String> View::problemOf(const etcd::Status& local) {
  if (local.learner) co_return kj::str("the local member is a learner: it does not vote yet");
  if (local.leader == 0) co_return kj::str("the cluster has no leader");
  co_return co_await readThrough(edges.doors.at(kLocal));
}

// Why it cannot: it is cut off from the others, say, and of no help to them. Empty: it can.
kj::Promise<kj::String> View::readThrough(etcd::Etcd& door) {
  etcd::Range request;
  request.keys.key = kj::str("health");
  kj::String problem;
  co_await within(edges.timer, kPatience, door.range(kj::mv(request)),
                  kj::str("no answer within 2 s to a read that needs a quorum"))
      .then([](etcd::RangeResult&&) {}, [&](kj::Exception&& e) { problem = messageOf(e); });
  co_return kj::mv(problem);
}

kj::Promise<Voice> View::voice(etcd::Member member, const Config& config,
                               kj::Maybe<etcd::Status>& local, bool here) {
  auto seen = co_await lookAt(kj::mv(member), config, local, "etcd does not run here", here);
  co_return co_await voice(kj::mv(seen), config);
}

kj::Promise<Voice> View::voice(SeenMember seen, const Config& config) {
  if (seen.status != nullptr && !seen.member.learner) {
    kj::Vector<kj::String> hosts;
    addHosts(hosts, config, seen.member);
    seen.problem = co_await readThrough(edges.doors.at(seen.here ? kLocal : hosts[0]));
  }
  bool answers = seen.problem.size() == 0;
  co_return Voice{kj::mv(seen.member), answers, kj::mv(seen.problem)};
}

kj::Promise<void> View::lookHere(Seen& seen) {
  seen.problem = kj::str("etcd does not run here");
  if (!edges.board.running()) return kj::READY_NOW;
  return within(edges.timer, kPatience, edges.doors.at(kLocal).status(),
                kj::str("no answer within 2 s"))
      .then(
          [&seen](etcd::Status&& status) {
            seen.local = kj::mv(status);
            seen.problem = kj::String();
          },
          [&seen](kj::Exception&& e) { seen.problem = messageOf(e); });
}

// Without a quorum: what one of them knew last.
kj::Promise<kj::Maybe<etcd::MemberList>> View::listFor(Seen& seen,
                                                       kj::ArrayPtr<const kj::String> addresses) {
  kj::Maybe<etcd::MemberList> list;
  for (bool linearizable : {true, false}) {
    co_await firstOf(addresses, linearizable)
        .then(
            [&](Answer&& answer) {
              list = kj::mv(answer.list);
              seen.certain = linearizable;
            },
            [](kj::Exception&&) {});
    if (list != nullptr) break;
  }
  co_return kj::mv(list);
}

kj::Promise<void> View::askMembers(Seen& seen, kj::Array<etcd::Member> members,
                                   const Config& config) {
  auto asking = KJ_MAP(member, members) {
    bool here = isHere(member, config, seen.local);
    return lookAt(kj::mv(member), config, seen.local, seen.problem, here);
  };
  auto answers = co_await kj::joinPromises(kj::mv(asking));
  for (auto& answer : answers) seen.members.add(kj::mv(answer));
  std::sort(seen.members.begin(), seen.members.end(), [](auto& a, auto& b) {
    return a.member.name == b.member.name ? a.member.id < b.member.id
                                          : a.member.name < b.member.name;
  });
}

kj::Promise<void> View::askLocal(Seen& seen) {
  KJ_IF_MAYBE (status, seen.local) {
    auto alarms =
        within(edges.timer, kPatience, edges.doors.at(kLocal).alarms(), kj::str("no answer"))
            .then(
                [&seen](kj::Array<etcd::Alarm>&& alarms) {
                  for (auto& alarm : alarms) seen.alarms.add(alarm);
                },
                [](kj::Exception&&) {})
            .eagerlyEvaluate(nullptr);
    auto problem = co_await problemOf(*status);
    co_await alarms;
    seen.problem = kj::mv(problem);
  }
}

kj::Promise<Seen> View::look(const Config& config, kj::ArrayPtr<const kj::String> known) {
  Seen seen;
  kj::Vector<kj::String> addresses;
  if (edges.board.running()) addresses.add(kj::str(kLocal));
  for (auto& address : known) addOnce(addresses, kj::str(address));

  auto here = lookHere(seen).eagerlyEvaluate(nullptr);
  auto list = co_await listFor(seen, addresses);
  co_await here;
  auto local = askLocal(seen).eagerlyEvaluate(nullptr);
  KJ_IF_MAYBE (found, list) co_await askMembers(seen, kj::mv(found->members), config);
  co_await local;
  seen.quorum = seen.certain;
  co_return kj::mv(seen);
}

// The first one has a moment to itself: it mostly answers, and the others are left alone then.
kj::Promise<View::Answer> View::firstOf(kj::ArrayPtr<const kj::String> addresses,
                                        bool linearizable) {
  if (addresses.size() == 0)
    fail(ErrorKind::kUnavailable, "no member of the cluster is known here");
  auto said = kj::heapArray<kj::OneOf<kj::String, etcd::MemberList>>(addresses.size());
  auto ask = [&](size_t i) {
    auto& door = edges.doors.at(addresses[i]);
    return within(edges.timer, kPatience, door.members(linearizable),
                  kj::str(door.name(), ": no answer within 2 s"))
        .then([&one = said[i]](etcd::MemberList&& list) { one = kj::mv(list); },
              [&one = said[i]](kj::Exception&& e) { one = messageOf(e); });
  };
  auto first = ask(0).fork();
  auto failed = first.addBranch().then([&said]() -> kj::Promise<void> {
    if (said[0].is<etcd::MemberList>()) return kj::NEVER_DONE;
    return kj::READY_NOW;
  });
  auto next = edges.timer.afterDelay(kHeadStart).exclusiveJoin(kj::mv(failed)).fork();
  kj::Vector<kj::Promise<void>> asking;
  asking.add(first.addBranch());
  for (size_t i = 1; i < addresses.size(); ++i) {
    asking.add(next.addBranch().then([&ask, i] { return ask(i); }).eagerlyEvaluate(nullptr));
  }
  kj::Vector<kj::String> problems;
  for (auto i : kj::indices(addresses)) {
    co_await asking[i];
    if (said[i].is<etcd::MemberList>()) {
      co_return Answer{kj::mv(said[i].get<etcd::MemberList>()), edges.doors.at(addresses[i])};
    }
    problems.add(kj::mv(said[i].get<kj::String>()));
  }
  fail(ErrorKind::kUnavailable, kj::str("no member answers: ", kj::strArray(problems, "; ")));
}

kj::Promise<View::Answer> View::members(kj::ArrayPtr<const kj::String> addresses) {
  return firstOf(addresses, true);
}

kj::Promise<kj::Array<Voice>> View::voices(const Seen& seen, const Config& config) {
  auto asking = KJ_MAP(one, seen.members) {
    SeenMember copy{supervisor::clone(one.member), nullptr, kj::str(one.problem), one.here};
    KJ_IF_MAYBE (status, one.status) copy.status = supervisor::clone(*status);
    return voice(kj::mv(copy), config);
  };
  return kj::joinPromises(kj::mv(asking));
}

// None: it does not run, or does not answer.
kj::Promise<kj::Maybe<etcd::Status>> View::local() {
  kj::Maybe<etcd::Status> found;
  if (!edges.board.running()) co_return kj::mv(found);
  co_await within(edges.timer, kPatience, edges.doors.at(kLocal).status(), kj::str("no answer"))
      .then([&](etcd::Status&& status) { found = kj::mv(status); }, [](kj::Exception&&) {});
  co_return kj::mv(found);
}

kj::Promise<void> View::requireSpare(etcd::Etcd& through, const Config& config) {
  auto list = co_await through.members(true);
  auto all = co_await voices(list.members, config);
  auto status = co_await local();
  auto own = status.map([](etcd::Status& s) { return s.member; }).orDefault(0);
  KJ_IF_MAYBE (why, objectionTo(Going::kRestarts, all, own, true)) {
    fail(ErrorKind::kFailedPrecondition, *why);
  }
}

kj::Promise<kj::Array<Voice>> View::voices(kj::ArrayPtr<const etcd::Member> members,
                                           const Config& config) {
  kj::Maybe<etcd::Status> local;
  if (edges.board.running()) {
    co_await within(edges.timer, kPatience, edges.doors.at(kLocal).status(), kj::str("no answer"))
        .then([&](etcd::Status&& status) { local = kj::mv(status); }, [](kj::Exception&&) {});
  }
  kj::Vector<kj::Promise<Voice>> asking;
  for (auto& member : members) {
    bool here = false;
    KJ_IF_MAYBE (status, local) here = status->member == member.id;
    asking.add(voice(supervisor::clone(member), config, local, here));
  }
  co_return co_await kj::joinPromises(asking.releaseAsArray());
}

}  // namespace talos::supervisor
