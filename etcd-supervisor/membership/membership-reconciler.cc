#include "etcd-supervisor/membership/membership-reconciler.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/base/within.h"
#include "common/text/texts.h"

namespace talos::supervisor {
namespace {

constexpr Backoff::Pace kSearchPace{3 * kj::SECONDS, 30 * kj::SECONDS, 1.5, 1, 1.33};
constexpr Backoff::Pace kPromotePace{2 * kj::SECONDS, 15 * kj::SECONDS, 1.5, 1, 1.2};
constexpr auto kAtRest = 10 * kj::SECONDS, kUnsettled = 500 * kj::MILLISECONDS,
               kBunch = 100 * kj::MILLISECONDS;  // of changes that are taken together
// Longer than a port of a switch, or a bond, takes to pass on frames, and a restart of apid.
constexpr auto kSilence = 60 * kj::SECONDS;
// Until a new cluster answers: etcd needs a second, its image may have to be pulled.
constexpr auto kStarting = 10 * kj::MINUTES;
constexpr auto kEnding = 2 * kj::MINUTES;
constexpr uint64_t kLogBytes = 64u << 20;  // a segment of etcd's log is made in one piece

// Returns true if no other node counts on this one, and it has no data that others lack.
bool inNoCluster(Phase phase) {
  return phase == Phase::kWaiting || phase == Phase::kBootstrapping || phase == Phase::kLeft;
}

}  // namespace

MembershipReconciler::MembershipReconciler(Dependencies given)
    : deps(kj::mv(given)),
      self(deps),
      spec(deps, self),
      view(deps),
      bootstrap_(deps, self),
      join(deps, self, view),
      leave_(deps, self, view),
      peerUrl(deps, self, view),
      search_(deps, self),
      placement(deps),
      reboot(deps, self, view),
      etcdRestart(deps, self, view),
      status(deps, self, etcdRestart),
      searching(kSearchPace),
      promoting(kPromotePace) {}

kj::Promise<void> MembershipReconciler::ready() {
  while (!self.known()) co_await self.changed.next();
}

kj::Promise<void> MembershipReconciler::run() {
  for (;;) {
    auto changed = self.changed.next();
    if (deps.store.config() != nullptr) break;
    co_await changed;
  }
  self.load();
  co_await spec.publish()
      .exclusiveJoin(move())
      .exclusiveJoin(watch())
      .exclusiveJoin(publish())
      .exclusiveJoin(search_.run());
}

// --- joining the cluster and leaving it ---

kj::Promise<void> MembershipReconciler::move() {
  for (;;) {
    auto changed = self.changed.next();
    auto pause = kUnsettled;
    co_await step().then([&](kj::Duration&& next) { pause = next; },
                         [&](kj::Exception&& e) {
                           self.say(messageOf(e));
                           pause = searching.next(deps.chance());
                         });
    co_await deps.timer.afterDelay(pause).exclusiveJoin(kj::mv(changed));
    co_await deps.timer.afterDelay(kBunch);
  }
}

kj::Promise<kj::Duration> MembershipReconciler::step() {
  if (deps.store.config() == nullptr || self.busy()) return kAtRest;
  switch (self.phase()) {
    case Phase::kWaiting:
      return search();
    case Phase::kJoining:
      return promote();
    case Phase::kMember:
      return peerUrl.settle(observed, hosts).then([] { return kAtRest; });
    case Phase::kLeaving:
      return settleLeaving();
    case Phase::kLeft:
      return purge();
    default:
      return kAtRest;
  }
}

kj::Promise<kj::Duration> MembershipReconciler::search() {
  auto config = self.config();
  addPeers(config, deps.store.kubernetesNodes());
  auto asked = co_await queryPeers(deps, config, othersOf(config, nullptr));
  if (self.busy() || self.phase() != Phase::kWaiting) co_return kUnsettled;
  if (searchesSince == nullptr) searchesSince = deps.timer.now();
  kj::Vector<PeerAnswer> members, others;
  for (auto& one : asked) {
    bool member = one.said.is<BootstrapState>() &&
                  one.said.get<BootstrapState>().state == BootstrapState::State::kMember;
    (member ? members : others).add(kj::mv(one));
  }
  kj::Maybe<kj::Exception> failure;
  auto failed = [&](kj::Exception&& e) { failure = kj::mv(e); };
  if (!members.empty()) {
    co_await join.attempt(members).then([] {}, failed);
  } else if (config.bootstraps) {
    co_await makeBySelf(others).then([] {}, failed);
  } else {
    kj::String cause;
    KJ_IF_MAYBE (last, unrecovered) cause = kj::str("; ", *last);
    self.say(kj::str(messages::kWaitingForCluster,
                     ": run talosctl bootstrap on one control-plane node, "
                     "unless that was done",
                     cause));
  }
  KJ_IF_MAYBE (e, failure) self.say(kj::str(messages::kCannotJoin, messageOf(*e)));
  if (self.phase() != Phase::kWaiting) searching.reset();
  co_return searching.next(deps.chance());
}

// Makes a cluster for machine.type: init. No operator confirms that there is no cluster: a shared
// address or a node of Kubernetes that does not answer may be one that this node cannot reach yet.
kj::Promise<void> MembershipReconciler::makeBySelf(kj::ArrayPtr<const PeerAnswer> asked) {
  kj::Vector<kj::String> silent;
  for (auto& one : asked) {
    if (!one.said.is<BootstrapState>()) silent.add(kj::str(one.host));
  }
  auto until = KJ_ASSERT_NONNULL(searchesSince) + kSilence;
  if (!silent.empty() && deps.timer.now() < until) {
    self.say(kj::str(messages::kWaitingForCluster, ": no answer from ", joined(silent),
                     "; without one it is made ", kSilence, " after the start at the earliest"));
    return kj::READY_NOW;
  }
  BootstrapRequest request;
  request.timeout = 20 * kj::SECONDS;
  return bootstrap_.decide(kj::mv(request));
}

kj::Promise<kj::Duration> MembershipReconciler::promote() {
  kj::Maybe<kj::Exception> failure;
  bool votes = false;
  auto known = co_await knownHosts();
  if (self.busy() || self.phase() != Phase::kJoining) co_return kUnsettled;
  co_await join.promote(known).then([&](bool&& done) { votes = done; },
                                    [&](kj::Exception&& e) { failure = kj::mv(e); });
  if (votes && self.phase() == Phase::kJoining) {
    promoting.reset();
    self.recordMember(self.intent().member);
    self.say(kj::String());
    log::info("this node is a voting member");
    co_return kUnsettled;
  }
  KJ_IF_MAYBE (e, failure) self.say(kj::str(messages::kNotVoting, messageOf(*e)));
  co_return promoting.next(deps.chance());
}

kj::Promise<kj::Duration> MembershipReconciler::settleLeaving() {
  auto known = co_await knownHosts();
  if (self.busy() || self.phase() != Phase::kLeaving) co_return kUnsettled;
  co_await leave_.settle(known);
  co_return kUnsettled;
}

// Removes the data, but only when machined was to stop etcd, and has.
kj::Promise<kj::Duration> MembershipReconciler::purge() {
  if (self.data() == Data::kNone) co_return kAtRest;
  bool stops = false;
  KJ_IF_MAYBE (wanted, deps.store.wanted()) stops = wanted->waitsFor.size() > 0;
  if (!stops || deps.store.running()) co_return kUnsettled;
  deps.files.removeData();
  self.say(kj::str("left the cluster; joins one again after the next reboot"));
  self.changed.raise();
  co_return kAtRest;
}

// Returns addresses of members that know this node: the observed ones, those of its
// initial-cluster, or those that other nodes' APIs report.
kj::Promise<kj::Vector<kj::String>> MembershipReconciler::knownHosts() {
  auto config = self.config();
  kj::Vector<kj::String> known;
  for (auto& host : hosts) addOnce(known, kj::str(host));
  addHosts(known, config, kj::StringPtr(self.intent().cluster));
  if (!known.empty()) co_return known;
  addPeers(config, deps.store.kubernetesNodes());
  auto asked = co_await queryPeers(deps, config, othersOf(config, nullptr));
  co_return co_await membersAt(deps, config, asked);
}

// --- how the cluster is ---

kj::Promise<ObservedCluster> MembershipReconciler::look() {
  auto config = self.config();
  kj::Vector<kj::String> known;
  for (auto& host : hosts) known.add(kj::str(host));
  addHosts(known, config, kj::StringPtr(self.intent().cluster));
  // Other members are queried for what the local one does not know. While this node makes a cluster
  // there are no others.
  bool makes = self.intent().state == Intent::State::kMakes;
  if (known.empty() && !deps.store.running() && !makes) known = co_await knownHosts();
  auto found = co_await view.look(config, known);
  if (found.problem.size() > 0) found.problem = withSpace(kj::mv(found.problem));
  co_return kj::mv(found);
}

// Adds a full disk to the problem, because it causes any other problem of etcd on this node.
kj::String MembershipReconciler::withSpace(kj::String problem) {
  auto left = deps.files.freeBytes();
  if (left >= kLogBytes) return problem;
  return kj::str("the disk of ", kDataFolder, " is full (", left >> 20,
                 " MiB left, etcd needs 64 to go on); make room: ", problem);
}

// Ends the intents that the observed cluster shows to be done.
void MembershipReconciler::settle() {
  auto& intent = self.intent();
  if (intent.state == Intent::State::kMakes && self.data() == Data::kWhole && !self.busy()) {
    self.record(Intent());
    self.say(kj::String());
    deps.files.removeSnapshot();
  }
  // Restores the intent after a failed attempt to leave, or after the loss of its file.
  KJ_IF_MAYBE (local, observed.local) {
    if (self.phase() != Phase::kMember || self.busy()) return;
    if (local->learner) {
      Intent joins;
      joins.state = Intent::State::kJoins;
      joins.member = local->member;
      self.record(kj::mv(joins));
    } else if (local->member != self.intent().member) {
      self.recordMember(local->member);
    } else if (observed.problem.size() == 0) {
      reboot.memberIsWell();
    }
    if (observed.certain && self.phase() == Phase::kMember) {
      self.recordMembers(KJ_MAP(one, observed.members) { return clone(one.member); });
    }
  }
}

kj::Promise<void> MembershipReconciler::followUpRecovery() {
  if (observed.local == nullptr || !self.recovering()) co_return;
  co_await deps.recovered(deps.endpoints.at(kLocal));
  if (self.recovering()) self.recordRecovered();
}

kj::Promise<void> MembershipReconciler::watch() {
  for (;;) {
    auto changed = self.changed.next();
    auto now = status.findPhase();
    kj::Maybe<kj::Exception> failure;
    auto once = [&]() -> kj::Promise<void> {
      bool member = now != Phase::kWaiting && now != Phase::kLeft && now != Phase::kDamaged;
      if (member && deps.store.config() != nullptr) {
        observed = co_await look();
        auto config = self.config();
        kj::Vector<kj::String> current;
        for (auto& one : observed.members) addHosts(current, config, one.member);
        hosts = kj::mv(current);  // if empty, the other nodes are queried again
      } else {
        observed = ObservedCluster();
        hosts.clear();
      }
      // An intent that cannot be written, on a full disk, is an error that is reported as well.
      failure = kj::runCatchingExceptions([&] { settle(); });
      if (deps.store.config() != nullptr) search_.observe(observed);
      co_await followUpRecovery().catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
      everLooked = true;
      looked.raise();
      if (now == Phase::kMember && !self.busy()) co_await placement.settle(observed);
    };
    co_await once().then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      log::warn("cannot read the state of etcd; retrying", {{"error", messageOf(*e)}});
    }
    bool settled = now == Phase::kWaiting || now == Phase::kLeft || now == Phase::kDamaged ||
                   (now == Phase::kMember && observed.problem.size() == 0 && !self.recovering());
    auto pause = deps.timer.afterDelay(settled ? kAtRest : kUnsettled);
    co_await pause.exclusiveJoin(kj::mv(changed));
    // A burst of changes is one look.
    co_await deps.timer.afterDelay(kBunch);
  }
}

