#include "etcd-supervisor/membership/reboot-turn.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "etcd-supervisor/membership/membership-lock.h"

namespace talos::supervisor {
namespace {

// Time until the machine has stopped its services and restarts.
constexpr auto kGoing = 5 * kj::MINUTES;

}  // namespace

// Returns the turn that this node has, or a new one. The turn of an earlier request is good:
// another node cannot have had it meanwhile.
kj::Promise<kj::Own<RebootTurn::Turn>> RebootTurn::lockOrKeep(const Config& config) {
  end = nullptr;
  KJ_IF_MAYBE (held, turn) {
    auto kept = kj::mv(*held);
    turn = nullptr;
    if (!kept->isLost && holder == config.name) co_return kj::mv(kept);
  }
  if (mutex == nullptr || holder != config.name) {
    holder = kj::str(config.name);
    mutex = mutexFor(Exclusive::kAway, deps, deps.endpoints.at(kLocal), holder);
  }
  auto lock = co_await lockFor(Exclusive::kAway, *KJ_ASSERT_NONNULL(mutex),
                               [](kj::String text) { log::info(text); });
  co_return kj::heap<Turn>(kj::mv(lock));
}

kj::Promise<void> RebootTurn::take(kj::ArrayPtr<const kj::String> known) {
  auto config = self.config();
  auto asking = self.take("it waits for its turn to restart");
  bool works = false;
  // A learner reads and locks nothing; without a leader no member does.
  KJ_IF_MAYBE (status, co_await view.local()) works = !status->learner && status->leader != 0;
  if (!works) {
    giveBack();
    auto answer = co_await view.members(known);
    co_return co_await view.requireSpare(answer.through, config);
  }
  auto taken = co_await lockOrKeep(config);
  auto& through = deps.endpoints.at(kLocal);
  // No member leaves between this check and the departure (membership-lock.h).
  co_await underLock(deps, self, through, config.name,
                     [&]() { return view.requireSpare(through, config); });
  if (taken->isLost)
    fail(ErrorKind::kUnavailable, "the turn to restart has ended meanwhile; retry");
  auto lease = taken->lock->leaseId();
  turn = kj::mv(taken);
  // If the disk does not accept it, this costs the next node a minute, but does not prevent this
  // node's reboot.
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { self.recordRebootLease(lease); })) {
    log::warn("cannot record the turn to restart; it will end with its lease",
              {{"error", messageOf(*e)}});
  }
  end = deps.timer.afterDelay(kGoing)
            .then([this]() {
              log::info("this node has not restarted; another one may");
              turn = nullptr;
            })
            .eagerlyEvaluate(nullptr);
}

void RebootTurn::giveBack() {
  end = nullptr;
  turn = nullptr;
}

void RebootTurn::memberIsWell() {
  auto lease = self.intent().rebootLease;
  if (lease == 0 || turn != nullptr || self.busy() || endsLast) return;
  endsLast = true;
  lastEnd = endLast(lease)
                .catch_([](kj::Exception&& e) {
                  log::warn("cannot end the turn of the last restart; trying again",
                            {{"error", messageOf(e)}});
                })
                .then([this] { endsLast = false; })
                .eagerlyEvaluate(nullptr);
}

kj::Promise<void> RebootTurn::endLast(etcd::LeaseId lease) {
  kj::Maybe<kj::Exception> wrong;
  co_await deps.endpoints.at(kLocal).revoke(lease).catch_(
      [&](kj::Exception&& e) { wrong = kj::mv(e); });
  KJ_IF_MAYBE (e, wrong) {
    if (kindOf(*e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(*e));
  }
  // It may be another one by now.
  if (self.intent().rebootLease == lease) self.recordRebootLease(0);
}

}  // namespace talos::supervisor
