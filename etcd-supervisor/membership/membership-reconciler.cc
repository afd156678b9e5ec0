#include "etcd-supervisor/membership/membership-reconciler.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/texts.h"
#include "common/base/within.h"

namespace talos::supervisor {
namespace {

constexpr Backoff::Pace kSearchPace{3 * kj::SECONDS, 30 * kj::SECONDS, 1.5, 1, 1.33};
constexpr Backoff::Pace kPromotePace{2 * kj::SECONDS, 15 * kj::SECONDS, 1.5, 1, 1.2};
constexpr auto kAtRest = 10 * kj::SECONDS, kUnsettled = 500 * kj::MILLISECONDS,
               kBunch = 100 * kj::MILLISECONDS;  // of changes that are taken together
constexpr auto kStoreRetry = 1 * kj::SECONDS;
// Of a new cluster, until it answers: etcd needs a second, its image may have to be pulled.
constexpr auto kStarting = 10 * kj::MINUTES;
constexpr auto kEnding = 2 * kj::MINUTES;
constexpr uint64_t kLogBytes = 64u << 20;  // a segment of etcd's log is made in one piece

// Neither are there others that count on this node, nor does it have what they do not.
bool inNoCluster(Phase phase) {
  return phase == Phase::kWaiting || phase == Phase::kBootstrapping || phase == Phase::kLeft;
}

}  // namespace

Keeper::Keeper(Edges given)
    : edges(kj::mv(given)),
      here(edges),
      view(edges),
      bootstrap_(edges, here),
      join(edges, here, view),
      leave_(edges, here, view),
      restart(edges, here, view),
      rerun_(edges, here, view),
      searching(kSearchPace),
      promoting(kPromotePace) {}

kj::Promise<void> Keeper::ready() {
  while (!here.known()) co_await here.changed.next();
}

kj::Promise<void> Keeper::run() {
  for (;;) {
    auto changed = here.changed.next();
    if (edges.board.config() != nullptr) break;
    co_await changed;
  }
  here.load();
  co_await publishSpecs().exclusiveJoin(move()).exclusiveJoin(watch()).exclusiveJoin(publish());
}

// --- how etcd is to be run ---

kj::Promise<void> Keeper::publishSpecs() {
  kj::Maybe<Wanted> last;
  for (;;) {
    auto changed = here.changed.next();
    KJ_IF_MAYBE (config, edges.board.config()) {
      auto wanted = wantedOf(*config, here.intent(), here.data(), edges.board.wanted(),
                             edges.files.snapshot());
      bool same = false;
      KJ_IF_MAYBE (before, last) same = *before == wanted && !toldOtherwise;
      if (!same) {
        kj::Maybe<kj::Exception> failure;
        auto copy = wantedOf(*config, here.intent(), here.data(), edges.board.wanted(),
                             edges.files.snapshot());
        toldOtherwise = false;
        co_await edges.board.want(kj::mv(wanted))
            .then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
        KJ_IF_MAYBE (e, failure) {
          log::warn("cannot store how etcd is to be run; retrying", {{"error", messageOf(*e)}});
          toldOtherwise = true;
          co_await edges.timer.afterDelay(kStoreRetry);
        } else {
          last = kj::mv(copy);
        }
        continue;
      }
    }
    co_await changed;
  }
}

// --- the way into the cluster and out of it ---

kj::Promise<void> Keeper::move() {
  for (;;) {
    auto changed = here.changed.next();
    auto pause = kUnsettled;
    co_await step().then([&](kj::Duration&& next) { pause = next; },
                         [&](kj::Exception&& e) {
                           here.say(messageOf(e));
                           pause = searching.next(edges.chance());
                         });
    co_await edges.timer.afterDelay(pause).exclusiveJoin(kj::mv(changed));
    co_await edges.timer.afterDelay(kBunch);
  }
}

kj::Promise<kj::Duration> Keeper::step() {
  if (edges.board.config() == nullptr || here.busy()) return kAtRest;
  switch (here.phase()) {
    case Phase::kWaiting:
      return search();
    case Phase::kJoining:
      return promote();
    case Phase::kLeaving:
      return settleLeaving();
    case Phase::kLeft:
      return purge();
    default:
      return kAtRest;
  }
}

kj::Promise<kj::Duration> Keeper::search() {
  auto config = here.config();
  addPeers(config, edges.board.kubernetesNodes());
  auto asked = co_await askAll(edges, config, othersOf(config, nullptr));
  if (here.busy() || here.phase() != Phase::kWaiting) co_return kUnsettled;
  kj::Vector<Asked> members;
  for (auto& one : asked) {
    if (one.said.is<Standing>() && one.said.get<Standing>().state == Standing::State::kMember) {
      members.add(kj::mv(one));
    }
  }
  kj::Maybe<kj::Exception> failure;
  auto failed = [&](kj::Exception&& e) { failure = kj::mv(e); };
  if (!members.empty()) {
    co_await join.attempt(members).then([] {}, failed);
  } else if (config.bootstraps) {
    co_await makeBySelf().then([] {}, failed);
  } else {
    here.say(
        kj::str("waiting for a cluster: run talosctl bootstrap on one control-plane node, "
                "unless that was done"));
  }
  KJ_IF_MAYBE (e, failure) here.say(kj::str("cannot join yet: ", messageOf(*e)));
  if (here.phase() != Phase::kWaiting) searching.reset();
  co_return searching.next(edges.chance());
}

// machine.type: init.
kj::Promise<void> Keeper::makeBySelf() {
  BootstrapRequest request;
  request.patience = 20 * kj::SECONDS;
  return bootstrap_.decide(kj::mv(request));
}

kj::Promise<kj::Duration> Keeper::promote() {
  kj::Maybe<kj::Exception> failure;
  bool votes = false;
  auto known = co_await knownHosts();
  if (here.busy() || here.phase() != Phase::kJoining) co_return kUnsettled;
  co_await join.promote(known).then([&](bool&& done) { votes = done; },
                                    [&](kj::Exception&& e) { failure = kj::mv(e); });
  if (votes && here.phase() == Phase::kJoining) {
    promoting.reset();
    here.recordMember(here.intent().member);
    here.say(kj::String());
    log::info("this node is a voting member");
    co_return kUnsettled;
  }
  KJ_IF_MAYBE (e, failure) here.say(kj::str("not a voting member yet: ", messageOf(*e)));
  co_return promoting.next(edges.chance());
}

kj::Promise<kj::Duration> Keeper::settleLeaving() {
  auto known = co_await knownHosts();
  if (here.busy() || here.phase() != Phase::kLeaving) co_return kUnsettled;
  co_await leave_.settle(known);
  co_return kUnsettled;
}

// Only when machined has been told to stop etcd, and has.
kj::Promise<kj::Duration> Keeper::purge() {
  if (here.data() == Data::kNone) co_return kAtRest;
  bool stops = false;
  KJ_IF_MAYBE (wanted, edges.board.wanted()) stops = wanted->waitsFor.size() > 0;
  if (!stops || edges.board.running()) co_return kUnsettled;
  edges.files.removeData();
  here.say(kj::str("left the cluster; joins one again after the next reboot"));
  here.changed.raise();
  co_return kAtRest;
}

// Members that can be asked about this node: those that were seen, those that it was added beside,
// or those that other nodes' APIs tell.
kj::Promise<kj::Vector<kj::String>> Keeper::knownHosts() {
  auto config = here.config();
  kj::Vector<kj::String> known;
  for (auto& host : hosts) addOnce(known, kj::str(host));
  addHosts(known, config, kj::StringPtr(here.intent().cluster));
  if (!known.empty()) co_return known;
  addPeers(config, edges.board.kubernetesNodes());
  auto asked = co_await askAll(edges, config, othersOf(config, nullptr));
  co_return co_await membersAt(edges, config, asked);
}

// --- how the cluster is ---

kj::Promise<Seen> Keeper::look() {
  auto config = here.config();
  kj::Vector<kj::String> known;
  for (auto& host : hosts) known.add(kj::str(host));
  addHosts(known, config, kj::StringPtr(here.intent().cluster));
  // Others are asked for what the local member cannot tell. While it makes a cluster there is
  // nobody who could.
  bool makes = here.intent().state == Intent::State::kMakes;
  if (known.empty() && !edges.board.running() && !makes) known = co_await knownHosts();
  auto found = co_await view.look(config, known);
  if (found.problem.size() > 0) found.problem = withSpace(kj::mv(found.problem));
  co_return kj::mv(found);
}

// A full disk is the cause of whatever else is wrong with etcd here.
kj::String Keeper::withSpace(kj::String problem) {
  auto left = edges.files.freeBytes();
  if (left >= kLogBytes) return problem;
  return kj::str("the disk of ", kDataFolder, " is full (", left >> 20,
                 " MiB left, etcd needs 64 to go on); make room: ", problem);
}

// What is over by what was seen.
void Keeper::settle() {
  auto& intent = here.intent();
  if (intent.state == Intent::State::kMakes && here.data() == Data::kWhole && !here.busy()) {
    here.record(Intent());
    here.say(kj::String());
    edges.files.removeSnapshot();
  }
  // As after leaving failed, or when the file of intents was lost.
  KJ_IF_MAYBE (local, seen.local) {
    if (here.phase() != Phase::kMember || here.busy()) return;
    if (local->learner) {
      Intent joins;
      joins.state = Intent::State::kJoins;
      joins.member = local->member;
      here.record(kj::mv(joins));
    } else if (local->member != here.intent().member) {
      here.recordMember(local->member);
    }
  }
}

Phase Keeper::findPhase() {
  auto now = here.phase();
  if (phase == nullptr || KJ_ASSERT_NONNULL(phase) != now) {
    since = dateText(edges.clock.now());
    phase = now;
    here.changed.raise();
  }
  return now;
}

kj::Promise<void> Keeper::watch() {
  for (;;) {
    auto changed = here.changed.next();
    auto now = findPhase();
    kj::Maybe<kj::Exception> failure;
    auto once = [&]() -> kj::Promise<void> {
      bool member = now != Phase::kWaiting && now != Phase::kLeft && now != Phase::kDamaged;
      if (member && edges.board.config() != nullptr) {
        seen = co_await look();
        auto config = here.config();
        kj::Vector<kj::String> current;
        for (auto& one : seen.members) addHosts(current, config, one.member);
        hosts = kj::mv(current);  // none: the other nodes are asked for them again
      } else {
        seen = Seen();
        hosts.clear();
      }
      // What cannot be written, on a full disk, is told all the same.
      failure = kj::runCatchingExceptions([&] { settle(); });
      everLooked = true;
      looked.raise();
    };
    co_await once().then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      log::warn("cannot see how etcd is; retrying", {{"error", messageOf(*e)}});
    }
    bool settled = now == Phase::kWaiting || now == Phase::kLeft || now == Phase::kDamaged ||
                   (now == Phase::kMember && seen.problem.size() == 0);
    auto pause = edges.timer.afterDelay(settled ? kAtRest : kUnsettled);
    co_await pause.exclusiveJoin(kj::mv(changed));
    // What comes in a bunch is one look.
    co_await edges.timer.afterDelay(kBunch);
  }
}

