#include "etcd-supervisor/membership/etcd-restart-turn.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "etcd-supervisor/membership/membership-lock.h"

namespace talos::supervisor {
namespace {

// It is asked for again every few seconds.
constexpr auto kTold = 20 * kj::SECONDS;
constexpr auto kWell = 2 * kj::MINUTES, kLookPause = 500 * kj::MILLISECONDS;

// Of a member that is missed by nobody.
struct NoTurn {};

}  // namespace

class Rerun::Turn {
 public:
  explicit Turn(Rerun& rerun) : rerun(rerun) {}
  ~Turn() noexcept(false) { rerun.end(); }
  KJ_DISALLOW_COPY_AND_MOVE(Turn);

 private:
  Rerun& rerun;
};

void Rerun::say(kj::StringPtr text) {
  bool same = text == why;
  why = kj::str(text);
  until = edges.timer.now() + kTold;
  if (!same && text.size() > 0) log::info(text);
  if (!same) here.told.raise();
}

// Others count on its vote: slow is not away.
kj::Promise<bool> Rerun::isNeeded(etcd::Etcd& through) {
  auto own = here.intent().member;
  KJ_IF_MAYBE (status, co_await view.local()) own = status->member;
  auto list = co_await through.members(true);
  unsigned voters = 0;
  bool votes = false;
  for (auto& member : list.members) {
    if (member.learner) continue;
    ++voters;
    votes |= member.id == own;
  }
  co_return votes&& voters > 1;
}

kj::Promise<kj::Own<void>> Rerun::takeLocks(etcd::Etcd& through) {
  auto config = here.config();
  // Who cannot have its turn keeps nobody else waiting.
  co_await view.requireSpare(through, config);
  auto tell = [this](kj::String text) { say(text); };
  attempt = Held{};
  // Given up without a turn, its places in both queues are etcd's to remove: its mutexes stay for
  // that.
  KJ_DEFER({
    attempt.membersLock = nullptr;
    attempt.awayLock = nullptr;
  });
  attempt.away = mutexFor(Exclusive::kAway, edges, through, config.name);
  attempt.members = mutexFor(Exclusive::kMembers, edges, through, config.name);
  attempt.awayLock = co_await lockFor(Exclusive::kAway, *attempt.away, tell);
  attempt.membersLock = co_await lockFor(Exclusive::kMembers, *attempt.members, tell);
  co_await view.requireSpare(through, config);
  held = kj::mv(attempt);
  co_return kj::heap<Turn>(*this);
}

kj::Promise<kj::Own<void>> Rerun::take(kj::ArrayPtr<const kj::String> known) {
  if (held != nullptr) fail(ErrorKind::kConflict, "the last restart of etcd is not over yet");
  if (asking) fail(ErrorKind::kConflict, "a turn to restart etcd is asked for already");
  if (!edges.board.running()) co_return kj::heap<NoTurn>();
  asking = true;
  KJ_DEFER(asking = false);
  kj::Own<void> turn = kj::heap<NoTurn>();
  kj::Maybe<kj::Exception> wrong;
  auto addresses = withLocal(known, true);
  auto asks = [&]() -> kj::Promise<void> {
    // Through another one, if there is any: the locks outlive the restart.
    auto answer = co_await view.members(addresses);
    if (co_await isNeeded(answer.through)) turn = co_await takeLocks(answer.through);
  };
  co_await asks().catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  KJ_IF_MAYBE (e, wrong) {
    auto text = kj::str("etcd is to be restarted, because the config has changed, and waits: ",
                        messageOf(*e), "; or restart it with talosctl service etcd restart");
    say(text);
    fail(kindOf(*e), text);
  }
  say("");
  co_return kj::mv(turn);
}

void Rerun::end() {
  ending = endWhenWell().eagerlyEvaluate(nullptr);
}

kj::Promise<void> Rerun::endWhenWell() {
  auto last = edges.timer.now() + kWell;
  for (;;) {
    kj::Maybe<Seen> seen;
    kj::Maybe<const Config&> config = edges.board.config();
    KJ_IF_MAYBE (known, config) {
      auto copy = known->clone();
      co_await view.look(copy, nullptr)
          .then([&](Seen&& found) { seen = kj::mv(found); }, [](kj::Exception&&) {});
    }
    KJ_IF_MAYBE (found, seen) {
      if (found->local != nullptr && found->problem.size() == 0) break;
    }
    if (edges.timer.now() >= last) {
      log::warn("etcd has restarted and is not well; another node may have its turn",
                {{"waited", "2 min"}});
      break;
    }
    co_await edges.timer.afterDelay(kLookPause);
  }
  KJ_IF_MAYBE (locks, held) {
    for (auto lock : {locks->membersLock.get(), locks->awayLock.get()}) {
      co_await lock->release().catch_([](kj::Exception&&) {});
    }
  }
  held = nullptr;
}

}  // namespace talos::supervisor
