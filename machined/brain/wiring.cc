#include "machined/brain/wiring.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/version.h"
#include "common/memory/process-memory.h"
#include "machined/api/audit-line.h"
#include "machined/brain/held-sockets.h"
#include "machined/brain/power-button.h"
#include "machined/config/config-trial.h"
#include "machined/config/pending-config.h"
#include "machined/process1/recovery-guard.h"
#include "machined/services/service-process.h"
#include "machined/system/service-environment.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kSelf = "machined"_kj;
constexpr kj::StringPtr kStatusController = "runtime.MachineStatusController"_kj;

}  // namespace

kj::Promise<void> Wiring::run() {
  sayIfStartedAgain();
  auto lost = co_await recoverRecords();
  debugConsole.follow(kSelf);
  logs.append(kAuditLog, nullptr);  // is in the list before there is anything to tell
  tasks.add(serving.serve(co_await openMachinedDoor(process1)));
  if (mode != Mode::kContainer) {
    tasks.add(listenForPowerButton(uv, process1, alarmAt("")));
    tasks.add(fileSystems.watch());
  }
  addControllers();
  supervisor.loadSelf(kSelf);
  KJ_IF_MAYBE (l, lost) {
    auto text = kj::str("Lost in a restart of machined: ", *l);
    console.say(kj::str("machined: ", text), Tone::kAlarm);
    supervisor.note(kSelf, text);
  }
  etcd.follow();
  kubelet.follow();
  co_await daemons.follow();  // adopts those that run
  maintenance.begin();
  auto next = life.sequenceOrNext();
  if (next != kReboot && next != kShutdown && next != kReset) nodeDrain.follow();
  bool anew = lost != nullptr && configReader.document(store) == nullptr;
  life.begin(anew ? Records::kLost : Records::kThere);  // or goes on
  co_await followPowerActions();
}

// The records of the predecessor, a change of the config that it had begun, a config on trial. What
// was lost of them, if something was.
kj::Promise<kj::Maybe<kj::String>> Wiring::recoverRecords() {
  RecoveryGuard guard(process1);
  constexpr kj::StringPtr kRecords[] = {"store"_kj, kPendingName, kTrialName};
  bool good = co_await guard.begin(kRecords);
  auto lost = co_await store.attachJournal(process1);
  if (!good) {
    lost = kj::str("all records: machined exited ", kMostRecoveries,
                   " times in a row when it read them");
  }
  co_await config.recover();
  co_await guard.done();
  if (state.isMounted()) {  // goes on with the predecessor's
    co_await recorder.begin(true);
    co_await installImage.resume();
  }
  co_return kj::mv(lost);
}

void Wiring::sayIfStartedAgain() {
  if (process1.brainRestarts() == 0) return;
  console.open();
  console.say(kj::str("machined restarted (", process1.brainRestarts(), ")"));
}

kj::Promise<void> Wiring::followPowerActions() {
  for (;;) {
    switch (co_await process1.nextPowerAction()) {
      case Process1::PowerAction::kPowerOff:
        life.shutdown();
        break;
      case Process1::PowerAction::kReboot:
        life.reboot();
        break;
    }
  }
}

void Wiring::taskFailed(kj::Exception&& e) {
  console.say(kj::str("error in machined: ", messageOf(e)));
}

// --- connections ---

// To the console: an alarm when the line begins so.
kj::Function<void(kj::StringPtr)> Wiring::alarmAt(kj::StringPtr prefix) {
  return [this, prefix](kj::StringPtr line) {
    bool alarm = prefix.size() > 0 && line.startsWith(prefix);
    console.say(line, alarm ? Tone::kAlarm : Tone::kInfo);
  };
}

TimeFollower::Dependencies Wiring::timeDependencies() {
  return {.timer = timer,
          .clock = kernelClock,
          .network = timeNetwork,
          .random = KJ_BIND_METHOD(*this, chance),
          .nonce = randomNonce,
          .log = KJ_BIND_METHOD(announcements, time),
          .changed = KJ_BIND_METHOD(*this, timeChanged),
          .stepped = KJ_BIND_METHOD(*this, clockStepped),
          .foreign = foreign};
}

Supervisor::Dependencies Wiring::supervisorDependencies() {
  return {.process1 = process1,
          .timer = timer,
          .clock = clock,
          .random = KJ_BIND_METHOD(*this, chance),
          .output = KJ_BIND_METHOD(logs, writer),
          .announce = KJ_BIND_METHOD(announcements, service),
          .environment =
              kj::Function<kj::Array<kj::String>(kj::StringPtr, kj::ArrayPtr<const kj::String>)>(
                  KJ_BIND_METHOD(*this, environment)),
          .memoryKills = kj::Function<uint64_t(kj::StringPtr)>(
              [](kj::StringPtr cgroup) { return memoryKillsIn("/sys/fs/cgroup", cgroup); })};
}

NodeConfigSources::Dependencies Wiring::sourcesDependencies() {
  return {arguments,
          platform,
          userDataOf(process1),
          smbiosUuid,
          volumes,
          uv,
          io.provider->getNetwork(),
          timer,
          clock,
          KJ_BIND_METHOD(*this, chance),
          alarmAt("retrying "),  // what the boot waits for is for a quiet console too
          [this](kj::StringPtr host) { return foreign.resolve(host); },
          foreign};
}

