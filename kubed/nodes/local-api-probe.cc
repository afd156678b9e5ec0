#include "kubed/nodes/local-api-probe.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kApiId = "kube-apiserver"_kj;

}  // namespace

bool ApiVerdict::take(kj::Maybe<kj::String> failure) {
  bool good = failure == nullptr;
  otherwise = good == ready ? 0 : otherwise + 1;
  bool first = good && !everReady;
  if (otherwise == 0 || (otherwise < kInARow && !first)) return false;
  ready = good;
  everReady = everReady || good;
  otherwise = 0;
  message = kj::mv(failure).orDefault(kj::str());
  return true;
}

LocalApiKeeper::LocalApiKeeper(kj::Timer& timer, const kj::Clock& clock, StoreClient& store,
                               KubernetesBoard& board)
    : timer(timer), clock(clock), store(store), board(board) {
  before = store.watch<rpc::LocalApiStatusSpec>([this] { arrived.raise(); }, kApiId);
}

kj::Promise<void> LocalApiKeeper::recall() {
  while (!before.synced()) co_await arrived.wait();
  KJ_IF_MAYBE (told, before.find(kApiId)) {
    verdict.ready = told->getReady();
    verdict.everReady = told->getEverReady();
    verdict.message = kj::str(told->getMessage());
  }
}

kj::Promise<void> LocalApiKeeper::run() {
  co_await recall();
  for (bool told = true;;) {
    auto pause = timer.afterDelay(kApiLook);
    auto failure = co_await look();
    if (verdict.take(kj::mv(failure))) {
      since = clock.now();
      if (verdict.ready) log::info("the API server of this node is ready");
      if (!verdict.ready) {
        log::warn("the API server of this node is not ready", {{"error", verdict.message}});
      }
      told = false;
    }
    if (!told) told = co_await tell();
    co_await pause;
  }
}

kj::Promise<kj::Maybe<kj::String>> LocalApiKeeper::look() {
  auto client = board.client();
  KJ_IF_MAYBE (why, client.tryGet<kj::String>()) co_return kj::mv(*why);
  auto kubernetes = kj::mv(client.get<kj::Own<SharedKube>>());
  kj::Maybe<kj::String> failure;
  co_await within(timer, kApiAnswer, (**kubernetes).check("/readyz"),
                  kj::str("no answer within ", kApiAnswer / kj::SECONDS, " s"))
      .catch_([&](kj::Exception&& e) { failure = messageOf(e); });
  co_return failure;
}

kj::Promise<bool> LocalApiKeeper::tell() {
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::LocalApiStatusSpec>();
  spec.setReady(verdict.ready);
  spec.setEverReady(verdict.everReady);
  spec.setMessage(verdict.message);
  spec.setSince(dateText(since));
  StoreClient::Wanted wanted;
  wanted.insert(kj::str(kApiId), kj::mv(record));
  bool told = true;
  co_await store.replaceAll<rpc::LocalApiStatusSpec>(kj::mv(wanted)).catch_([&](kj::Exception&& e) {
    log::warn("cannot tell how the API server is; retrying", {{"error", messageOf(e)}});
    told = false;
  });
  co_return told;
}

}  // namespace talos::kubed
