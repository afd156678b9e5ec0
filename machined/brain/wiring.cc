#include "machined/brain/wiring.h"

#include "common/base/error.h"
#include "common/base/node-messages.h"
#include "common/crash/crash-handler.h"
#include "common/netlink/netlink-generic.h"
#include "machined/api/audit-line.h"
#include "machined/config/held-config.h"
#include "machined/process1/init/power-button.h"
#include "machined/process1/recovery-guard.h"
#include "machined/services/service-process.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kSelf = "machined"_kj;

// Subscribes to the kernel's events of the power button: the brain finds the netlink group and
// opens the socket; process 1 holds and reads it (machined/process1/init/power-button.h), so that
// the button works without the brain.
//
// Resolves when process 1 listens, perhaps since a predecessor's call. Calls `print` on a machine
// without ACPI. If the brain crashes before that, the next brain subscribes.
kj::Promise<void> listenForPowerButton(UvLoop& uv, Process1& process1, const KernelHelpers& helpers,
                                       kj::Function<void(kj::StringPtr)> print) {
  if (process1.takeHeld(process1::kPowerButton) != nullptr) co_return;
  auto opened = co_await uv.blocking([&helpers]() {
    auto socket = netlink::listenToGroup("acpi_event", "acpi_mc_group");
    if (socket != nullptr) helpers.openModules().load("button");
    return socket;
  });
  KJ_IF_MAYBE (socket, opened) {
    co_await process1.hold(process1::kPowerButton, socket->get());
  } else {
    print("power button unsupported: no ACPI");
  }
}

}  // namespace

kj::Promise<void> Wiring::run() {
  // A container lacks the helpers' rights, and its kernel belongs to the host.
  if (!core.container) tasks.add(core.helpers.run());
  logRestart();
  auto crashed = co_await reportOwnCrashes();
  auto lost = co_await recoverRecords();
  config.debugConsole.follow(kSelf);
  core.logs.append(kAuditLog, nullptr);  // lists the log before it has lines
  tasks.add(serving.node.serve(co_await openMachinedSocket(core.process1)));
  tasks.add(serving.node.takeSamples());
  if (!core.container) {
    tasks.add(listenForPowerButton(core.uv, core.process1, core.helpers, core.printInfo()));
    tasks.add(disks.watch());
  }
  addControllers();
  life.beginScreen();
  services.supervisor.loadSelf(kSelf);
  KJ_IF_MAYBE (c, crashed) {
    auto ended = kj::str("Process (PID ", c->pid, ") ", describeExit(c->signal));
    services.supervisor.note(
        kSelf, kj::str(ended, messages::kCrashReport, services.crashes.add(kSelf, kj::mv(*c))));
  }
  KJ_IF_MAYBE (l, lost) {
    auto text = kj::str("Lost in a restart of machined: ", *l);
    core.console.say(kj::str("machined: ", text), Tone::kAlarm);
    services.supervisor.note(kSelf, text);
  }
  kubernetes.follow();
  co_await serving.daemons.follow();  // adopts those that run
  services.extensions.load();
  config.maintenance.begin();
  auto next = life.life.sequenceOrNext();
  if (next != kReboot && next != kShutdown && next != kReset) kubernetes.nodeDrain.follow();
  bool anew = lost != nullptr && core.configReader.document(core.store) == nullptr;
  life.life.begin(anew ? Records::kLost : Records::kThere);
  co_await followPowerActions();
}

// Takes the predecessor's record before this process can overwrite it.
kj::Promise<kj::Maybe<crash::CrashRecord>> Wiring::reportOwnCrashes() {
  auto record = core.pages.takeRecord(kSelf);
  crash::reportCrashesTo(co_await core.pages.open(kSelf), kSelf.cStr());
  co_return kj::mv(record);
}

// Restores the predecessor's records, an interrupted change of the config, and a config on trial.
// Returns a text about lost records.
kj::Promise<kj::Maybe<kj::String>> Wiring::recoverRecords() {
  RecoveryGuard guard(core.process1);
  constexpr kj::StringPtr kRecords[] = {"store"_kj, kPendingName, kTrialName};
  bool good = co_await guard.begin(kRecords);
  auto lost = co_await core.store.attachJournal(core.process1);
  if (!good) {
    lost = kj::str("all records: machined exited ", kMostRecoveries,
                   " times in a row when it read them");
  }
  co_await config.manager.recover();
  co_await guard.done();
  if (disks.state.isMounted()) {  // by the predecessor
    co_await disks.recorder.begin(true);
    co_await upgrade.installImage.resume();
  }
  co_return kj::mv(lost);
}

void Wiring::logRestart() {
  if (core.process1.brainRestarts() == 0) return;
  core.console.open();
  core.console.say(kj::str("machined restarted (", core.process1.brainRestarts(), ")"));
}

void Wiring::addControllers() {
  config.addControllers();
  kubernetes.addControllers();
  disks.addControllers();
  upgrade.addControllers();
  services.addControllers();
  life.addControllers();
}

kj::Promise<void> Wiring::followPowerActions() {
  for (;;) {
    switch (co_await core.process1.nextPowerAction()) {
      case Process1::PowerAction::kPowerOff:
        life.life.shutdown();
        break;
      case Process1::PowerAction::kReboot:
        life.life.reboot();
        break;
    }
  }
}

void Wiring::taskFailed(kj::Exception&& e) {
  core.console.say(kj::str("error in machined: ", messageOf(e)));
}

}  // namespace talos::machined
