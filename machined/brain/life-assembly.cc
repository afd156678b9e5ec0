#include "machined/brain/life-assembly.h"

#include "common/memory/process-memory.h"
#include "machined/config/controllers/state-controllers.h"
#include "machined/config/network/hostname-controller.h"
#include "machined/config/network/network-events.h"

namespace talos::machined {

kj::Promise<void> LifeAssembly::upgrade(kj::Function<kj::Promise<void>()> write) {
  return sequencer.run(upgradeSequence(kj::mv(write)), Start::kPlain);
}

bool LifeAssembly::isConfigOnTrial() const {
  return configs.manager.changeTrial().isUnderWay();
}

void LifeAssembly::changeTrialChanged() {
  capnp::MallocMessageBuilder message;
  auto trial = message.initRoot<rpc::ConfigTrial>();
  configs.manager.changeTrial().fill(trial);
  if (trial.getState() == rpc::ConfigTrial::State::TRYING) {
    facts.begin(trial.getNumber(), !trial.getReached());
  }
}

bool LifeAssembly::isCallMissing() {
  capnp::MallocMessageBuilder message;
  auto trial = message.initRoot<rpc::ConfigTrial>();
  configs.manager.changeTrial().fill(trial);
  return trial.getState() == rpc::ConfigTrial::State::TRYING && !trial.getReached();
}

// A call while another is looked at may be over a newer connection, so it is looked at afterwards.
void LifeAssembly::clientCalled() {
  calledMeanwhile = true;
  if (countsCall || !configs.manager.changeTrial().isTrying()) return;
  countsCall = true;
  background.add(countCalls());
}

kj::Promise<void> LifeAssembly::countCalls() {
  KJ_DEFER(countsCall = false);
  while (calledMeanwhile && isCallMissing()) {
    calledMeanwhile = false;
    if (co_await facts.isReached()) configs.manager.changeTrial().called();
  }
}

void LifeAssembly::keepApi() {
  core.renewApiCertificate();
  startApi(services.supervisor);
}

void LifeAssembly::settled() {
  releaseStartMemory();
  background.add(releaseStartMemoryLater(core.timer));
}

// The requester becomes known after apid has answered it and sent its record to the audit log.
kj::Promise<void> LifeAssembly::recordReason(kj::StringPtr reason) {
  return disks.recorder.reason(kj::str(reason, requester()));
}

void LifeAssembly::bootFailed(kj::StringPtr reasons) {
  background.add(upgrades.upgrader.bootFailed(kj::str(reasons)));
}

ScreenController::Progress LifeAssembly::screenProgress() {
  auto sequence = sequencer.currentSequence(), phase = sequencer.currentPhase();
  return {.stage = kj::str(nameOf(core.status.stage())),
          .text = phase.size() > 0 ? kj::str(sequence, ": ", phase) : kj::str(sequence)};
}

bool LifeAssembly::hasScreen() const {
  return !core.container && !core.arguments.contains("talos.dashboard.disabled", "1");
}

void LifeAssembly::beginScreen() {
  if (hasScreen()) {
    // A user who has switched to another terminal stays there when the brain restarts.
    screen.open(core.io.unixEventPort, core.process1.brainRestarts() == 0);
  }
  core.announcements.whenProgressed([this]() { core.controllers.poke(ScreenController::kName); });
}

void LifeAssembly::addControllers() {
  core.controllers.add(kj::heap<ScreenController>(
      hasScreen(), KJ_BIND_METHOD(*this, screenProgress), KJ_BIND_METHOD(screen, show)));
  auto serviceController =
      kj::heap<ServiceController>(core.events, KJ_BIND_METHOD(services.supervisor, isUp));
  auto isStopping = KJ_BIND_METHOD(*serviceController, isStopping);
  core.controllers.add(kj::mv(serviceController));
  core.controllers.add(kj::heap<HostnameController>(applyHostname));
  core.controllers.add(repairController());
  core.controllers.add(
      kj::heap<MachineStatusController>(KJ_BIND_METHOD(*this, machineState), kj::mv(isStopping)));
}

kj::Own<Controller> LifeAssembly::repairController() {
  return kj::heap<NetworkEventController>(
      reportedRepairs.take([](rpc::HeldCount::Reader in) { return in.getNumber(); }).orDefault(0),
      [this](uint64_t number) {
        return reportedRepairs.hold([&](rpc::HeldCount::Builder out) { out.setNumber(number); });
      },
      KJ_BIND_METHOD(core.announcements, networkRepaired));
}

MachineStatusController::State LifeAssembly::machineState() {
  MachineStatusController::State state;
  state.stage = kj::str(nameOf(core.status.stage()));
  for (auto& problem : core.status.problems()) state.problems.add(kj::str(problem));
  for (auto& problem : core.status.failing()) state.problems.add(kj::str(problem));
  state.revertsAt = configs.manager.revertsIn().map(
      [this](kj::Duration left) { return core.clock.now() + left; });
  return state;
}

}  // namespace talos::machined
