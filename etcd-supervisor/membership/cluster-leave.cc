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
// vipd says good-bye within 6 s (vipd/vip-manager.h) of being told that the node leaves; machined's
// store has that in a moment, if machined runs.
constexpr auto kAddresses = 8 * kj::SECONDS, kTelling = 5 * kj::SECONDS;

constexpr kj::StringPtr kOnly =
    "this is the only voting member: its cluster ends with it; erase it with talosctl reset "
    "--graceful=false"_kj;
constexpr kj::StringPtr kNoMember = "this node is no member of a cluster"_kj;

void requireAllowed(kj::ArrayPtr<const Voice> voices, etcd::MemberId id, bool force,
                    kj::StringPtr last) {
  auto removal = removalOf(voices, id);
  if (removal.last) fail(ErrorKind::kFailedPrecondition, last);
  KJ_IF_MAYBE (why, removal.objection) {
    if (!force) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("the cluster would lose its quorum: ", *why,
                   "; start those members, remove them first, or use --force"));
    }
  }
}

kj::Maybe<const etcd::Member&> ownIn(kj::ArrayPtr<const etcd::Member> members, const Config& config,
                                     etcd::MemberId id) {
  for (auto& member : members) {
    if (member.id == id) return member;
  }
  if (id != 0) return nullptr;
  // Its place is its own; a name may be another's, too.
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
  here.record(kj::mv(left));
  here.say(kj::str("left the cluster; removing its data"));
}

// Another member leads before this one goes: nobody waits for an election then.
kj::Promise<void> Leave::moveAway(kj::ArrayPtr<const Voice> voices, etcd::MemberId own) {
  for (auto& voice : voices) {
    if (voice.member.id == own || voice.member.learner || !voice.answers) continue;
    co_await edges.doors.at(kLocal).moveLeader(voice.member.id);
    log::info("moved the leadership", {{"to", describe(voice.member)}});
    co_return;
  }
}

// etcd refuses for some seconds after a change of its leader or its members, so all are asked in
// turns. A member that is gone was removed by an attempt whose answer was lost.
kj::Promise<void> Leave::removeSurely(kj::Vector<etcd::Etcd*> doors, etcd::MemberId id) {
  auto until = edges.timer.now() + kRemoval;
  kj::Maybe<kj::Exception> refusal;
  for (size_t turn = 0;; ++turn) {
    kj::Maybe<kj::Exception> wrong;
    co_await doors[turn % doors.size()]->removeMember(id).ignoreResult().catch_(
        [&](kj::Exception&& e) { wrong = kj::mv(e); });
    KJ_IF_MAYBE (e, wrong) {
      auto kind = kindOf(*e);
      if (kind == ErrorKind::kNotFound) co_return;
      if (!mayPass(*e)) kj::throwFatalException(kj::mv(*e));
      keepReason(refusal, kj::mv(*e));
      if (edges.timer.now() >= until) kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(refusal)));
    } else {
      co_return;
    }
    co_await edges.timer.afterDelay(kAgain);
  }
}

// One that is not given up, by a vipd that hangs, goes when its lease ends.
kj::Promise<void> Leave::giveUpAddresses() {
  co_await here.untilLeavingIsTold().exclusiveJoin(edges.timer.afterDelay(kTelling));
  auto until = edges.timer.now() + kAddresses;
  for (;;) {
    auto changed = here.changed.next();
    auto addresses = edges.board.sharedAddresses();
    if (addresses.empty()) co_return;
    here.say(kj::str("leaving the cluster; waiting until vipd has given up ", joined(addresses)));
    if (edges.timer.now() >= until) {
      log::warn("vipd has not given up its shared addresses; going on",
                {{"addresses", joined(addresses)}, {"waited", "8 s"}});
      co_return;
    }
    co_await edges.timer.atTime(until).exclusiveJoin(kj::mv(changed));
  }
}

kj::Promise<void> Leave::removeLocked(etcd::Etcd& through, etcd::MemberId own, Judge& judge,
                                      const Config& config) {
  auto list = co_await through.members(true);
  auto voices = co_await view.voices(list.members, config);
  judge(voices, own);
  auto leaving = here.leaveNow();
  co_await giveUpAddresses();
  if (edges.board.running()) {
    co_await edges.doors.at(kLocal)
        .status()
        .then([&](etcd::Status&& status) -> kj::Promise<void> {
          if (status.leader != own) return kj::READY_NOW;
          return moveAway(voices, own);
        })
        .catch_([](kj::Exception&& e) {
          log::warn("cannot move the leadership away", {{"error", messageOf(e)}});
        });
  }
  Intent leaves;
  leaves.state = Intent::State::kLeaves;
  leaves.member = own;
  here.record(kj::mv(leaves));
  here.say(kj::str("leaving the cluster"));
  co_await removeSurely(doorsFor(edges, config, through, list.members, own), own);
  recordLeft();
}

kj::Promise<void> Leave::leave(bool force, kj::ArrayPtr<const kj::String> known) {
  // What is left of its data may be worth recovering: it goes only with the machine.
  if (here.phase() == Phase::kDamaged) fail(ErrorKind::kFailedPrecondition, kNoMember);
  return leaveUnless([force](kj::ArrayPtr<const Voice> voices,
                             etcd::MemberId own) { requireAllowed(voices, own, force, kOnly); },
                     known);
}

