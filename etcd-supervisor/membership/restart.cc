#include "etcd-supervisor/membership/restart.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kTurnPrefix = "talos:v1:etcdUpgradeMutex"_kj;
constexpr auto kTurnLease = 60 * kj::SECONDS, kTurnPatience = 60 * kj::SECONDS;
constexpr auto kAnswer = 2 * kj::SECONDS;
// Until the machine has stopped what runs on it, and restarts.
constexpr auto kGoing = 5 * kj::MINUTES;

}  // namespace

// None: it does not run, or does not answer.
kj::Promise<kj::Maybe<etcd::Status>> Restart::local() {
  kj::Maybe<etcd::Status> found;
  if (!edges.board.running()) co_return kj::mv(found);
  co_await within(edges.timer, kAnswer, edges.doors.at(kLocal).status(), kj::str("no answer"))
      .then([&](etcd::Status&& status) { found = kj::mv(status); }, [](kj::Exception&&) {});
  co_return kj::mv(found);
}

kj::Promise<void> Restart::requireAllowed(etcd::Etcd& through, const Config& config) {
  auto list = co_await through.members(true);
  auto voices = co_await view.voices(list.members, config);
  auto status = co_await local();
  auto own = status.map([](etcd::Status& s) { return s.member; }).orDefault(0);
  KJ_IF_MAYBE (why, objectionTo(Going::kRestarts, voices, own, true)) {
    fail(ErrorKind::kFailedPrecondition, *why);
  }
}

kj::Promise<void> Restart::take(kj::ArrayPtr<const kj::String> known) {
  auto config = here.config();
  auto asking = here.take("it waits for its turn to restart");
  giveBack();  // asked for anew: the one before has come to nothing
  bool works = false;
  // A learner reads and locks nothing; without a leader nobody does.
  KJ_IF_MAYBE (status, co_await local()) works = !status->learner && status->leader != 0;
  if (!works) {
    auto answer = co_await view.members(known);
    co_return co_await requireAllowed(answer.through, config);
  }
  auto& door = edges.doors.at(kLocal);
  if (mutex == nullptr || holder != config.name) {
    holder = kj::str(config.name);
    mutex = kj::heap<etcd::Mutex>(
        door, edges.timer, etcd::Mutex::Options{kj::str(kTurnPrefix), kj::str(holder), kTurnLease});
  }
  auto lock = co_await KJ_ASSERT_NONNULL(mutex)->lock(kTurnPatience, [](kj::StringPtr other) {
    log::info("waiting until another control-plane node has restarted", {{"node", other}});
  });
  co_await requireAllowed(door, config);
  turn = kj::mv(lock);
  end = edges.timer.afterDelay(kGoing)
            .then([this]() {
              log::info("this node has not restarted; another one may");
              turn = nullptr;
            })
            .eagerlyEvaluate(nullptr);
}

void Restart::giveBack() {
  end = nullptr;
  turn = nullptr;
}

}  // namespace talos::supervisor