// What is said is told at once, with what was seen last: a look may take seconds.
kj::Promise<void> Keeper::publish() {
  for (;;) {
    auto seen = looked.next(), told = here.told.next();
    kj::Maybe<kj::Exception> failure;
    // What the one before has told stays until something is known.
    if (everLooked) co_await tell().then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      log::warn("cannot tell how etcd is; retrying", {{"error", messageOf(*e)}});
      co_await edges.timer.afterDelay(kStoreRetry);
      continue;
    }
    co_await seen.exclusiveJoin(kj::mv(told));
  }
}

Status Keeper::status() const {
  constexpr kj::StringPtr kNames[] = {"waiting"_kj, "waiting"_kj, "bootstrapping"_kj, "joining"_kj,
                                      "member"_kj,  "leaving"_kj, "left"_kj};
  Status status;
  auto now = KJ_ASSERT_NONNULL(phase);
  status.phase = kNames[static_cast<size_t>(now)];
  if (here.leaves() && now != Phase::kLeft) status.phase = "leaving"_kj;
  bool empty = now == Phase::kWaiting || now == Phase::kLeft;
  if (empty && here.claims()) status.phase = "bootstrapping"_kj;
  status.changed = kj::str(since);
  status.message = kj::str(here.message().size() > 0 ? here.message() : rerun_.waits());
  KJ_IF_MAYBE (local, seen.local) {
    status.member = hex(local->member);
    if (local->learner) status.phase = "learner"_kj;
  }
  KJ_IF_MAYBE (leader, seen.leader()) status.leader = kj::str(leader->member.name);
  auto votes = votesOf(seen.voices());
  status.voters = votes.voters;
  status.tolerates = votes.tolerates();
  bool runs = now == Phase::kMember || now == Phase::kBootstrapping;
  bool full = now == Phase::kJoining && seen.problem.startsWith("the disk of ");
  if ((runs && status.message.size() == 0) || full) status.message = kj::str(seen.problem);
  if (now == Phase::kMember && seen.certain && seen.local == nullptr) {
    bool listed = false;
    for (auto& one : seen.members) listed |= one.here;
    if (!listed) {
      status.message = kj::str(
          "the other members have removed this one; run talosctl etcd leave on this node, and "
          "reboot it to join again");
    }
  }
  status.alarms = KJ_MAP(alarm, seen.alarms) {
    auto name = hex(alarm.member);
    KJ_IF_MAYBE (member, seen.find(alarm.member)) name = describe(member->member);
    return kj::str(name, ": ", alarm.type == etcd::Alarm::Type::kNoSpace ? "NOSPACE" : "CORRUPT");
  };
  return status;
}

