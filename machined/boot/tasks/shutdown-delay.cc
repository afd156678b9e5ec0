#include "machined/boot/tasks/shutdown-delay.h"

#include "common/base/shutdown-times.h"
#include "common/base/signal.h"
#include "machined/kubernetes/kubelet/kubelet-plan.h"
#include "machined/resources/store-records.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kDelayId = "node"_kj, kLogin1 = "login1"_kj, kOver = "over"_kj;
// Time for login1 to report that its own limit has passed.
constexpr auto kAnswerTime = 10 * kj::SECONDS;
// A login1 that has exited is restarted within 5 s, and then has its locks again (kept-locks.h).
constexpr auto kRestartEnd = 15 * kj::SECONDS;

bool login1Runs(Store& store) {
  KJ_IF_MAYBE (service, store.tryGet<rpc::ServiceSpec>(kLogin1)) return service->getRunning();
  return false;
}

// Returns true also for the locks of a login1 that has exited: its records stay.
bool hasLocks(Store& store) {
  return !store.list<rpc::InhibitorSpec>().empty();
}

struct DelayRequest {
  uint64_t number;
  kj::Duration limit;
};

kj::Duration limitOfKubelet(Store& store) {
  KJ_IF_MAYBE (spec, store.tryGet<rpc::KubeletSpecSpec>(kKubeletId)) {
    return spec->getShutdownSeconds() * kj::SECONDS + kShutdownMargin;
  }
  return kUsualShutdownLimit;
}

DelayRequest requestShutdown(Store& store) {
  KJ_IF_MAYBE (existing, store.tryGet<rpc::ShutdownRequestSpec>(kDelayId)) {
    return {existing->getNumber(), existing->getLimit() * kj::SECONDS};
  }
  auto limit = limitOfKubelet(store);
  kj::String kind;
  for (auto status : store.list<rpc::MachineStatusSpec>()) kind = kj::str(status.getStage());
  constexpr uint64_t kFirst = 1;
  putRecord<rpc::ShutdownRequestSpec>(store, kDelayId, [&](auto spec) {
    spec.setKind(kind);
    spec.setNumber(kFirst);
    spec.setLimit(static_cast<uint32_t>(limit / kj::SECONDS));
  });
  return {kFirst, limit};
}

}  // namespace

kj::Promise<void> delayShutdown(Store& store, kj::Timer& timer,
                                kj::Function<void(kj::StringPtr line)> report) {
  if (!login1Runs(store) && !hasLocks(store)) co_return;
  Signal changed;
  auto delays = store.onChange<rpc::ShutdownDelaySpec>([&] { changed.raise(); });
  auto services = store.onChange<rpc::ServiceSpec>([&] { changed.raise(); });
  auto [number, limit] = requestShutdown(store);
  auto end = timer.now() + limit + kAnswerTime;
  kj::Maybe<kj::TimePoint> restartEnd;  // while login1 does not run
  kj::String lastReported;
  for (;;) {
    auto next = changed.next();
    if (!login1Runs(store)) {
      auto until = restartEnd.orDefault(timer.now() + kRestartEnd);
      restartEnd = until;
      if (timer.now() >= until || !hasLocks(store)) {
        co_return report("warning: login1 has exited; not waiting for inhibitor locks");
      }
      co_await next.exclusiveJoin(timer.afterDelay(until - timer.now()));
      continue;
    }
    restartEnd = nullptr;
    KJ_IF_MAYBE (delay, store.tryGet<rpc::ShutdownDelaySpec>(kDelayId)) {
      if (delay->getNumber() == number) {
        auto waits = kj::strArray(delay->getWaitsFor(), ", ");
        bool over = delay->getState() == kOver;
        if (over && waits.size() > 0) report(kj::str("warning: ", delay->getMessage()));
        if (over) co_return;
        if (waits != lastReported) report(kj::str("shutting down: waiting for ", waits));
        lastReported = kj::mv(waits);
      }
    }
    if (timer.now() >= end)
      co_return report("warning: login1 does not answer; not waiting for inhibitor locks");
    co_await next.exclusiveJoin(timer.afterDelay(end - timer.now()));
  }
}

}  // namespace talos::machined
