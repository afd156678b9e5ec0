#include "etcd-supervisor/membership/cluster-join.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/base/node-messages.h"
#include "etcd-supervisor/membership/etcd-spec.h"
#include "etcd-supervisor/membership/membership-lock.h"
#include "etcd-supervisor/plan/join-plan.h"

namespace talos::supervisor {

void requireOneCluster(kj::ArrayPtr<const PeerAnswer> members) {
  const PeerAnswer* first = nullptr;
  for (auto& one : members) {
    if (!one.said.is<BootstrapState>() || one.said.get<BootstrapState>().cluster == 0) continue;
    if (first == nullptr) {
      first = &one;
    } else if (first->said.get<BootstrapState>().cluster !=
               one.said.get<BootstrapState>().cluster) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(first->host, " and ", one.host, " are members of different clusters, ",
                   hex(first->said.get<BootstrapState>().cluster), " and ",
                   hex(one.said.get<BootstrapState>().cluster),
                   "; reset those that do not belong here"));
    }
  }
}

kj::Promise<void> Join::attempt(kj::ArrayPtr<const PeerAnswer> members) {
  auto config = self.config();
  requireOneCluster(members);
  auto turn = self.take(LocalMember::kJoinTurn);
  auto hosts = co_await membersAt(deps, config, members);
  if (hosts.empty()) {
    fail(ErrorKind::kUnavailable, kj::str("no node answers with the members of the cluster"));
  }
  auto answer = co_await view.members(hosts);
  co_await underLock(deps, self, answer.through, config.name,
                     [&] { return add(answer.through, config); });
}

kj::Promise<void> Join::add(etcd::Etcd& through, const Config& config) {
  auto peerUrl = urlOf(config.addresses[0], kEtcdPeerPort);
  kj::Vector<etcd::Etcd*> endpoints;
  for (;;) {
    auto list = co_await through.members(true);
    endpoints = endpointsFor(deps, config, through, list.members);
    auto probes = co_await view.probes(list.members, config);
    auto step = planJoin(config.name, peerUrl, probes);
    if (step.what == JoinStep::What::kWait) fail(ErrorKind::kFailedPrecondition, step.message);
    if (step.what == JoinStep::What::kAdd) break;
    log::info(kj::str("removing ", step.message), {{"id", hex(step.member)}});
    co_await through.removeMember(step.member);
  }
  auto added = co_await addThrough(endpoints, peerUrl);
  Intent intent;
  intent.state = Intent::State::kJoins;
  intent.member = added.member.id;
  intent.cluster = initialCluster(added.members, added.member.id, config.name);
  self.record(kj::mv(intent));
  self.say(kj::str("joining as a learner, id ", hex(added.member.id)));
}

// Adds a member. If the answer to a successful change was lost, the cluster refuses the second
// request, so no node is added twice.
kj::Promise<etcd::MemberAdded> Join::addThrough(kj::ArrayPtr<etcd::Etcd* const> endpoints,
                                                kj::StringPtr peerUrl) {
  kj::Maybe<kj::Exception> refusal;
  for (auto* endpoint : endpoints) {
    kj::Maybe<etcd::MemberAdded> added;
    kj::Maybe<kj::Exception> failure;
    co_await endpoint->addMember(kj::arr(kj::str(peerUrl)), true)
        .then([&](etcd::MemberAdded&& it) { added = kj::mv(it); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (it, added) co_return kj::mv(*it);
    KJ_IF_MAYBE (e, failure) {
      if (!mayPass(*e)) kj::throwFatalException(kj::mv(*e));
      keepError(refusal, kj::mv(*e));
    }
  }
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(refusal)));
}

kj::Promise<bool> Join::promote(kj::ArrayPtr<const kj::String> known) {
  auto config = self.config();
  auto own = self.intent().member;
  // The local member is called last: it may be the only one left, if it votes already.
  auto addresses = withLocal(known, deps.store.running());
  auto answer = co_await view.members(addresses);
  const etcd::Member* found = nullptr;
  for (auto& member : answer.list.members) {
    if (member.id == own) found = &member;
  }
  if (found == nullptr) {
    if (self.data() != Data::kNone) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(messages::kRemovedByOthers, ", ", hex(own),
                   "; run talosctl etcd leave on this node to join again"));
    }
    self.record(Intent());  // it has never been started, so this node joins again
    co_return false;
  }
  if (!found->learner) co_return true;
  if (&answer.through == &deps.endpoints.at(kLocal)) {
    fail(ErrorKind::kUnavailable, "no other member answers that could promote it");
  }
  if (self.data() != Data::kWhole) {
    // etcd starts only with the list that its cluster has, which may have changed meanwhile.
    auto cluster = initialCluster(answer.list.members, own, config.name);
    if (cluster != self.intent().cluster) {
      auto intent = self.intent().clone();
      intent.cluster = kj::mv(cluster);
      self.record(kj::mv(intent));
    }
  }
  if (self.data() != Data::kWhole || found->name.size() == 0) {
    fail(ErrorKind::kUnavailable,
         kj::str("waiting until etcd of this node has started as a learner"));
  }
  co_await underLock(deps, self, answer.through, config.name,
                     [&] { return answer.through.promoteMember(own).ignoreResult(); });
  co_return true;
}

}  // namespace talos::supervisor