// Publishes a new message at once, with the cluster as last observed: a look may take seconds.
kj::Promise<void> MembershipReconciler::publish() {
  for (;;) {
    auto next = looked.next(), messageChanged = self.messageChanged.next();
    kj::Maybe<kj::Exception> failure;
    // The status of the process before stays until something is known.
    if (everLooked)
      co_await status.publish(observed).then([] {},
                                             [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      log::warn("cannot publish the state of etcd; retrying", {{"error", messageOf(*e)}});
      co_await deps.timer.afterDelay(kStoreRetry);
      continue;
    }
    co_await next.exclusiveJoin(kj::mv(messageChanged));
  }
}

// --- requests ---

BootstrapState MembershipReconciler::bootstrapState(kj::StringPtr asker) {
  auto bootstrapState = self.bootstrapState();
  if (asker.size() > 0) self.learnPeer(asker);
  KJ_IF_MAYBE (local, observed.local) {
    if (bootstrapState.state == BootstrapState::State::kMember)
      bootstrapState.cluster = local->cluster;
  }
  return bootstrapState;
}

kj::Promise<void> MembershipReconciler::health() {
  auto problem = co_await view.localProblem();
  if (problem.size() > 0) fail(ErrorKind::kUnavailable, withSpace(kj::mv(problem)));
}

etcd::Etcd& MembershipReconciler::localMember() {
  self.config();
  if (!deps.store.running()) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("etcd does not run on this node",
                 self.message().size() > 0 ? kj::str(": ", self.message()) : kj::String()));
  }
  return deps.endpoints.at(kLocal);
}

