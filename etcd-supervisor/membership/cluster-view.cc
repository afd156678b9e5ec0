#include "etcd-supervisor/membership/cluster-view.h"

#include <algorithm>

#include "common/base/node-layout.h"
#include "common/base/texts.h"
#include "common/base/within.h"

namespace talos::supervisor {
namespace {

constexpr auto kPatience = 2 * kj::SECONDS;

bool isHere(const etcd::Member& member, const Config& config,
            const kj::Maybe<etcd::Status>& local) {
  KJ_IF_MAYBE (status, local) return member.id == status->member;
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
  if (seen.status != nullptr && !seen.member.learner) {
    kj::Vector<kj::String> hosts;
    addHosts(hosts, config, seen.member);
    seen.problem = co_await readThrough(edges.doors.at(here ? kLocal : hosts[0]));
  }
  bool answers = seen.problem.size() == 0;
  co_return Voice{kj::mv(seen.member), answers, kj::mv(seen.problem)};
}

kj::Promise<Seen> View::look(const Config& config, kj::ArrayPtr<const kj::String> known) {
  Seen seen;
  kj::Vector<kj::String> addresses;
  if (edges.board.running()) {
    auto& door = edges.doors.at(kLocal);
    co_await within(edges.timer, kPatience, door.status(), kj::str("no answer within 2 s"))
        .then([&](etcd::Status&& status) { seen.local = kj::mv(status); },
              [&](kj::Exception&& e) { seen.problem = messageOf(e); });
    addresses.add(kj::str(kLocal));
  } else {
    seen.problem = kj::str("etcd does not run here");
  }
  for (auto& address : known) addOnce(addresses, kj::str(address));

  kj::Maybe<etcd::MemberList> list;
  co_await members(addresses).then(
      [&](Answer&& answer) {
        list = kj::mv(answer.list);
        seen.certain = true;
      },
      [](kj::Exception&&) {});
  // Without a quorum: what one of them knew last.
  for (auto& address : addresses) {
    if (list != nullptr) break;
    co_await within(edges.timer, kPatience, edges.doors.at(address).members(false),
                    kj::str("no answer within 2 s"))
        .then([&](etcd::MemberList&& found) { list = kj::mv(found); }, [](kj::Exception&&) {});
  }
  KJ_IF_MAYBE (found, list) {
    kj::Vector<kj::Promise<SeenMember>> asking;
    for (auto& member : found->members) {
      bool here = isHere(member, config, seen.local);
      asking.add(lookAt(kj::mv(member), config, seen.local, seen.problem, here));
    }
    auto answers = co_await kj::joinPromises(asking.releaseAsArray());
    for (auto& answer : answers) seen.members.add(kj::mv(answer));
  }
  std::sort(seen.members.begin(), seen.members.end(), [](auto& a, auto& b) {
    return a.member.name == b.member.name ? a.member.id < b.member.id
                                          : a.member.name < b.member.name;
  });
  seen.quorum = seen.certain;
  KJ_IF_MAYBE (status, seen.local) {
    seen.problem = co_await problemOf(*status);
    co_await within(edges.timer, kPatience, edges.doors.at(kLocal).alarms(), kj::str("no answer"))
        .then(
            [&](kj::Array<etcd::Alarm>&& alarms) {
              for (auto& alarm : alarms) seen.alarms.add(alarm);
            },
            [](kj::Exception&&) {});
  }
  co_return kj::mv(seen);
}

kj::Promise<View::Answer> View::members(kj::ArrayPtr<const kj::String> addresses) {
  kj::Vector<kj::String> problems;
  for (auto& address : addresses) {
    kj::Maybe<etcd::MemberList> list;
    auto& door = edges.doors.at(address);
    co_await within(edges.timer, kPatience, door.members(true),
                    kj::str(door.name(), ": no answer within 2 s"))
        .then([&](etcd::MemberList&& found) { list = kj::mv(found); },
              [&](kj::Exception&& e) { problems.add(messageOf(e)); });
    KJ_IF_MAYBE (found, list) co_return Answer{kj::mv(*found), door};
  }
  if (addresses.size() == 0)
    fail(ErrorKind::kUnavailable, "no member of the cluster is known here");
  fail(ErrorKind::kUnavailable, kj::str("no member answers: ", kj::strArray(problems, "; ")));
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