ConfigKeeper::Dependencies Wiring::keeperDependencies() {
  return {configMode(mode),
          process1,
          store,
          configReader,
          sources,
          stateDisk,
          foreign,
          timer,
          KJ_BIND_METHOD(console, say),
          KJ_BIND_METHOD(life, sequenceOrNext),
          KJ_BIND_METHOD(life, hasFailed),
          KJ_BIND_METHOD(life, intendReboot),
          KJ_BIND_METHOD(life, rebootSoon),
          KJ_BIND_METHOD(maintenance, changed),
          KJ_BIND_METHOD(*this, trialChanged),
          KJ_BIND_METHOD(volumeKeys, persisting),
          KJ_BIND_METHOD(volumeKeys, check)};
}

MachineLife::Dependencies Wiring::lifeDependencies() {
  return {process1,
          timer,
          sequencer,
          status,
          [this](kj::StringPtr name) { return makeSequence(name, mode, parts); },
          KJ_BIND_METHOD(console, say),
          [this]() {
            controllers.poke("secrets.ApiController");
            startApi(supervisor);
          },
          [this]() {
            releaseStartMemory();
            tasks.add(releaseStartMemoryLater(timer));
          },
          KJ_BIND_METHOD(*this, keepReason),
          [this]() { return mode == Mode::kMetal && !state.isMounted(); },
          [this]() { return reset->promised() != nullptr; },
          [this](kj::StringPtr reasons) { tasks.add(upgrader.bootFailed(kj::str(reasons))); }};
}

kj::Own<Reset> Wiring::makeReset() {
  auto say = [this](kj::StringPtr line) { console.say(line, Tone::kAlarm); };
  if (container) return resetOfFolders(process1, uv, kj::mv(say));
  return resetOfDisk(process1, uv, reads, meta, installer, kj::mv(say));
}

BootRecorder::Dependencies Wiring::recorderDependencies() {
  return {.uv = uv,
          .timer = timer,
          .clock = clock,
          .logs = logs,
          .events = events,
          .store = store,
          .bootId = thisBootId(),
          .version = kj::str(buildVersion().tag),
          .say = alarmAt("warning: "),
          .folder = kBootsFolder,
          .pstore = container ? ""_kj : kPstoreFolder};
}

// Who asked is known when apid has answered him and told the audit log.
kj::Promise<void> Wiring::keepReason(kj::StringPtr reason) {
  return recorder.reason(kj::str(reason, serving.askedBy()));
}

NodeServing::Dependencies Wiring::servingDependencies() {
  return {io,         uv,        clock,       arguments,
          platform,   mode,      process1,    events,
          logs,       store,     controllers, configReader,
          foreign,    status,    sequencer,   supervisor,
          time,       config,    life,        recorder,
          containerd, upgrader,  reads,       meta,
          *reset,     departure, nodeDrain,   KJ_BIND_METHOD(volumeKeys, newRecoveryKey)};
}

// On the way down they are unmounted; in an installation STATE is mounted for a moment.
kj::Vector<kj::String> Wiring::mountsToWatch() {
  kj::Vector<kj::String> targets;
  auto sequence = life.sequenceOrNext();
  for (auto name : {kInstall, kReboot, kShutdown, kReset}) {
    if (sequence == name) return targets;
  }
  targets.add(kj::str(kStatePath));
  targets.add(kj::str(kVarPath));
  KJ_IF_MAYBE (machine, configReader.tryMachine(store)) {
    for (auto disk : machine->getDisks()) {
      for (auto p : disk.getPartitions()) targets.add(kj::str(p.getMountpoint()));
    }
  }
  return targets;
}

void Wiring::fileSystemsChanged(kj::ArrayPtr<const kj::StringPtr> fresh) {
  for (auto problem : fresh) console.say(kj::str("problem: ", problem), Tone::kAlarm);
  kj::Vector<kj::String> problems;
  for (auto& problem : fileSystems.problems()) problems.add(kj::str(problem));
  if (problems.empty()) console.say("all file systems work again");
  status.setFailing(kj::mv(problems));
}

void Wiring::statusChanged() {
  controllers.poke(kStatusController);
}

// On STATE, while that is encrypted itself.
kj::Maybe<kj::String> Wiring::headerBackups() {
  KJ_IF_MAYBE (node, state.mounted()) {
    if (partitionOfMapping(*node) != nullptr) return kj::str(kStatePath, "/luks");
  }
  return nullptr;
}

void Wiring::timeChanged() {
  controllers.poke("v1alpha1.TimeStatusController");
  controllers.poke(kStatusController);  // it tells a time of day
}

// Certificates that are not valid any more, or not yet.
void Wiring::clockStepped() {
  controllers.poke("secrets.ApiController");
}

void Wiring::trialChanged(kj::StringPtr what) {
  announcements.trial(what, config.revertsIn());
  controllers.poke(kStatusController);
}

kj::Array<kj::String> Wiring::environment(kj::StringPtr service,
                                          kj::ArrayPtr<const kj::String> own) {
  kj::Vector<kj::String> users;
  KJ_IF_MAYBE (machine, configReader.tryMachine(store)) {
    users = serviceEnvironment(service, *machine);
  }
  return joinEnvironment(own, users);
}

}  // namespace talos::machined
