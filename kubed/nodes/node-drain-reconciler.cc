#include "kubed/nodes/node-drain-reconciler.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kDrainId = "node"_kj, kDrainAction = "drain"_kj;
constexpr auto kTellDrainAgain = 2 * kj::SECONDS;

template <typename List>
void setTexts(List out, kj::ArrayPtr<const kj::String> texts) {
  for (auto i : kj::indices(texts)) out.set(i, texts[i]);
}

}  // namespace

NodeDrainKeeper::NodeDrainKeeper(kj::Timer& timer, kj::Function<double()>& random,
                                 StoreClient& store, KubeletAccess& kubelet)
    : timer(timer),
      store(store),
      drainer(timer, random, KJ_BIND_METHOD(kubelet, client), [this] { progressed.raise(); }) {
  wishes = store.watch<rpc::NodeDrainSpec>([this] { wished.raise(); }, kDrainId);
}

uint64_t NodeDrainKeeper::wish() const {
  KJ_IF_MAYBE (found, wishes.find(kDrainId)) return found->getNumber();
  return 0;
}

kj::Promise<void> NodeDrainKeeper::run() {
  for (;;) {
    auto change = wished.next();
    auto number = wish();
    if (number != 0 && number != carriedOut) {
      co_await carryOut(number).exclusiveJoin(replaced(number));
    }
    co_await change;
  }
}

kj::Promise<void> NodeDrainKeeper::replaced(uint64_t number) {
  for (;;) {
    auto change = wished.next();
    if (wish() != number) co_return;
    co_await change;
  }
}

kj::Promise<void> NodeDrainKeeper::carryOut(uint64_t number) {
  kj::String nodename;
  bool drains = false;
  KJ_IF_MAYBE (wanted, wishes.find(kDrainId)) {
    nodename = kj::str(wanted->getNodename());
    drains = wanted->getAction() == kDrainAction;
  }
  auto work = drains ? drainer.drain(nodename) : drainer.uncordon(nodename);
  co_await work.exclusiveJoin(publishAsItGoes(number));
  co_await publish(number);
  carriedOut = number;
}

kj::Promise<void> NodeDrainKeeper::publishAsItGoes(uint64_t number) {
  for (;;) {
    co_await progressed.wait();
    co_await publish(number);
  }
}

kj::Promise<void> NodeDrainKeeper::publish(uint64_t number) {
  for (;;) {
    auto& progress = drainer.progress();
    auto record = kj::heap<capnp::MallocMessageBuilder>();
    auto spec = record->initRoot<rpc::NodeDrainStatusSpec>();
    spec.setState(progress.state);
    spec.setMessage(progress.message);
    setTexts(spec.initPods(progress.pods.size()), progress.pods);
    setTexts(spec.initWarnings(progress.warnings.size()), progress.warnings);
    spec.setNumber(number);
    StoreClient::Wanted wanted;
    wanted.insert(kj::str(kDrainId), kj::mv(record));
    bool told = true;
    co_await store.replaceAll<rpc::NodeDrainStatusSpec>(kj::mv(wanted))
        .catch_([&](kj::Exception&& e) {
          told = false;
          log::warn("cannot tell how far the drain is; retrying", {{"error", messageOf(e)}});
        });
    if (told) co_return;
    co_await timer.afterDelay(kTellDrainAgain);
  }
}

}  // namespace talos::kubed
