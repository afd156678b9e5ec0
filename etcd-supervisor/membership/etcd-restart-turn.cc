#include "etcd-supervisor/membership/etcd-restart-turn.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "etcd-supervisor/membership/membership-lock.h"
#include "etcd-supervisor/membership/peer-url.h"

namespace talos::supervisor {
namespace {

// machined requests the turn again every few seconds.
constexpr auto kShown = 20 * kj::SECONDS;
constexpr auto kWell = 2 * kj::MINUTES, kLookPause = 500 * kj::MILLISECONDS;

// For a member that no other one depends on.
struct NoTurn {};

// Returns true if other members depend on the vote of `own`: a slow member does not count as away.
bool isNeeded(kj::ArrayPtr<const etcd::Member> members, etcd::MemberId own) {
  unsigned voters = 0;
  bool votes = false;
  for (auto& member : members) {
    if (member.learner) continue;
    ++voters;
    votes |= member.id == own;
  }
  return votes && voters > 1;
}

}  // namespace

class EtcdRestart::Turn {
 public:
  explicit Turn(EtcdRestart& rerun) : rerun(rerun) {}
  ~Turn() noexcept(false) { rerun.end(); }
  KJ_DISALLOW_COPY_AND_MOVE(Turn);

 private:
  EtcdRestart& rerun;
};

void EtcdRestart::say(kj::StringPtr text) {
  bool same = text == message;
  message = kj::str(text);
  until = deps.timer.now() + kShown;
  if (!same && text.size() > 0) log::info(text);
  if (!same) self.messageChanged.raise();
}

// Makes another voter the leader before the peer URL of this one is changed: etcd may listen there
// only after its restart, and the members renew all leases at the peer URL of the leader.
kj::Promise<void> EtcdRestart::stopLeading(etcd::Etcd& through, const Config& config,
                                           etcd::MemberId own) {
  auto list = co_await through.members(true);
  bool changes = false;
  etcd::MemberId next = 0;
  for (auto& member : list.members) {
    if (member.id == own) {
      changes = hasOtherPeerUrl(member, config);
    } else if (next == 0 && !member.learner) {
      next = member.id;
    }
  }
  if (!changes || next == 0) co_return;
  auto status = co_await view.local();
  bool leads = false;
  KJ_IF_MAYBE (local, status) leads = local->leader == own;
  if (leads) co_await deps.endpoints.at(kLocal).moveLeader(next);
}

kj::Promise<kj::Own<void>> EtcdRestart::takeLocks(etcd::Etcd& through, const Config& config,
                                                  etcd::MemberId own) {
  // A node that cannot have its turn must not make others wait.
  co_await view.requireSpare(through, config);
  auto show = [this](kj::String text) { say(text); };
  attempt = Held{};
  // If the attempt is given up without a turn, etcd removes its places in both queues; the mutexes
  // must live until then.
  KJ_DEFER({
    attempt.membersLock = nullptr;
    attempt.awayLock = nullptr;
  });
  attempt.away = mutexFor(Exclusive::kAway, deps, through, config.name);
  attempt.members = mutexFor(Exclusive::kMembers, deps, through, config.name);
  attempt.awayLock = co_await lockFor(Exclusive::kAway, *attempt.away, show);
  attempt.membersLock = co_await lockFor(Exclusive::kMembers, *attempt.members, show);
  co_await view.requireSpare(through, config);
  // etcd restarts with the config of now, which may have changed during the wait. A change of the
  // URL is looked at, and published, before the restart.
  auto present = self.config();
  co_await stopLeading(through, present, own).catch_([](kj::Exception&& e) {
    log::warn("cannot move the leadership away", {{"error", messageOf(e)}});
  });
  if (co_await changePeerUrl(through, present, own)) self.changed.raise();
  held = kj::mv(attempt);
  co_return kj::heap<Turn>(*this);
}

kj::Promise<kj::Own<void>> EtcdRestart::take(kj::ArrayPtr<const kj::String> known) {
  if (held != nullptr) fail(ErrorKind::kConflict, "the last restart of etcd has not finished yet");
  if (asking) fail(ErrorKind::kConflict, "another call waits for the turn to restart etcd");
  if (!deps.store.running()) co_return kj::heap<NoTurn>();
  asking = true;
  KJ_DEFER(asking = false);
  kj::Own<void> turn = kj::heap<NoTurn>();
  kj::Maybe<kj::Exception> wrong;
  auto addresses = withLocal(known, true);
  auto asks = [&]() -> kj::Promise<void> {
    // Through another member, if there is any: the locks outlive the restart.
    auto answer = co_await view.members(addresses);
    auto own = self.intent().member;
    KJ_IF_MAYBE (status, co_await view.local()) own = status->member;
    auto config = self.config();
    if (isNeeded(answer.list.members, own)) {
      turn = co_await takeLocks(answer.through, config, own);
    } else if (co_await changePeerUrl(answer.through, config, own)) {
      self.changed.raise();
    }
  };
  co_await asks().catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  // Without a quorum etcd answers nothing, and the proxy is needed to get one.
  KJ_IF_MAYBE (e, wrong) {
    if (self.routed() && kindOf(*e) == ErrorKind::kUnavailable) wrong = nullptr;
  }
  KJ_IF_MAYBE (e, wrong) {
    auto text = kj::str("waiting to restart etcd with the changed config: ", messageOf(*e),
                        "; or restart it with talosctl service etcd restart");
    say(text);
    fail(kindOf(*e), text);
  }
  say("");
  co_return kj::mv(turn);
}

void EtcdRestart::end() {
  ending = endWhenWell().eagerlyEvaluate(nullptr);
}

kj::Promise<void> EtcdRestart::endWhenWell() {
  auto last = deps.timer.now() + kWell;
  for (;;) {
    kj::Maybe<ObservedCluster> observed;
    kj::Maybe<const Config&> config = deps.store.config();
    KJ_IF_MAYBE (known, config) {
      auto copy = known->clone();
      co_await view.look(copy, nullptr)
          .then([&](ObservedCluster&& found) { observed = kj::mv(found); }, [](kj::Exception&&) {});
    }
    KJ_IF_MAYBE (found, observed) {
      if (found->local != nullptr && found->problem.size() == 0) break;
    }
    if (deps.timer.now() >= last) {
      log::warn("etcd is not healthy after its restart; another node may have its turn",
                {{"waited", "2 min"}});
      break;
    }
    co_await deps.timer.afterDelay(kLookPause);
  }
  KJ_IF_MAYBE (locks, held) {
    for (auto lock : {locks->membersLock.get(), locks->awayLock.get()}) {
      co_await lock->release().catch_([](kj::Exception&&) {});
    }
  }
  held = nullptr;
}

}  // namespace talos::supervisor