etcd::Etcd& MembershipReconciler::settledMember() {
  auto& member = localMember();
  if (!self.known() || self.recovering()) {
    fail(ErrorKind::kFailedPrecondition,
         "etcd is being recovered from a snapshot, whose join tokens are revoked first; retry");
  }
  return member;
}

kj::Promise<etcd::Etcd*> MembershipReconciler::anyMember() {
  auto known = co_await knownHosts();
  kj::Vector<kj::String> all;
  if (deps.store.running()) all.add(kj::str(kLocal));
  for (auto& host : known) addOnce(all, kj::mv(host));
  co_return &(co_await view.members(all)).through;
}

kj::Promise<bool> MembershipReconciler::bootstrap(BootstrapRequest request) {
  self.config();
  co_await ready();
  auto state = self.intent().state;
  bool before = self.phase() == Phase::kMember || state == Intent::State::kMakes;
  if (before && request.receive != nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("the snapshot was not restored: this node ",
                 state == Intent::State::kMakes ? "makes a new cluster already"
                                                : "is a member of a cluster, and has its data"));
  }
  if (before && state == Intent::State::kNone) {
    // A repeated request, or a mistake on a member that is not healthy.
    auto found = co_await look();
    if (found.problem.size() == 0 && !self.recovering()) co_return true;
    if (found.problem.size() == 0) found.problem = kj::str("its recovery is not complete");
    fail(ErrorKind::kFailedPrecondition, kj::str("the data directory ", kDataFolder,
                                                 " is not empty: this node is a member of a "
                                                 "cluster, and is not healthy: ",
                                                 found.problem));
  }
  if (!before) {
    KJ_DEFER(self.changed.raise());  // waiters for this turn continue
    unrecovered = nullptr;
    co_await bootstrap_.decide(kj::mv(request));
  }
  auto until = deps.timer.now() + kStarting;
  for (;;) {
    auto next = looked.next();
    bool healthy = observed.local != nullptr && observed.problem.size() == 0;
    if (healthy && !self.recovering()) co_return before;
    KJ_IF_MAYBE (message, unrecovered) fail(ErrorKind::kInvalidArgument, *message);
    if (deps.timer.now() >= until) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("the cluster is made, but its member is not healthy yet: ",
                   healthy ? "the join tokens of the snapshot are not revoked yet, see the log of "
                             "etcd-supervisor"_kj
                           : observed.problem.asPtr()));
    }
    co_await next;
  }
}

