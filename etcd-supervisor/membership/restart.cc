#include "etcd-supervisor/membership/restart.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kTurnPrefix = "talos:v1:etcdUpgradeMutex"_kj;
constexpr auto kTurnLease = 60 * kj::SECONDS, kTurnPatience = 60 * kj::SECONDS;
// Until the machine has stopped what runs on it, and restarts.
constexpr auto kGoing = 5 * kj::MINUTES;

}  // namespace

kj::Promise<void> Restart::requireAllowed(etcd::Etcd& through, const Config& config) {
  auto list = co_await through.members(true);
  auto voices = co_await view.voices(list.members, config);
  etcd::MemberId own = 0;
  if (edges.board.running()) {
    co_await edges.doors.at(kLocal).status().then(
        [&](etcd::Status&& status) { own = status.member; }, [](kj::Exception&&) {});
  }
  KJ_IF_MAYBE (why, objectionTo(Going::kRestarts, voices, own, true)) {
    fail(ErrorKind::kFailedPrecondition, *why);
  }
}

kj::Promise<void> Restart::take(kj::ArrayPtr<const kj::String> known) {
  auto config = here.config();
  end = nullptr;
  turn = nullptr;  // asked for anew: the one before has come to nothing
  // A member that does not run is away already.
  if (!edges.board.running()) {
    auto answer = co_await view.members(known);
    co_return co_await requireAllowed(answer.through, config);
  }
  auto& local = edges.doors.at(kLocal);
  if (mutex == nullptr) {
    mutex = kj::heap<etcd::Mutex>(
        local, edges.timer,
        etcd::Mutex::Options{kj::str(kTurnPrefix), kj::str(config.name), kTurnLease});
  }
  auto lock = co_await KJ_ASSERT_NONNULL(mutex)->lock(kTurnPatience, [](kj::StringPtr other) {
    log::info("waiting until another control-plane node has restarted", {{"node", other}});
  });
  co_await requireAllowed(local, config);
  turn = kj::mv(lock);
  end = edges.timer.afterDelay(kGoing)
            .then([this]() {
              log::info("this node has not restarted; another one may");
              turn = nullptr;
            })
            .eagerlyEvaluate(nullptr);
}

}  // namespace talos::supervisor
