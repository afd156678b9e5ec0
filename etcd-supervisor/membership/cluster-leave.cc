#include "etcd-supervisor/membership/cluster-leave.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "etcd-supervisor/membership/membership-lock.h"

namespace talos::supervisor {
namespace {

// etcd takes members for healthy that have been connected for 5 s.
constexpr auto kRemoval = 15 * kj::SECONDS, kAgain = 500 * kj::MILLISECONDS;
// vipd gives its addresses up within 6 s (vipd/vip-manager.h) once it knows that the node leaves;
// machined's store knows that in a moment, if machined runs.
constexpr auto kAddresses = 8 * kj::SECONDS, kTelling = 5 * kj::SECONDS;

constexpr kj::StringPtr kOnly =
    "this is the only voting member: its cluster ends with it; erase it with talosctl reset "
    "--graceful=false"_kj;
constexpr kj::StringPtr kNoMember = "this node is not a member of a cluster"_kj;

void requireAllowed(kj::ArrayPtr<const MemberProbe> probes, etcd::MemberId id, bool force,
                    kj::StringPtr last) {
  auto removal = removalOf(probes, id);
  if (removal.last) fail(ErrorKind::kFailedPrecondition, last);
  KJ_IF_MAYBE (objection, removal.objection) {
    if (!force) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("the cluster would lose its quorum: ", *objection,
                   "; start those members, remove them first, or use --force"));
    }
  }
}

// `going`: another node that is about to be away.
void requireNoneAway(const kj::Maybe<kj::String>& going) {
  KJ_IF_MAYBE (name, going) {
    fail(
        ErrorKind::kFailedPrecondition,
        kj::str(*name, " is about to restart, or restarts; retry when it is back, or use --force"));
  }
}

kj::Maybe<const etcd::Member&> ownIn(kj::ArrayPtr<const etcd::Member> members, const Config& config,
                                     etcd::MemberId id) {
  for (auto& member : members) {
    if (member.id == id) return member;
  }
  if (id != 0) return nullptr;
  // Its peer URL is its own; another member may have its name.
  for (auto& member : members) {
    for (auto& url : member.peerUrls) {
      if (url == urlOf(config.addresses[0], kEtcdPeerPort)) return member;
    }
  }
  for (auto& member : members) {
    if (member.name == config.name) return member;
  }
  return nullptr;
}

}  // namespace

etcd::MemberId findMember(kj::StringPtr name, kj::ArrayPtr<const etcd::Member> members) {
  kj::Vector<kj::String> ids, all;
  etcd::MemberId found = 0;
  for (auto& member : members) {
    all.add(kj::str(hex(member.id), member.name.size() > 0 ? " " : "", member.name));
    if (member.name != name || name.size() == 0) continue;
    ids.add(hex(member.id));
    found = member.id;
  }
  if (ids.size() == 1) return found;
  if (ids.size() > 1) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(ids.size(), " members have the name \"", name, "\"; use an id: ", joined(ids)));
  }
  auto digits = name.startsWith("0x") ? name.slice(2) : name;
  while (digits.startsWith("0")) digits = digits.slice(1);
  for (auto& member : members) {
    if (hex(member.id) == digits) return member.id;
  }
  fail(ErrorKind::kNotFound,
       kj::str("the cluster has no member \"", name, "\"; it has ", joined(all)));
}

void Leave::recordLeft() {
  Intent left;
  left.state = Intent::State::kLeft;
  self.record(kj::mv(left));
  self.say(kj::str("left the cluster; removing its data"));
}

// Moves the leadership before this member leaves, so that the cluster does not wait for an
// election.
kj::Promise<void> Leave::moveAway(kj::ArrayPtr<const MemberProbe> probes, etcd::MemberId own) {
  for (auto& probe : probes) {
    if (probe.member.id == own || probe.member.learner || !probe.answers) continue;
    co_await deps.endpoints.at(kLocal).moveLeader(probe.member.id);
    log::info("moved the leadership", {{"to", describe(probe.member)}});
    co_return;
  }
}

