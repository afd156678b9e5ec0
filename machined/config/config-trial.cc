#include "machined/config/config-trial.h"

#include "common/memory/zeroize.h"

namespace talos::machined {

kj::Maybe<kj::Duration> ConfigTrial::revertsIn() const {
  return trial.map(
      [this](const Trial& t) { return kj::max(t.deadline - deps.timer.now(), 0 * kj::SECONDS); });
}

kj::Maybe<kj::ArrayPtr<const char>> ConfigTrial::before() const {
  return trial.map([](const Trial& t) { return t.before.asPtr(); });
}

kj::Promise<kj::Maybe<CheckedConfig>> ConfigTrial::checkBefore() {
  KJ_IF_MAYBE (t, trial) {
    auto before = kj::heapArray(t->before.asPtr());
    KJ_DEFER(zeroize(before));
    co_return co_await deps.checks.checkAgain(before);
  }
  co_return nullptr;
}

kj::Promise<void> ConfigTrial::begin(kj::Duration length, KnownConfig config,
                                     kj::Array<char> document,
                                     kj::Maybe<const KnownConfig&> running) {
  kj::Array<char> before;
  KJ_IF_MAYBE (t, trial) {
    before = kj::heapArray(t->before.asPtr());
  } else KJ_IF_MAYBE (r, running) {
    before = kj::heapArray(r->bytes());
  }
  Trial next(deps.timer.now() + length, kj::mv(before), kj::mv(document));
  co_await holdTrial(deps.process1, next);
  zeroize(next.tried);  // process 1 holds the text, and the store will, too
  next.tried = nullptr;
  trial = kj::mv(next);
  deps.publish(kj::mv(config));
  arm();
  deps.host.trialChanged("a config is on trial");
}

kj::Promise<void> ConfigTrial::resume() {
  KJ_IF_MAYBE (t, trial) {
    if (deps.timer.now() >= t->deadline) {
      co_await revert();
      co_return;
    }
    auto checked = co_await deps.checks.checkAgain(t->tried);
    if (checked.errors.empty()) deps.publish(kj::mv(checked.config));
    arm();
    deps.host.trialChanged("a config is on trial; machined restarted");
  }
}

void ConfigTrial::arm() {
  KJ_IF_MAYBE (t, trial) {
    // revert() replaces this promise, so it must not run inside it.
    alarm = deps.timer.atTime(t->deadline)
                .then([this]() { deps.tasks.add(kj::evalLater([this]() { return revert(); })); })
                .eagerlyEvaluate(nullptr);
  }
}

kj::Promise<void> ConfigTrial::revert() {
  // A running apply may end the trial or restart its time.
  KJ_IF_MAYBE (done, deps.applying()) co_await kj::mv(*done);
  KJ_IF_MAYBE (t, trial) {
    if (deps.timer.now() < t->deadline) co_return;
    auto before = kj::heapArray(t->before.asPtr());
    KJ_DEFER(zeroize(before));
    auto checked = co_await deps.checks.checkAgain(before);
    // Another apply may have begun meanwhile, and ended or replaced the trial.
    KJ_IF_MAYBE (done, deps.applying()) co_await kj::mv(*done);
    if (trial == nullptr || deps.timer.now() < KJ_ASSERT_NONNULL(trial).deadline) co_return;
    if (checked.errors.empty()) {
      deps.publish(kj::mv(checked.config));
      co_await end("the trial of the config ended; reverted to the previous config");
    } else {  // it was valid when it ran
      co_await end(
          "the trial of the config ended, but the previous config is not valid; cannot revert");
    }
  }
}

kj::Promise<void> ConfigTrial::end(kj::StringPtr reason) {
  if (trial == nullptr) co_return;
  trial = nullptr;
  alarm = kj::READY_NOW;
  deps.host.trialChanged(reason);
  co_await dropTrial(deps.process1);
}

}  // namespace talos::machined
