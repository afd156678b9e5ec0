// The part of ConfigManager that handles configs on trial.
#include "common/memory/zeroize.h"
#include "machined/config/config-manager.h"

namespace talos::machined {

kj::Maybe<kj::Duration> ConfigManager::revertsIn() const {
  return trial.map(
      [this](const Trial& t) { return kj::max(t.deadline - deps.timer.now(), 0 * kj::SECONDS); });
}

kj::Promise<void> ConfigManager::beginTrial(kj::Duration length, KnownConfig config,
                                            kj::Array<char> document) {
  kj::Array<char> before;
  KJ_IF_MAYBE (t, trial) {
    before = kj::heapArray(t->before.asPtr());
  } else KJ_IF_MAYBE (running, deps.reader.document(deps.store)) {
    before = kj::heapArray(running->bytes());
  }
  Trial next(deps.timer.now() + length, kj::mv(before), kj::mv(document));
  co_await holdTrial(deps.process1, next);
  zeroize(next.tried);  // process 1 holds the text, and the store will, too
  next.tried = nullptr;
  trial = kj::mv(next);
  publish(kj::mv(config));
  arm();
  deps.host.trialChanged("a config is on trial");
}

// Continues the predecessor's trial, unless the pending change has ended it.
kj::Promise<void> ConfigManager::resumeTrial() {
  KJ_IF_MAYBE (t, trial) {
    if (deps.timer.now() >= t->deadline) {
      co_await revert();
      co_return;
    }
    auto checked = co_await checkAgain(t->tried);
    if (checked.errors.empty()) publish(kj::mv(checked.config));
    arm();
    deps.host.trialChanged("a config is on trial; machined restarted");
  }
}

void ConfigManager::arm() {
  KJ_IF_MAYBE (t, trial) {
    // revert() replaces this promise, so it must not run inside it.
    alarm = deps.timer.atTime(t->deadline)
                .then([this]() { tasks.add(kj::evalLater([this]() { return revert(); })); })
                .eagerlyEvaluate(nullptr);
  }
}

kj::Promise<void> ConfigManager::revert() {
  // A running apply may end the trial or restart its time.
  KJ_IF_MAYBE (w, work) co_await w->done.addBranch();
  KJ_IF_MAYBE (t, trial) {
    if (deps.timer.now() < t->deadline) co_return;
    auto before = kj::heapArray(t->before.asPtr());
    KJ_DEFER(zeroize(before));
    auto checked = co_await checkAgain(before);
    // Another apply may have begun meanwhile, and ended or replaced the trial.
    KJ_IF_MAYBE (w, work) co_await w->done.addBranch();
    if (trial == nullptr || deps.timer.now() < KJ_ASSERT_NONNULL(trial).deadline) co_return;
    if (checked.errors.empty()) {
      publish(kj::mv(checked.config));
      co_await endTrial("the trial of the config ended; reverted to the previous config");
    } else {  // it was valid when it ran
      co_await endTrial(
          "the trial of the config ended, but the previous config is not valid; cannot revert");
    }
  }
}

kj::Promise<void> ConfigManager::endTrial(kj::StringPtr reason) {
  if (trial == nullptr) co_return;
  trial = nullptr;
  alarm = kj::READY_NOW;
  deps.host.trialChanged(reason);
  co_await dropTrial(deps.process1);
}

}  // namespace talos::machined