kj::Promise<void> MembershipReconciler::recoveryFailed(kj::StringPtr given) {
  auto message = kj::str("cannot restore the snapshot: ", given,
                         "; nothing was changed, and another one can be tried");
  co_await ready();
  // First machined's store, then the disk: a crash in between starts the recovery again, and no
  // snapshot is unpacked by a spec without an intent.
  auto isIt = [&] {
    return self.intent().state == Intent::State::kMakes && self.intent().recovers;
  };
  if (!isIt()) co_return;
  if (self.data() != Data::kNone) {
    fail(ErrorKind::kFailedPrecondition, kj::str("there is data in ", kDataFolder));
  }
  co_await spec.publishWithoutIntent();
  // If the disk does not accept it, the recovery is desired again, and fails again.
  KJ_DEFER(spec.repeat());
  if (!isIt() || self.data() != Data::kNone) co_return;
  self.record(Intent());
  deps.files.removeSnapshot();
  self.say(kj::str(message));
  unrecovered = kj::mv(message);
  looked.raise();
}

kj::Promise<void> MembershipReconciler::leave(bool force) {
  self.config();
  co_await ready();
  KJ_DEFER(self.changed.raise());
  auto known = co_await knownHosts();
  co_await leave_.leave(force, known);
  auto until = deps.timer.now() + kEnding;
  while (self.phase() == Phase::kLeft && self.data() != Data::kNone) {
    if (deps.timer.now() >= until) {
      fail(ErrorKind::kDeadlineExceeded,
           "this node is not a member any more, but its etcd has not exited yet; its data will be "
           "removed when it has");
    }
    co_await deps.timer.afterDelay(kUnsettled);
  }
}

