#include "etcd-supervisor/membership/cluster-join.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "etcd-supervisor/membership/membership-lock.h"
#include "etcd-supervisor/plan/etcd-arguments.h"
#include "etcd-supervisor/plan/join-plan.h"

namespace talos::supervisor {

void requireOneCluster(kj::ArrayPtr<const Asked> members) {
  const Asked* first = nullptr;
  for (auto& one : members) {
    if (!one.said.is<Standing>() || one.said.get<Standing>().cluster == 0) continue;
    if (first == nullptr) {
      first = &one;
    } else if (first->said.get<Standing>().cluster != one.said.get<Standing>().cluster) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(first->host, " and ", one.host, " are members of different clusters, ",
                   hex(first->said.get<Standing>().cluster), " and ",
                   hex(one.said.get<Standing>().cluster), "; reset those that do not belong here"));
    }
  }
}

kj::Promise<void> Join::attempt(kj::ArrayPtr<const Asked> members) {
  auto config = here.config();
  requireOneCluster(members);
  auto turn = here.take("it joins a cluster");
  auto hosts = co_await membersAt(edges, config, members);
  if (hosts.empty()) {
    fail(ErrorKind::kUnavailable, kj::str("no node tells the members of the cluster"));
  }
  auto answer = co_await view.members(hosts);
  co_await underLock(edges, here, answer.through, config.name,
                     [&] { return add(answer.through, config); });
}

kj::Promise<void> Join::add(etcd::Etcd& through, const Config& config) {
  auto peerUrl = urlOf(config.addresses[0], kEtcdPeerPort);
  kj::Vector<etcd::Etcd*> doors;
  for (;;) {
    auto list = co_await through.members(true);
    doors = doorsFor(edges, config, through, list.members);
    auto voices = co_await view.voices(list.members, config);
    auto step = planJoin(config.name, peerUrl, voices);
    if (step.what == JoinStep::What::kWait) fail(ErrorKind::kFailedPrecondition, step.why);
    if (step.what == JoinStep::What::kAdd) break;
    log::info("removing a member", {{"id", hex(step.member)}, {"reason", step.why}});
    co_await through.removeMember(step.member);
  }
  auto added = co_await addThrough(doors, peerUrl);
  Intent intent;
  intent.state = Intent::State::kJoins;
  intent.member = added.member.id;
  intent.cluster = initialCluster(added.members, added.member.id, config.name);
  here.record(kj::mv(intent));
  here.say(kj::str("joining as a learner, id ", hex(added.member.id)));
}

// What has taken effect though its answer is lost is refused the second time: nobody is added
// twice.
kj::Promise<etcd::MemberAdded> Join::addThrough(kj::ArrayPtr<etcd::Etcd* const> doors,
                                                kj::StringPtr peerUrl) {
  kj::Maybe<kj::Exception> refusal;
  for (auto* door : doors) {
    kj::Maybe<etcd::MemberAdded> added;
    kj::Maybe<kj::Exception> failure;
    co_await door->addMember(kj::arr(kj::str(peerUrl)), true)
        .then([&](etcd::MemberAdded&& it) { added = kj::mv(it); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (it, added) co_return kj::mv(*it);
    KJ_IF_MAYBE (e, failure) {
      if (!mayPass(*e)) kj::throwFatalException(kj::mv(*e));
      keepReason(refusal, kj::mv(*e));
    }
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(refusal)));
}

kj::Promise<bool> Join::promote(kj::ArrayPtr<const kj::String> known) {
  auto config = here.config();
  auto own = here.intent().member;
  // Itself is asked last: it may be the only one that is left since it votes.
  auto addresses = withLocal(known, edges.board.running());
  auto answer = co_await view.members(addresses);
  const etcd::Member* found = nullptr;
  for (auto& member : answer.list.members) {
    if (member.id == own) found = &member;
  }
  if (found == nullptr) {
    if (here.data() != Data::kNone) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("the other members have removed this one, ", hex(own),
                   "; run talosctl etcd leave on this node to join again"));
    }
    here.record(Intent());  // it has never been started: join anew
    co_return false;
  }
  if (!found->learner) co_return true;
  if (&answer.through == &edges.doors.at(kLocal)) {
    fail(ErrorKind::kUnavailable, "no other member answers, which could give it its vote");
  }
  if (here.data() != Data::kWhole) {
    // etcd starts only with the list that its cluster has, which may have changed meanwhile.
    auto cluster = initialCluster(answer.list.members, own, config.name);
    if (cluster != here.intent().cluster) {
      auto intent = here.intent().clone();
      intent.cluster = kj::mv(cluster);
      here.record(kj::mv(intent));
    }
  }
  if (here.data() != Data::kWhole || found->name.size() == 0) {
    fail(ErrorKind::kUnavailable, kj::str("waiting until etcd has started here as a learner"));
  }
  co_await underLock(edges, here, answer.through, config.name,
                     [&] { return answer.through.promoteMember(own).ignoreResult(); });
  co_return true;
}

}  // namespace talos::supervisor
