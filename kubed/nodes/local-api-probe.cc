#include "kubed/nodes/local-api-probe.h"

#include <string.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kApiId = "kube-apiserver"_kj;

bool isOver(const kj::String& failure) {
  return strstr(failure.cStr(), "[-]shutdown") != nullptr ||
         strstr(failure.cStr(), "cannot connect: Connection refused") != nullptr;
}

}  // namespace

bool ApiVerdict::take(kj::Maybe<kj::String> failure, kj::TimePoint now) {
  bool good = failure == nullptr;
  if (good == ready) {
    opposite = nullptr;
    return false;
  }
  bool ends = failure.map(isOver).orDefault(false);
  bool atOnce = ends || (good && (ending || !everReady));
  auto since = opposite.orDefault(now);
  opposite = since;
  if (!atOnce && now - since < kSteady) return false;
  ready = good;
  everReady = everReady || good;
  ending = ends;
  opposite = nullptr;
  message = kj::mv(failure).orDefault(kj::str());
  return true;
}

LocalApiProbe::LocalApiProbe(kj::Timer& timer, const kj::Clock& clock, StoreClient& store,
                             KubernetesStoreAdapter& adapter)
    : timer(timer), clock(clock), store(store), adapter(adapter) {
  before = store.watch<rpc::LocalApiStatusSpec>([this] { arrived.raise(); }, kApiId);
}

kj::Promise<void> LocalApiProbe::recall() {
  while (!before.synced()) co_await arrived.wait();
  KJ_IF_MAYBE (record, before.find(kApiId)) {
    verdict.ready = record->getReady();
    verdict.everReady = record->getEverReady();
    verdict.message = kj::str(record->getMessage());
  }
}

kj::Promise<void> LocalApiProbe::run() {
  co_await recall();
  for (bool reported = true;;) {
    auto pause = timer.afterDelay(kApiLook);
    auto failure = co_await probe();
    if (verdict.take(kj::mv(failure), timer.now())) {
      since = clock.now();
      if (verdict.ready) log::info("the API server of this node is ready");
      if (!verdict.ready) {
        log::warn("the API server of this node is not ready", {{"error", verdict.message}});
      }
      reported = false;
    }
    if (!reported) reported = co_await report();
    co_await pause;
  }
}

kj::Promise<kj::Maybe<kj::String>> LocalApiProbe::probe() {
  auto client = adapter.client();
  KJ_IF_MAYBE (error, client.tryGet<kj::String>()) co_return kj::mv(*error);
  auto kubernetes = kj::mv(client.get<kj::Own<SharedKube>>());
  kj::Maybe<kj::String> failure;
  co_await within(timer, kApiAnswer, (**kubernetes).check("/readyz"),
                  kj::str("no answer within ", kApiAnswer / kj::SECONDS, " s"))
      .catch_([&](kj::Exception&& e) { failure = messageOf(e); });
  co_return failure;
}

kj::Promise<bool> LocalApiProbe::report() {
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::LocalApiStatusSpec>();
  spec.setReady(verdict.ready);
  spec.setEverReady(verdict.everReady);
  spec.setMessage(verdict.message);
  spec.setSince(dateText(since));
  StoreClient::Wanted wanted;
  wanted.insert(kj::str(kApiId), kj::mv(record));
  bool stored = true;
  co_await store.replaceAll<rpc::LocalApiStatusSpec>(kj::mv(wanted)).catch_([&](kj::Exception&& e) {
    log::warn("cannot store the state of the API server; retrying", {{"error", messageOf(e)}});
    stored = false;
  });
  co_return stored;
}

}  // namespace talos::kubed