// Removes a member through all members in turn, because etcd refuses for some seconds after a
// change of its leader or its members. If the member is missing, an earlier attempt whose answer
// was lost has removed it.
kj::Promise<void> Leave::removeSurely(kj::Vector<etcd::Etcd*> endpoints, etcd::MemberId id) {
  auto until = deps.timer.now() + kRemoval;
  kj::Maybe<kj::Exception> refusal;
  for (size_t turn = 0;; ++turn) {
    kj::Maybe<kj::Exception> wrong;
    co_await endpoints[turn % endpoints.size()]->removeMember(id).ignoreResult().catch_(
        [&](kj::Exception&& e) { wrong = kj::mv(e); });
    KJ_IF_MAYBE (e, wrong) {
      auto kind = kindOf(*e);
      if (kind == ErrorKind::kNotFound) co_return;
      if (!mayPass(*e)) kj::throwFatalException(kj::mv(*e));
      keepError(refusal, kj::mv(*e));
      if (deps.timer.now() >= until) kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(refusal)));
    } else {
      co_return;
    }
    co_await deps.timer.afterDelay(kAgain);
  }
}

// Makes vipd give up the shared addresses. If vipd hangs, an address expires with its lease.
kj::Promise<void> Leave::giveUpAddresses() {
  co_await self.untilLeavingPublished().exclusiveJoin(deps.timer.afterDelay(kTelling));
  auto until = deps.timer.now() + kAddresses;
  for (;;) {
    auto changed = self.changed.next();
    auto addresses = deps.store.sharedAddresses();
    if (addresses.empty()) co_return;
    self.say(kj::str("leaving the cluster; waiting until vipd has given up ", joined(addresses)));
    if (deps.timer.now() >= until) {
      log::warn("vipd has not given up its shared addresses; going on",
                {{"addresses", joined(addresses)}, {"waited", "8 s"}});
      co_return;
    }
    co_await deps.timer.atTime(until).exclusiveJoin(kj::mv(changed));
  }
}

kj::Promise<void> Leave::removeLocked(etcd::Etcd& through, etcd::MemberId own, Judge& judge,
                                      const Config& config) {
  auto list = co_await through.members(true);
  auto probes = co_await view.probes(list.members, config);
  auto going = co_await whoGoesAway(through, config.name);
  judge(probes, own, going);
  auto leaving = self.leaveNow();
  co_await giveUpAddresses();
  if (deps.store.running()) {
    co_await deps.endpoints.at(kLocal)
        .status()
        .then([&](etcd::Status&& status) -> kj::Promise<void> {
          if (status.leader != own) return kj::READY_NOW;
          return moveAway(probes, own);
        })
        .catch_([](kj::Exception&& e) {
          log::warn("cannot move the leadership away", {{"error", messageOf(e)}});
        });
  }
  Intent leaves;
  leaves.state = Intent::State::kLeaves;
  leaves.member = own;
  self.record(kj::mv(leaves));
  self.say(kj::str("leaving the cluster"));
  co_await removeSurely(endpointsFor(deps, config, through, list.members, own), own);
  recordLeft();
}

kj::Promise<void> Leave::leave(bool force, kj::ArrayPtr<const kj::String> known) {
  // Damaged data may be worth recovering: it is erased only with the machine.
  if (self.phase() == Phase::kDamaged) fail(ErrorKind::kFailedPrecondition, kNoMember);
  return leaveUnless(
      [force](kj::ArrayPtr<const MemberProbe> probes, etcd::MemberId own,
              const kj::Maybe<kj::String>& going) {
        requireAllowed(probes, own, force, kOnly);
        if (!force) requireNoneAway(going);
      },
      known);
}

kj::Promise<void> Leave::withdraw(Going going, bool force, kj::ArrayPtr<const kj::String> known) {
  return leaveUnless(
      [going, force](kj::ArrayPtr<const MemberProbe> probes, etcd::MemberId own,
                     const kj::Maybe<kj::String>& other) {
        if (force) return requireAllowed(probes, own, true, kOnly);
        KJ_IF_MAYBE (objection, objectionTo(going, probes, own, true)) {
          fail(ErrorKind::kFailedPrecondition, *objection);
        }
        requireNoneAway(other);
      },
      known);
}

