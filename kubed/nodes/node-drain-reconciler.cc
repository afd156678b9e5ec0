#include "kubed/nodes/node-drain-reconciler.h"

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kDrainId = "node"_kj, kDrainAction = "drain"_kj;
constexpr auto kReportAgain = 2 * kj::SECONDS;

}  // namespace

NodeDrainReconciler::NodeDrainReconciler(kj::Timer& timer, kj::Function<double()>& random,
                                         StoreClient& store, KubeletAccess& kubelet)
    : timer(timer),
      store(store),
      drainer(timer, random, KJ_BIND_METHOD(kubelet, client), [this] { progressed.raise(); }) {
  requests = store.watch<rpc::NodeDrainSpec>([this] { requestChanged.raise(); }, kDrainId);
}

uint64_t NodeDrainReconciler::requestedNumber() const {
  KJ_IF_MAYBE (found, requests.find(kDrainId)) return found->getNumber();
  return 0;
}

kj::Promise<void> NodeDrainReconciler::run() {
  for (;;) {
    auto change = requestChanged.next();
    auto number = requestedNumber();
    if (number != 0 && number != carriedOut) {
      co_await carryOut(number).exclusiveJoin(replaced(number));
    }
    co_await change;
  }
}

kj::Promise<void> NodeDrainReconciler::replaced(uint64_t number) {
  for (;;) {
    auto change = requestChanged.next();
    if (requestedNumber() != number) co_return;
    co_await change;
  }
}

kj::Promise<void> NodeDrainReconciler::carryOut(uint64_t number) {
  kj::String nodename;
  bool drains = false;
  KJ_IF_MAYBE (request, requests.find(kDrainId)) {
    nodename = kj::str(request->getNodename());
    drains = request->getAction() == kDrainAction;
  }
  auto work = drains ? drainer.drain(nodename) : drainer.uncordon(nodename);
  co_await work.exclusiveJoin(publishChanges(number));
  co_await publish(number);
  carriedOut = number;
}

kj::Promise<void> NodeDrainReconciler::publishChanges(uint64_t number) {
  for (;;) {
    co_await progressed.wait();
    co_await publish(number);
  }
}

kj::Promise<void> NodeDrainReconciler::publish(uint64_t number) {
  for (;;) {
    auto& progress = drainer.progress();
    auto record = kj::heap<capnp::MallocMessageBuilder>();
    auto spec = record->initRoot<rpc::NodeDrainStatusSpec>();
    spec.setState(progress.state);
    spec.setMessage(progress.message);
    fillTexts(spec.initPods(progress.pods.size()), progress.pods);
    fillTexts(spec.initWarnings(progress.warnings.size()), progress.warnings);
    spec.setNumber(number);
    StoreClient::Wanted wanted;
    wanted.insert(kj::str(kDrainId), kj::mv(record));
    bool stored = true;
    co_await store.replaceAll<rpc::NodeDrainStatusSpec>(kj::mv(wanted))
        .catch_([&](kj::Exception&& e) {
          stored = false;
          log::warn("cannot store the progress of the drain; retrying", {{"error", messageOf(e)}});
        });
    if (stored) co_return;
    co_await timer.afterDelay(kReportAgain);
  }
}

}  // namespace talos::kubed
