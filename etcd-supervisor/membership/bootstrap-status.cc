#include "etcd-supervisor/membership/bootstrap-status.h"

#include "common/base/log.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kInitialized = "initialized"_kj;
constexpr auto kUntilItAnswers = 1 * kj::SECONDS, kWhileSelfHosted = 5 * kj::SECONDS,
               kAfterwards = 1 * kj::MINUTES;

}  // namespace

kj::Promise<kj::Duration> BootstrapStatus::look() {
  if (!deps.runs()) co_return kUntilItAnswers;
  auto found =
      co_await deps.endpoints.at(kLocal).range({.keys = {kj::str(kInitialized)}, .limit = 1});
  bool selfHosted = found.kvs.size() > 0 && found.kvs[0].value == "true";
  bool news = published.map([&](bool before) { return before != selfHosted; }).orDefault(true);
  co_await deps.publish(selfHosted);
  if (news) {
    controller.info(selfHosted
                        ? "bootkube initialized status found: the control plane is self-hosted"_kj
                        : "bootkube initialized status not found"_kj);
  }
  published = selfHosted;
  co_return selfHosted ? kWhileSelfHosted : kAfterwards;
}

kj::Promise<void> BootstrapStatus::run() {
  controller.started();
  for (;;) {
    auto pause = kUntilItAnswers;
    // Why it does not answer is published by who looks after etcd.
    co_await look().then([&](kj::Duration next) { pause = next; }).catch_([](kj::Exception&&) {});
    co_await deps.timer.afterDelay(pause);
  }
}

kj::Promise<bool> endSelfHosting(etcd::Etcd& etcd) {
  auto removed = co_await etcd.remove({.keys = {kj::str(kInitialized)}});
  if (removed.deleted > 0) {
    log::warn("the key initialized was removed: the nodes run the control plane");
  }
  co_return removed.deleted > 0;
}

}  // namespace talos::supervisor