kj::Promise<void> Keeper::tell() {
  findPhase();
  auto members = KJ_MAP(one, seen.members) {
    return clone(one.member);
  };
  bool leaving = here.leaves();
  co_await edges.board.tell(status(), members);
  if (leaving) here.leavingIsTold();
}

// --- what it is asked for ---

Standing Keeper::standing(kj::StringPtr asker) {
  auto standing = here.standing();
  if (asker.size() > 0) here.hearOf(asker);
  KJ_IF_MAYBE (local, seen.local) {
    if (standing.state == Standing::State::kMember) standing.cluster = local->cluster;
  }
  return standing;
}

kj::Promise<void> Keeper::health() {
  auto found = co_await look();
  if (found.problem.size() > 0) fail(ErrorKind::kUnavailable, found.problem);
}

etcd::Etcd& Keeper::localMember() {
  here.config();
  if (!edges.board.running()) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("etcd does not run on this node",
                 here.message().size() > 0 ? kj::str(": ", here.message()) : kj::String()));
  }
  return edges.doors.at(kLocal);
}

kj::Promise<etcd::Etcd*> Keeper::anyMember() {
  auto known = co_await knownHosts();
  kj::Vector<kj::String> all;
  if (edges.board.running()) all.add(kj::str(kLocal));
  for (auto& host : known) addOnce(all, kj::mv(host));
  co_return &(co_await view.members(all)).through;
}

