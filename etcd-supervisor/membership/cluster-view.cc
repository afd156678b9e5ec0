#include "etcd-supervisor/membership/cluster-view.h"

#include <algorithm>

#include "common/base/node-layout.h"
#include "common/base/within.h"
#include "common/text/texts.h"
#include "etcd-supervisor/plan/departure-check.h"

namespace talos::supervisor {
namespace {

constexpr auto kTimeout = 2 * kj::SECONDS;
// Head start of the first member before all others are queried at once.
constexpr auto kHeadStart = 500 * kj::MILLISECONDS;

bool isLocalMember(const etcd::Member& member, const Config& config,
                   const kj::Maybe<etcd::Status>& local) {
  KJ_IF_MAYBE (status, local) return member.id == status->member;
  if (config.member != 0) return member.id == config.member;
  // The host name or the address may have changed since.
  for (auto& url : member.peerUrls) {
    if (url == urlOf(config.addresses[0], kEtcdPeerPort)) return true;
  }
  return member.name == config.name;
}

}  // namespace

etcd::Status clone(const etcd::Status& status) {
  return {.member = status.member,
          .cluster = status.cluster,
          .version = kj::str(status.version),
          .dbSize = status.dbSize,
          .dbSizeInUse = status.dbSizeInUse,
          .leader = status.leader,
          .raftIndex = status.raftIndex,
          .raftTerm = status.raftTerm,
          .raftAppliedIndex = status.raftAppliedIndex,
          .revision = status.revision,
          .learner = status.learner,
          .errors = copyOf(status.errors)};
}

kj::Array<MemberProbe> ObservedCluster::probes() const {
  return KJ_MAP(one, members) {
    return MemberProbe{supervisor::clone(one.member), one.status != nullptr, kj::str(one.problem)};
  };
}

kj::Maybe<const ObservedMember&> ObservedCluster::find(etcd::MemberId id) const {
  for (auto& one : members) {
    if (one.member.id == id) return one;
  }
  return nullptr;
}

kj::Maybe<const ObservedMember&> ObservedCluster::leader() const {
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

kj::Promise<ObservedMember> ClusterView::lookAt(etcd::Member member, const Config& config,
                                                kj::Maybe<etcd::Status>& local,
                                                kj::StringPtr localProblem, bool isLocal) {
  ObservedMember observed{
      .member = kj::mv(member), .status = nullptr, .problem = kj::String(), .isLocal = isLocal};
  if (isLocal) {
    KJ_IF_MAYBE (status, local) {
      observed.status = supervisor::clone(*status);
    } else {
      observed.problem = kj::str(localProblem);
    }
    co_return kj::mv(observed);
  }
  kj::Vector<kj::String> hosts;
  addHosts(hosts, config, observed.member);
  if (hosts.empty()) {
    observed.problem = kj::str("it has no address");
    co_return kj::mv(observed);
  }
  co_await within(deps.timer, kTimeout, deps.endpoints.at(hosts[0]).status(),
                  kj::str("no answer within 2 s"))
      .then(
          [&](etcd::Status&& status) {
            // Nodes may have got each other's addresses: another member's answer says nothing.
            if (status.member == observed.member.id) {
              observed.status = kj::mv(status);
            } else {
              observed.problem =
                  kj::str("another member, ", hex(status.member), ", answers at ", hosts[0]);
            }
          },
          [&](kj::Exception&& e) { observed.problem = messageOf(e); });
  co_return kj::mv(observed);
}

kj::Promise<kj::String> ClusterView::problemOf(const etcd::Status& local) {
  if (local.learner) co_return kj::str("the local member is a learner: it does not vote yet");
  if (local.leader == 0) co_return kj::str("the cluster has no leader");
  co_return co_await readThrough(deps.endpoints.at(kLocal));
}

// Returns the problem of a member that cannot read what a quorum has, for example because it is cut
// off from the others, and is useless to them; empty if it can.
kj::Promise<kj::String> ClusterView::readThrough(etcd::Etcd& endpoint) {
  etcd::Range request;
  request.keys.key = kj::str("health");
  kj::String problem;
  co_await within(deps.timer, kTimeout, endpoint.range(kj::mv(request)),
                  kj::str("no answer within 2 s to a read that needs a quorum"))
      .then([](etcd::RangeResult&&) {}, [&](kj::Exception&& e) { problem = messageOf(e); });
  co_return kj::mv(problem);
}

kj::Promise<MemberProbe> ClusterView::probe(etcd::Member member, const Config& config,
                                            kj::Maybe<etcd::Status>& local, bool isLocal) {
  auto observed =
      co_await lookAt(kj::mv(member), config, local, "etcd does not run on this node", isLocal);
  co_return co_await probe(kj::mv(observed), config);
}

kj::Promise<MemberProbe> ClusterView::probe(ObservedMember observed, const Config& config) {
  if (observed.status != nullptr && !observed.member.learner) {
    kj::Vector<kj::String> hosts;
    addHosts(hosts, config, observed.member);
    observed.problem =
        co_await readThrough(deps.endpoints.at(observed.isLocal ? kLocal : hosts[0]));
  }
  bool answers = observed.problem.size() == 0;
  co_return MemberProbe{kj::mv(observed.member), answers, kj::mv(observed.problem)};
}

kj::Promise<void> ClusterView::lookAtLocal(ObservedCluster& observed) {
  observed.problem = kj::str("etcd does not run on this node");
  if (!deps.store.running()) return kj::READY_NOW;
  return within(deps.timer, kTimeout, deps.endpoints.at(kLocal).status(),
                kj::str("no answer within 2 s"))
      .then(
          [&observed](etcd::Status&& status) {
            observed.local = kj::mv(status);
            observed.problem = kj::String();
          },
          [&observed](kj::Exception&& e) { observed.problem = messageOf(e); });
}

// Returns the list of members; without a quorum, the last one that a member knew.
kj::Promise<kj::Maybe<etcd::MemberList>> ClusterView::listFor(
    ObservedCluster& observed, kj::ArrayPtr<const kj::String> addresses) {
  kj::Maybe<etcd::MemberList> list;
  for (bool linearizable : {true, false}) {
    co_await firstOf(addresses, linearizable)
        .then(
            [&](Answer&& answer) {
              list = kj::mv(answer.list);
              observed.certain = linearizable;
            },
            [](kj::Exception&&) {});
    if (list != nullptr) break;
  }
  co_return kj::mv(list);
}

kj::Promise<void> ClusterView::queryMembers(ObservedCluster& observed,
                                            kj::Array<etcd::Member> members, const Config& config) {
  auto asking = KJ_MAP(member, members) {
    bool isLocal = isLocalMember(member, config, observed.local);
    return lookAt(kj::mv(member), config, observed.local, observed.problem, isLocal);
  };
  auto answers = co_await kj::joinPromises(kj::mv(asking));
  for (auto& answer : answers) observed.members.add(kj::mv(answer));
  std::sort(observed.members.begin(), observed.members.end(), [](auto& a, auto& b) {
    return a.member.name == b.member.name ? a.member.id < b.member.id
                                          : a.member.name < b.member.name;
  });
}

kj::Promise<void> ClusterView::queryLocal(ObservedCluster& observed) {
  KJ_IF_MAYBE (status, observed.local) {
    auto alarms =
        within(deps.timer, kTimeout, deps.endpoints.at(kLocal).alarms(), kj::str("no answer"))
            .then(
                [&observed](kj::Array<etcd::Alarm>&& alarms) {
                  for (auto& alarm : alarms) observed.alarms.add(alarm);
                },
                [](kj::Exception&&) {})
            .eagerlyEvaluate(nullptr);
    auto problem = co_await problemOf(*status);
    co_await alarms;
    observed.problem = kj::mv(problem);
  }
}

kj::Promise<ObservedCluster> ClusterView::look(const Config& config,
                                               kj::ArrayPtr<const kj::String> known) {
  ObservedCluster observed;
  kj::Vector<kj::String> addresses;
  if (deps.store.running()) addresses.add(kj::str(kLocal));
  for (auto& address : known) addOnce(addresses, kj::str(address));

  auto lookingAtLocal = lookAtLocal(observed).eagerlyEvaluate(nullptr);
  auto list = co_await listFor(observed, addresses);
  co_await lookingAtLocal;
  auto local = queryLocal(observed).eagerlyEvaluate(nullptr);
  KJ_IF_MAYBE (found, list) co_await queryMembers(observed, kj::mv(found->members), config);
  co_await local;
  observed.quorum = observed.certain;
  co_return kj::mv(observed);
}

// Returns the first answer. The first address has a head start: it usually answers, and then the
// others are not called.
kj::Promise<ClusterView::Answer> ClusterView::firstOf(kj::ArrayPtr<const kj::String> addresses,
                                                      bool linearizable) {
  if (addresses.size() == 0)
    fail(ErrorKind::kUnavailable, "this node knows no member of the cluster");
  auto said = kj::heapArray<kj::OneOf<kj::String, etcd::MemberList>>(addresses.size());
  auto ask = [&](size_t i) {
    auto& endpoint = deps.endpoints.at(addresses[i]);
    return within(deps.timer, kTimeout, endpoint.members(linearizable),
                  kj::str(endpoint.name(), ": no answer within 2 s"))
        .then([&one = said[i]](etcd::MemberList&& list) { one = kj::mv(list); },
              [&one = said[i]](kj::Exception&& e) { one = messageOf(e); });
  };
  auto first = ask(0).fork();
  auto failed = first.addBranch().then([&said]() -> kj::Promise<void> {
    if (said[0].is<etcd::MemberList>()) return kj::NEVER_DONE;
    return kj::READY_NOW;
  });
  auto next = deps.timer.afterDelay(kHeadStart).exclusiveJoin(kj::mv(failed)).fork();
  kj::Vector<kj::Promise<void>> asking;
  asking.add(first.addBranch());
  for (size_t i = 1; i < addresses.size(); ++i) {
    asking.add(next.addBranch().then([&ask, i] { return ask(i); }).eagerlyEvaluate(nullptr));
  }
  kj::Vector<kj::String> problems;
  for (auto i : kj::indices(addresses)) {
    co_await asking[i];
    if (said[i].is<etcd::MemberList>()) {
      co_return Answer{kj::mv(said[i].get<etcd::MemberList>()), deps.endpoints.at(addresses[i])};
    }
    problems.add(kj::mv(said[i].get<kj::String>()));
  }
  fail(ErrorKind::kUnavailable, kj::str("no member answers: ", kj::strArray(problems, "; ")));
}

kj::Promise<ClusterView::Answer> ClusterView::members(kj::ArrayPtr<const kj::String> addresses) {
  return firstOf(addresses, true);
}

kj::Promise<kj::Array<MemberProbe>> ClusterView::probes(const ObservedCluster& observed,
                                                        const Config& config) {
  auto asking = KJ_MAP(one, observed.members) {
    ObservedMember copy{.member = supervisor::clone(one.member),
                        .status = nullptr,
                        .problem = kj::str(one.problem),
                        .isLocal = one.isLocal};
    KJ_IF_MAYBE (status, one.status) copy.status = supervisor::clone(*status);
    return probe(kj::mv(copy), config);
  };
  return kj::joinPromises(kj::mv(asking));
}

// Returns nullptr if etcd does not run, or does not answer.
kj::Promise<kj::Maybe<etcd::Status>> ClusterView::local() {
  kj::Maybe<etcd::Status> found;
  if (!deps.store.running()) co_return kj::mv(found);
  co_await within(deps.timer, kTimeout, deps.endpoints.at(kLocal).status(), kj::str("no answer"))
      .then([&](etcd::Status&& status) { found = kj::mv(status); }, [](kj::Exception&&) {});
  co_return kj::mv(found);
}

kj::Promise<kj::String> ClusterView::localProblem() {
  ObservedCluster observed;
  co_await lookAtLocal(observed);
  KJ_IF_MAYBE (status, observed.local) co_return co_await problemOf(*status);
  co_return kj::mv(observed.problem);
}

kj::Promise<void> ClusterView::requireSpare(etcd::Etcd& through, const Config& config) {
  auto list = co_await through.members(true);
  auto all = co_await probes(list.members, config);
  auto status = co_await local();
  auto own = status.map([](etcd::Status& s) { return s.member; }).orDefault(0);
  KJ_IF_MAYBE (objection, objectionTo(Going::kRestarts, all, own, true)) {
    fail(ErrorKind::kFailedPrecondition, *objection);
  }
}

kj::Promise<kj::Array<MemberProbe>> ClusterView::probes(kj::ArrayPtr<const etcd::Member> members,
                                                        const Config& config) {
  kj::Maybe<etcd::Status> local;
  if (deps.store.running()) {
    co_await within(deps.timer, kTimeout, deps.endpoints.at(kLocal).status(), kj::str("no answer"))
        .then([&](etcd::Status&& status) { local = kj::mv(status); }, [](kj::Exception&&) {});
  }
  kj::Vector<kj::Promise<MemberProbe>> asking;
  for (auto& member : members) {
    bool isLocal = false;
    KJ_IF_MAYBE (status, local) isLocal = status->member == member.id;
    asking.add(probe(supervisor::clone(member), config, local, isLocal));
  }
  co_return co_await kj::joinPromises(asking.releaseAsArray());
}

}  // namespace talos::supervisor