kj::Promise<void> Leave::withdraw(Going going, bool force, kj::ArrayPtr<const kj::String> known) {
  return leaveUnless(
      [going, force](kj::ArrayPtr<const Voice> voices, etcd::MemberId own) {
        if (force) return requireAllowed(voices, own, true, kOnly);
        KJ_IF_MAYBE (why, objectionTo(going, voices, own, true)) {
          fail(ErrorKind::kFailedPrecondition, *why);
        }
      },
      known);
}

kj::Promise<void> Leave::leaveUnless(Judge judge, kj::ArrayPtr<const kj::String> known) {
  auto config = here.config();
  auto phase = here.phase();
  if (phase == Phase::kLeft) co_return;
  if (phase == Phase::kWaiting || phase == Phase::kBootstrapping) {
    fail(ErrorKind::kFailedPrecondition, kNoMember);
  }
  auto turn = here.take("it leaves its cluster");
  // Through another member, if there is one: the lock must outlive this one.
  auto addresses = withLocal(known, edges.board.running());
  auto answer = co_await view.members(addresses);
  etcd::MemberId own = here.intent().member;
  if (own == 0 && edges.board.running()) {
    co_await edges.doors.at(kLocal).status().then(
        [&](etcd::Status&& status) { own = status.member; }, [](kj::Exception&&) {});
  }
  KJ_IF_MAYBE (member, ownIn(answer.list.members, config, own)) {
    own = member->id;
  } else {
    // The others have removed it before; or, of damaged data, have never had it.
    if (phase != Phase::kDamaged) recordLeft();
    co_return;
  }
  co_await underLock(edges, here, answer.through, config.name, [&] {
    return removeLocked(answer.through, own, judge, config);
  }).catch_([&](kj::Exception&& e) {
    // It waits for nobody any more.
    if (here.intent().state != Intent::State::kLeaves) here.say(kj::String());
    kj::throwFatalException(kj::mv(e));
  });
}

kj::Promise<void> Leave::settle(kj::ArrayPtr<const kj::String> known) {
  auto config = here.config();
  auto turn = here.take("it leaves its cluster");
  auto addresses = withLocal(known, edges.board.running());
  auto answer = co_await view.members(addresses);
  if (ownIn(answer.list.members, config, here.intent().member) == nullptr) {
    recordLeft();
  } else {
    log::info("the cluster has not removed this node: it stays a member");
    here.recordMember(here.intent().member);
    here.say(kj::String());
  }
}

// The member that goes is asked for nothing, if another one answers: when it is none any more, it
// answers neither its removal nor the end of the lock.
kj::Promise<etcd::Etcd*> Leave::doorBeside(const View::Answer& answer, etcd::MemberId id,
                                           kj::ArrayPtr<const kj::String> addresses) {
  kj::Vector<kj::String> its, others;
  for (auto& member : answer.list.members) {
    if (member.id == id) addHosts(its, here.config(), member);
  }
  for (auto& address : addresses) {
    bool own = std::any_of(its.begin(), its.end(), [&](auto& one) { return one == address; });
    if (!own) others.add(kj::str(address));
  }
  etcd::Etcd* door = &answer.through;
  if (!others.empty() && others.size() < addresses.size()) {
    co_await view.members(others).then([&](View::Answer&& beside) { door = &beside.through; },
                                       [](kj::Exception&&) {});
  }
  co_return door;
}

kj::Promise<void> Leave::remove(kj::StringPtr name, bool force,
                                kj::ArrayPtr<const kj::String> known) {
  auto config = here.config();
  auto addresses = withLocal(known, edges.board.running());
  auto answer = co_await view.members(addresses);
  auto id = findMember(name, answer.list.members);
  KJ_IF_MAYBE (own, ownIn(answer.list.members, config, here.intent().member)) {
    if (own->id == id) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("\"", name, "\" is this node; use talosctl etcd leave"));
    }
  }
  auto& through = *co_await doorBeside(answer, id, addresses);
  co_await underLock(edges, here, through, config.name, [&]() -> kj::Promise<void> {
    auto list = co_await through.members(true);
    auto voices = co_await view.voices(list.members, config);
    requireAllowed(voices, id, force,
                   "that is the only voting member; the cluster ends without it");
    log::info("removing a member", {{"id", hex(id)}, {"reason", "asked for"}});
    // Who forces it goes round our check; what etcd thinks of it, at one member, still counts.
    kj::Vector<etcd::Etcd*> doors;
    if (force) doors.add(&through);
    if (!force) doors = doorsFor(edges, config, through, list.members, id);
    co_await removeSurely(kj::mv(doors), id);
  });
}

kj::Promise<kj::String> Leave::forfeit() {
  auto config = here.config();
  auto status = co_await edges.doors.at(kLocal).status();
  if (status.leader != status.member) co_return kj::String();
  auto list = co_await edges.doors.at(kLocal).members(true);
  auto voices = co_await view.voices(list.members, config);
  for (auto& voice : voices) {
    if (voice.member.id == status.member || voice.member.learner || !voice.answers) continue;
    co_await edges.doors.at(kLocal).moveLeader(voice.member.id);
    log::info("moved the leadership", {{"to", describe(voice.member)}});
    co_return kj::str(voice.member.name);
  }
  fail(ErrorKind::kFailedPrecondition, "no other voting member answers that could lead");
}

}  // namespace talos::supervisor