kj::Promise<bool> Keeper::bootstrap(BootstrapRequest request) {
  here.config();
  co_await ready();
  auto state = here.intent().state;
  bool before = here.phase() == Phase::kMember || state == Intent::State::kMakes;
  if (before && request.receive != nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("the snapshot was not restored: this node ",
                 state == Intent::State::kMakes ? "makes a new cluster already"
                                                : "is a member of a cluster, and has its data"));
  }
  if (before && state == Intent::State::kNone) {
    // Once more of what was done, or by mistake on a member that is ill.
    auto found = co_await look();
    if (found.problem.size() == 0) co_return true;
    fail(ErrorKind::kFailedPrecondition, kj::str("the data directory ", kDataFolder,
                                                 " is not empty: this node is a member of a "
                                                 "cluster, and is not well: ",
                                                 found.problem));
  }
  if (!before) {
    KJ_DEFER(here.changed.raise());  // whoever waited for this turn goes on
    unrecovered = nullptr;
    co_await bootstrap_.decide(kj::mv(request));
  }
  auto until = edges.timer.now() + kStarting;
  for (;;) {
    auto next = looked.next();
    if (seen.local != nullptr && seen.problem.size() == 0) co_return before;
    KJ_IF_MAYBE (why, unrecovered) fail(ErrorKind::kInvalidArgument, *why);
    if (edges.timer.now() >= until) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("the cluster is made, but its member is not healthy yet: ", seen.problem));
    }
    co_await next;
  }
}