kj::Promise<void> Leave::leaveUnless(Judge judge, kj::ArrayPtr<const kj::String> known) {
  auto config = self.config();
  auto phase = self.phase();
  if (phase == Phase::kLeft) co_return;
  if (phase == Phase::kWaiting || phase == Phase::kBootstrapping) {
    fail(ErrorKind::kFailedPrecondition, kNoMember);
  }
  auto turn = self.take("it leaves its cluster");
  // Through another member, if there is one: the lock must outlive this one.
  auto addresses = withLocal(known, deps.store.running());
  auto answer = co_await view.members(addresses);
  etcd::MemberId own = self.intent().member;
  if (own == 0 && deps.store.running()) {
    co_await deps.endpoints.at(kLocal).status().then(
        [&](etcd::Status&& status) { own = status.member; }, [](kj::Exception&&) {});
  }
  KJ_IF_MAYBE (member, ownIn(answer.list.members, config, own)) {
    own = member->id;
  } else {
    // The others have removed it before; or, if its data is damaged, have never had it.
    if (phase != Phase::kDamaged) recordLeft();
    co_return;
  }
  co_await underLock(deps, self, answer.through, config.name, [&] {
    return removeLocked(answer.through, own, judge, config);
  }).catch_([&](kj::Exception&& e) {
    // The member no longer waits.
    if (self.intent().state != Intent::State::kLeaves) self.say(kj::String());
    kj::throwFatalException(kj::mv(e));
  });
}

kj::Promise<void> Leave::settle(kj::ArrayPtr<const kj::String> known) {
  auto config = self.config();
  auto turn = self.take("it leaves its cluster");
  auto addresses = withLocal(known, deps.store.running());
  auto answer = co_await view.members(addresses);
  if (ownIn(answer.list.members, config, self.intent().member) == nullptr) {
    recordLeft();
  } else {
    log::info("the cluster has not removed this node: it stays a member");
    self.recordMember(self.intent().member);
    self.say(kj::String());
  }
}

// Returns the endpoint of another member than the removed one, if another one answers: once the
// member is removed, it answers neither the removal nor the release of the lock.
kj::Promise<etcd::Etcd*> Leave::endpointBeside(const ClusterView::Answer& answer, etcd::MemberId id,
                                               kj::ArrayPtr<const kj::String> addresses) {
  kj::Vector<kj::String> its, others;
  for (auto& member : answer.list.members) {
    if (member.id == id) addHosts(its, self.config(), member);
  }
  for (auto& address : addresses) {
    bool own = std::any_of(its.begin(), its.end(), [&](auto& one) { return one == address; });
    if (!own) others.add(kj::str(address));
  }
  etcd::Etcd* endpoint = &answer.through;
  if (!others.empty() && others.size() < addresses.size()) {
    co_await view.members(others).then(
        [&](ClusterView::Answer&& beside) { endpoint = &beside.through; }, [](kj::Exception&&) {});
  }
  co_return endpoint;
}

kj::Promise<void> Leave::remove(kj::StringPtr name, bool force,
                                kj::ArrayPtr<const kj::String> known) {
  auto config = self.config();
  auto addresses = withLocal(known, deps.store.running());
  auto answer = co_await view.members(addresses);
  auto id = findMember(name, answer.list.members);
  KJ_IF_MAYBE (own, ownIn(answer.list.members, config, self.intent().member)) {
    if (own->id == id) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("\"", name, "\" is this node; use talosctl etcd leave"));
    }
  }
  auto& through = *co_await endpointBeside(answer, id, addresses);
  co_await underLock(deps, self, through, config.name, [&]() -> kj::Promise<void> {
    auto list = co_await through.members(true);
    auto probes = co_await view.probes(list.members, config);
    requireAllowed(probes, id, force,
                   "that is the only voting member; the cluster ends without it");
    log::info("removing a member, as requested", {{"id", hex(id)}});
    // `force` skips our check; etcd's own check, at one member, still counts.
    kj::Vector<etcd::Etcd*> endpoints;
    if (force) endpoints.add(&through);
    if (!force) endpoints = endpointsFor(deps, config, through, list.members, id);
    co_await removeSurely(kj::mv(endpoints), id);
  });
}

kj::Promise<kj::String> Leave::forfeit() {
  auto config = self.config();
  auto status = co_await deps.endpoints.at(kLocal).status();
  if (status.leader != status.member) co_return kj::String();
  auto list = co_await deps.endpoints.at(kLocal).members(true);
  auto probes = co_await view.probes(list.members, config);
  for (auto& probe : probes) {
    if (probe.member.id == status.member || probe.member.learner || !probe.answers) continue;
    co_await deps.endpoints.at(kLocal).moveLeader(probe.member.id);
    log::info("moved the leadership", {{"to", describe(probe.member)}});
    co_return kj::str(probe.member.name);
  }
  fail(ErrorKind::kFailedPrecondition, "no other voting member answers that could lead");
}

}  // namespace talos::supervisor