kj::Promise<Outlook> MembershipReconciler::outlook(Going going) {
  co_await ready();
  auto config = self.config();
  Outlook outlook;
  if (inNoCluster(self.phase())) co_return kj::mv(outlook);
  if (self.phase() == Phase::kDamaged) {
    if (going == Going::kRestarts) co_return kj::mv(outlook);  // it is away already
    bool counts = true;
    co_await isCounted().then([&](bool&& does) { counts = does; },
                              [&](kj::Exception&& e) { outlook.objection = messageOf(e); });
    if (!counts || outlook.objection != nullptr) co_return kj::mv(outlook);
  }
  auto found = co_await look();
  if (found.members.empty()) {
    outlook.objection =
        kj::str("no member of this node's cluster answers: ", found.problem, "; start its members");
    co_return kj::mv(outlook);
  }
  auto own = self.intent().member;
  for (auto& one : found.members) {
    if (one.isLocal) own = one.member.id;
  }
  // Without a quorum nothing can be read through any member.
  auto probes = found.quorum ? co_await view.probes(found, config) : found.probes();
  outlook.objection = objectionTo(going, probes, own, found.quorum);
  for (auto i : kj::indices(found.members)) found.members[i].problem = kj::mv(probes[i].problem);
  KJ_IF_MAYBE (leads, found.leader()) outlook.leader = leads->member.id;
  outlook.members = kj::mv(found.members);
  co_return kj::mv(outlook);
}

// Returns true if the others count this node, whose data is damaged, as a member: it does not know
// itself.
kj::Promise<bool> MembershipReconciler::isCounted() {
  auto config = self.config();
  auto asked = co_await queryPeers(deps, config, othersOf(config, nullptr));
  kj::Vector<kj::String> silent;
  for (auto& one : asked) {
    if (!one.said.is<BootstrapState>()) {
      if (!one.shared) silent.add(kj::str(one.host));
    } else if (one.said.get<BootstrapState>().state == BootstrapState::State::kMember) {
      co_return true;
    }
  }
  if (silent.empty()) co_return false;
  fail(ErrorKind::kUnavailable,
       kj::str("the data of etcd on this node is damaged, and the other nodes may count it as a "
               "member: no answer from ",
               joined(silent), "; start them"));
}

void MembershipReconciler::stay() {
  reboot.giveBack();
}

kj::Promise<void> MembershipReconciler::withdraw(Going going, bool force) {
  co_await ready();
  self.config();
  if (inNoCluster(self.phase())) co_return;
  if (self.phase() == Phase::kDamaged) {
    bool counts = going != Going::kRestarts && co_await isCounted();
    if (!counts) co_return;
  }
  KJ_DEFER(self.changed.raise());
  auto known = co_await knownHosts();
  if (going == Going::kRestarts) {
    if (!force) co_await reboot.take(known);
    co_return;
  }
  co_await leave_.withdraw(going, force, known);
}

kj::Promise<kj::Own<void>> MembershipReconciler::rerun() {
  co_await ready();
  self.config();
  auto known = co_await knownHosts();
  co_return co_await etcdRestart.take(known);
}

kj::Promise<void> MembershipReconciler::removeMember(kj::String member, bool force) {
  self.config();
  auto known = co_await knownHosts();
  co_await leave_.remove(member, force, known);
  self.changed.raise();
}

kj::Promise<kj::String> MembershipReconciler::forfeitLeadership() {
  localMember();
  auto leader = co_await leave_.forfeit();
  self.changed.raise();
  co_return leader;
}

}  // namespace talos::supervisor
