#include "machined/boot/machine-life.h"

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/within.h"

namespace talos::machined {
namespace {

using Stage = Progress::Stage;

constexpr auto kAnswerFirst = 100 * kj::MILLISECONDS;
constexpr auto kSettled = 5 * kj::SECONDS;
// A disk that hangs must not block the shutdown.
constexpr auto kReasonTimeout = 5 * kj::SECONDS;
constexpr kj::StringPtr
    kByHand = "asked for at the machine (power button, ctrl-alt-del, or a signal to process 1)"_kj,
    kByApi = "asked for through the API"_kj, kResetByApi = "reset asked for through the API"_kj;

bool isShuttingDown(Stage stage) {
  return stage == Stage::REBOOTING || stage == Stage::SHUTTING_DOWN || stage == Stage::RESETTING;
}

// Returns "" for a stage without a sequence.
kj::StringPtr sequenceOf(Stage stage) {
  switch (stage) {
    case Stage::INITIALIZE:
      return kInitialize;
    case Stage::INSTALLING:
      return kInstall;
    case Stage::BOOT:
      return kBoot;
    case Stage::REBOOTING:
      return kReboot;
    case Stage::SHUTTING_DOWN:
      return kShutdown;
    case Stage::RESETTING:
      return kReset;
    default:
      return "";
  }
}

MachineStatus::Stage statusOf(Stage down) {
  if (down == Stage::RESETTING) return MachineStatus::Stage::RESETTING;
  return down == Stage::REBOOTING ? MachineStatus::Stage::REBOOTING
                                  : MachineStatus::Stage::SHUTTING_DOWN;
}

kj::Vector<kj::String> copyOf(kj::ArrayPtr<const kj::String> lines) {
  kj::Vector<kj::String> result;
  for (auto& line : lines) result.add(kj::str(line));
  return result;
}

}  // namespace

MachineLife::MachineLife(Dependencies d)
    : deps(kj::mv(d)), progress(takeProgress(deps.process1)), tasks(*this) {}

void MachineLife::taskFailed(kj::Exception&& e) {
  deps.host.print(kj::str("error in machined: ", messageOf(e)), Tone::kInfo);
}

void MachineLife::reached(Stage stage, kj::Vector<kj::String> problems) {
  // A sequence that ends after a promised shutdown does not revoke the promise.
  if (isShuttingDown(progress.stage) && !isShuttingDown(stage)) return;
  progress.stage = stage;
  progress.problems = kj::mv(problems);
  tasks.add(holdProgress(deps.process1, progress));
}

// --- start ---

void MachineLife::begin(Records records) {
  if (!isShuttingDown(progress.stage) && deps.host.mustReset()) reached(Stage::RESETTING);
  if (records == Records::kLost &&
      (progress.stage == Stage::BOOT || progress.stage == Stage::RUNNING)) {
    reached(Stage::INITIALIZE);
  }
  tasks.add(live().catch_([this](kj::Exception&& e) { bootFailed(kj::mv(e)); }));
}

kj::Promise<void> MachineLife::live() {
  switch (progress.stage) {
    case Stage::INITIALIZE:
      co_await deps.sequencer.run(deps.host.sequence(kInitialize), Start::kPlain);
      if (deps.host.mustInstall()) {
        reached(Stage::INSTALLING);
        co_return co_await install();
      }
      reached(Stage::BOOT);
      [[fallthrough]];
    case Stage::BOOT:
      co_await deps.sequencer.run(deps.host.sequence(kBoot), Start::kPlain);
      reached(Stage::RUNNING);
      [[fallthrough]];
    case Stage::RUNNING:
      deps.status.set(MachineStatus::Stage::RUNNING);
      co_await deps.timer.afterDelay(kSettled);
      deps.host.settled();
      break;
    case Stage::FAILED:
      deps.status.set(MachineStatus::Stage::FAILED, copyOf(progress.problems));
      break;
    case Stage::INSTALLING:
      co_await install();
      break;
    case Stage::REBOOTING:
    case Stage::SHUTTING_DOWN:
    case Stage::RESETTING:
      beginShutdown(progress.stage, "");  // the predecessor has recorded the reason
      break;
  }
}

// Ends in a reboot.
kj::Promise<void> MachineLife::install() {
  deps.host.keepApi();  // for requests about the progress
  return deps.sequencer.run(deps.host.sequence(kInstall), Start::kPlain);
}

// Does nothing if another sequence took over; that sequence has reported the failure.
void MachineLife::bootFailed(kj::Exception&& e) {
  if (isShuttingDown(progress.stage)) return;
  auto reasons = messageOf(e);
  kj::Vector<kj::String> problems;
  for (auto line : Lines(reasons)) {
    if (line.size() > 0) problems.add(kj::heapString(line));
  }
  for (auto& p : problems) deps.host.print(kj::str("problem: ", p), Tone::kAlarm);
  deps.host.print("fatal: the boot failed; the node stays as it is and does not reboot by itself",
                  Tone::kAlarm);
  reached(Stage::FAILED, copyOf(problems));
  auto all = kj::strArray(problems, "; ");
  deps.status.set(MachineStatus::Stage::FAILED, kj::mv(problems));
  // With certificates from a config that could be read, the API can at least report the state.
  deps.host.keepApi();
  deps.host.bootFailed(all);
}

kj::String MachineLife::sequenceOrNext() const {
  auto current = deps.sequencer.currentSequence();
  return kj::str(current.size() > 0 ? current : sequenceOf(progress.stage));
}

// --- shutdown ---

void MachineLife::beginShutdown(Stage stage, kj::StringPtr reason) {
  reached(stage);
  deps.status.set(statusOf(stage));
  tasks.add(runShutdown(stage, kj::str(reason)).catch_([this](kj::Exception&& e) {
    deps.host.print(kj::str("cannot shut down: ", messageOf(e)), Tone::kAlarm);
  }));
}

kj::Promise<void> MachineLife::runShutdown(Stage stage, kj::String reason) {
  auto sequence = deps.host.sequence(sequenceOf(stage));
  if (reason.size() > 0) {
    co_await within(
        deps.timer, kReasonTimeout, kj::evalNow([&]() { return deps.host.recordReason(reason); }),
        kj::str("writing the reason timed out after ", kReasonTimeout / kj::SECONDS, " s"))
        .catch_([this](kj::Exception&& e) {
          deps.host.print(
              kj::str("warning: cannot record the reason of the shutdown: ", messageOf(e)),
              Tone::kInfo);
        });
  }
  co_await deps.sequencer.run(kj::mv(sequence), Start::kTakeOver);
}

void MachineLife::reboot() {
  beginShutdown(Stage::REBOOTING, kByHand);
}
void MachineLife::shutdown() {
  beginShutdown(Stage::SHUTTING_DOWN, kByHand);
}
void MachineLife::rebootSoon() {
  if (isShuttingDown(progress.stage) && progress.stage != Stage::REBOOTING) return;
  soon(Stage::REBOOTING, "reboot for a new machine config");
}
kj::Promise<void> MachineLife::acceptReboot() {
  return accept(Stage::REBOOTING, kByApi);
}
kj::Promise<void> MachineLife::acceptRebootFor(kj::StringPtr reason) {
  return accept(Stage::REBOOTING, reason);
}
kj::Promise<void> MachineLife::acceptShutdown() {
  return accept(Stage::SHUTTING_DOWN, kByApi);
}

kj::Promise<void> MachineLife::acceptReset() {
  return accept(Stage::RESETTING, kResetByApi);
}

kj::Promise<void> MachineLife::accept(Stage stage, kj::StringPtr reason) {
  soon(stage, reason);
  return intend(stage);
}

void MachineLife::soon(Stage stage, kj::StringPtr reason) {
  tasks.add(deps.timer.afterDelay(kAnswerFirst).then([this, stage, reason]() {
    beginShutdown(stage, reason);
  }));
}

kj::Promise<void> MachineLife::intendReboot() {
  if (isShuttingDown(progress.stage)) return kj::READY_NOW;
  return intend(Stage::REBOOTING);
}
kj::Promise<void> MachineLife::intend(Stage stage) {
  progress.stage = stage;
  return holdProgress(deps.process1, progress);
}

}  // namespace talos::machined
