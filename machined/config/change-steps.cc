#include "machined/config/change-steps.h"

#include "common/base/error.h"
#include "common/memory/zeroize.h"

namespace talos::machined {
namespace {

// ConfigHost gives the sequence this name.
constexpr kj::StringPtr kBootSequence = "boot"_kj;

// How long a reboot waits for callers that read the outcome of the operation, twice a second.
constexpr auto kOutcomeFirst = 2 * kj::SECONDS;

}  // namespace

kj::Promise<void> ChangeSteps::recover() {
  stagedInBoot = takeStagedInBoot(deps.process1);
  KJ_IF_MAYBE (pending, takePending(deps.process1)) {
    auto mode = pending->mode;
    deps.host.print(kj::str("machine config: finishing the change that a restart of machined ",
                            "interrupted (mode ", nameOf(mode), ")"),
                    Tone::kInfo);
    auto checked = co_await deps.checks.checkAgain(pending->text);
    if (checked.errors.empty()) {
      auto failure = co_await operation.record(finish(mode, kj::mv(checked.config)));
      if (pending->noTrial && failure == nullptr) co_await followed(deps.changes.forget(mode));
      KJ_IF_MAYBE (e, failure) {
        deps.host.print(kj::str("cannot change the machine config: ", messageOf(*e)), Tone::kAlarm);
      }
    } else {  // it was valid before
      constexpr auto kUnreadable =
          "machine config: cannot read the interrupted change; the config stays as it was"_kj;
      deps.host.print(kUnreadable, Tone::kAlarm);
      operation.end(error(ErrorKind::kInternal, kUnreadable));
    }
    co_await dropPending(deps.process1);
  }
}

// Returns the config of the next boot if it differs from the running one; a trial ends with this
// boot in any case.
kj::Maybe<kj::String> ChangeSteps::staged() {
  KJ_IF_MAYBE (before, deps.trial.before()) return otherOnDisk(deps.disk, *before);
  KJ_IF_MAYBE (running, deps.running()) {
    return otherOnDisk(deps.disk, running->bytes());
  }
  return nullptr;
}

// Returns the config that is staged; nullptr also if `next` is on disk already, as after a crash.
kj::Promise<kj::Maybe<CheckedConfig>> ChangeSteps::stagedBefore(const KnownConfig& next) {
  auto copy = staged();
  KJ_IF_MAYBE (text, copy) {
    KJ_DEFER(zeroize(*text));
    if (text->asArray() == next.bytes()) co_return nullptr;
    auto checked = co_await deps.checks.checkAgain(*text);
    if (checked.errors.empty()) co_return kj::mv(checked);
  }
  co_return nullptr;
}

// Carries out a change, on trial if it has a plan for that.
kj::Promise<void> ChangeSteps::change(Pending pending, KnownConfig config, uint64_t number,
                                      kj::Maybe<ChangeTrial::Plan> plan, Operating operating) {
  auto mode = pending.mode;
  bool isTried = plan != nullptr, noTrial = pending.noTrial;
  KJ_IF_MAYBE (p, plan) {
    co_await deps.changes.prepare(kj::mv(*p), config.bytes()).catch_([&](kj::Exception&& e) {
      auto why = error(kindOf(e), kj::str("cannot store the way back to the running config, so the "
                                          "new one was not applied: ",
                                          messageOf(e), "; --no-trial needs no way back"));
      KJ_IF_MAYBE (o, operating) (*o)->reject(kj::cp(why));
      kj::throwFatalException(kj::mv(why));
    });
  }
  // The reason of an earlier way back says nothing about a change that is not on trial.
  bool outdates = !isTried && deps.changes.hasGoneBack();
  KJ_IF_MAYBE (running, deps.running()) outdates = outdates && running->bytes() != config.bytes();
  kj::Maybe<kj::Exception> failure;
  co_await carryOut(kj::mv(pending), kj::mv(config), number, kj::mv(operating))
      .catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    co_await followed(deps.changes.follow(false));
    kj::throwFatalException(kj::mv(*e));
  }
  if (mode == rpc::ApplyMode::REBOOT) deps.changes.stop();
  if (outdates) co_await followed(deps.changes.forget());
  bool ended = outdates || (noTrial && !deps.changes.isUnderWay());
  if (!ended && mode != rpc::ApplyMode::REBOOT) {
    co_await followed(deps.changes.follow(isTried && mode == rpc::ApplyMode::NO_REBOOT));
  }
}

// The change is done, whatever becomes of its trial.
kj::Promise<void> ChangeSteps::followed(kj::Promise<void> work) {
  return work.catch_([this](kj::Exception&& e) {
    deps.host.print(kj::str("machine config: ", messageOf(e)), Tone::kAlarm);
  });
}

// Fulfills `operating` with the number of the operation as soon as the operation continues without
// its caller. `number` is the one that the caller chose.
kj::Promise<void> ChangeSteps::carryOut(Pending pending, KnownConfig config, uint64_t number,
                                        Operating operating) {
  auto mode = pending.mode;
  co_await holdPending(deps.process1, pending).catch_([&](kj::Exception&& e) {
    KJ_IF_MAYBE (o, operating) (*o)->reject(kj::cp(e));
    kj::throwFatalException(kj::mv(e));
  });
  KJ_IF_MAYBE (o, operating) {
    (*o)->fulfill(operation.begin("changing the keys of encrypted volumes", nameOf(mode), number));
  } else if (number != 0) {
    operation.begin("applying a machine config", nameOf(mode), number);
  }
  auto failure = co_await operation.record(finish(mode, kj::mv(config)));
  // Before the change is dropped, so that a successor knows about it.
  if (pending.noTrial && failure == nullptr) co_await followed(deps.changes.forget(mode));
  auto dropped = dropPending(deps.process1);
  if (mode == rpc::ApplyMode::NO_REBOOT) {
    // The caller does not wait for the reply, which the loop reads only after all controllers that
    // the new config wakes. Process 1 reads its socket in order, also after the death of a brain;
    // if it did not, a successor would repeat a change that is done.
    deps.tasks.add(kj::mv(dropped));
  } else {
    co_await dropped;
  }
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
  if (mode != rpc::ApplyMode::REBOOT) co_return;
  if (operating != nullptr) co_await deps.timer.afterDelay(kOutcomeFirst);
  deps.host.reboot();
}

// Does steps 3 and 4; repeating them changes nothing.
kj::Promise<void> ChangeSteps::finish(rpc::ApplyMode mode, KnownConfig config) {
  auto before = co_await stagedBefore(config);
  auto staged = before.map([](const CheckedConfig& b) { return b.config.get(); });
  if (mode == rpc::ApplyMode::STAGED && deps.host.sequence() == kBootSequence) {
    co_await holdStagedInBoot(deps.process1);
    stagedInBoot = true;
  }
  co_await deps.keys.persist(
      config.get(), mode, kj::mv(staged), [&]() { return keepOnDisk(deps.disk, config); },
      [this](kj::StringPtr step) { operation.step(step); });
  switch (mode) {
    case rpc::ApplyMode::NO_REBOOT:
      deps.publish(kj::mv(config));
      co_await deps.trial.end("the config was applied for good; the trial ended");
      break;
    case rpc::ApplyMode::REBOOT:
      co_await deps.host.intendReboot();
      break;
    default:  // staged
      break;
  }
}

}  // namespace talos::machined