kj::Promise<void> Keeper::recoveryFailed(kj::StringPtr given) {
  auto why = kj::str("cannot restore the snapshot: ", given,
                     "; nothing was changed, and another one can be tried");
  co_await ready();
  // First machined's store, then the disk: a crash in between begins the recovery anew, and no
  // snapshot is unpacked by a spec of which nothing is left to say that it counts.
  auto isIt = [&] {
    return here.intent().state == Intent::State::kMakes && here.intent().recovers;
  };
  if (!isIt()) co_return;
  if (here.data() != Data::kNone) {
    fail(ErrorKind::kFailedPrecondition, kj::str("there is data in ", kDataFolder));
  }
  auto config = here.config();
  co_await edges.board.want(wantedOf(config, Intent(), Data::kNone, nullptr, nullptr));
  // If the disk does not take it, the recovery is wanted again, and fails again.
  KJ_DEFER({
    toldOtherwise = true;
    here.changed.raise();
  });
  if (!isIt() || here.data() != Data::kNone) co_return;
  here.record(Intent());
  edges.files.removeSnapshot();
  here.say(kj::str(why));
  unrecovered = kj::mv(why);
  looked.raise();
}

kj::Promise<void> Keeper::leave(bool force) {
  here.config();
  co_await ready();
  KJ_DEFER(here.changed.raise());
  auto known = co_await knownHosts();
  co_await leave_.leave(force, known);
  auto until = edges.timer.now() + kEnding;
  while (here.phase() == Phase::kLeft && here.data() != Data::kNone) {
    if (edges.timer.now() >= until) {
      fail(ErrorKind::kDeadlineExceeded,
           "this node is no member any more, but its etcd has not ended yet; its data will be "
           "removed when it has");
    }
    co_await edges.timer.afterDelay(kUnsettled);
  }
}

kj::Promise<Outlook> Keeper::outlook(Going going) {
  co_await ready();
  auto config = here.config();
  Outlook outlook;
  if (inNoCluster(here.phase())) co_return kj::mv(outlook);
  if (here.phase() == Phase::kDamaged) {
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
  auto own = here.intent().member;
  for (auto& one : found.members) {
    if (one.here) own = one.member.id;
  }
  // Without a quorum there is nothing to be read through anybody.
  auto voices = found.quorum ? co_await view.voices(found, config) : found.voices();
  outlook.objection = objectionTo(going, voices, own, found.quorum);
  for (auto i : kj::indices(found.members)) found.members[i].problem = kj::mv(voices[i].problem);
  KJ_IF_MAYBE (leads, found.leader()) outlook.leader = leads->member.id;
  outlook.members = kj::mv(found.members);
  co_return kj::mv(outlook);
}

// Of a node that has lost the data of its member: what it was in it does not know.
kj::Promise<bool> Keeper::isCounted() {
  auto config = here.config();
  auto asked = co_await askAll(edges, config, othersOf(config, nullptr));
  kj::Vector<kj::String> silent;
  for (auto& one : asked) {
    if (!one.said.is<Standing>()) {
      if (!one.shared) silent.add(kj::str(one.host));
    } else if (one.said.get<Standing>().state == Standing::State::kMember) {
      co_return true;
    }
  }
  if (silent.empty()) co_return false;
  fail(ErrorKind::kUnavailable,
       kj::str("the data of etcd here is damaged, and whether the others count this node as a "
               "member is not known: no answer from ",
               joined(silent), "; start them"));
}

void Keeper::stay() {
  restart.giveBack();
}

kj::Promise<void> Keeper::withdraw(Going going, bool force) {
  co_await ready();
  here.config();
  if (inNoCluster(here.phase())) co_return;
  if (here.phase() == Phase::kDamaged) {
    bool counts = going != Going::kRestarts && co_await isCounted();
    if (!counts) co_return;
  }
  KJ_DEFER(here.changed.raise());
  auto known = co_await knownHosts();
  if (going == Going::kRestarts) {
    if (!force) co_await restart.take(known);
    co_return;
  }
  co_await leave_.withdraw(going, force, known);
}

kj::Promise<kj::Own<void>> Keeper::rerun() {
  co_await ready();
  here.config();
  auto known = co_await knownHosts();
  co_return co_await rerun_.take(known);
}

kj::Promise<void> Keeper::removeMember(kj::String member, bool force) {
  here.config();
  auto known = co_await knownHosts();
  co_await leave_.remove(member, force, known);
  here.changed.raise();
}

kj::Promise<kj::String> Keeper::forfeitLeadership() {
  localMember();
  auto leader = co_await leave_.forfeit();
  here.changed.raise();
  co_return leader;
}

}  // namespace talos::supervisor
