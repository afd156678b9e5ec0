#include "machined/boot/machine-tasks.h"

#include <kj/debug.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/base/version.h"
#include "common/wire/rpc-server.h"
#include "machined/controllers/join-controller.h"
#include "machined/services/service-table.h"
#include "machined/storage/drivers.h"
#include "machined/system/etc-files.h"
#include "machined/system/kernel-parameters.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

constexpr auto kNetworkdPatience = 30 * kj::SECONDS;
constexpr auto kNetworkPatience = 30 * kj::SECONDS;
constexpr auto kServicesPatience = 15 * kj::MINUTES;
constexpr auto kServicesFirst = 3 * kj::SECONDS;

// Empty as long as nobody has named the machine.
kj::String kernelHostname() {
  struct utsname names;
  KJ_SYSCALL(uname(&names));
  return kj::str(names.nodename) == "(none)" ? kj::str("") : kj::str(names.nodename);
}

}  // namespace

// --- initialize ---

kj::Promise<void> RealTasks::setupLogger() {
  world.console.openKernelLog();
  return kj::READY_NOW;
}

// Before anything asks for the time or looks at a certificate.
kj::Promise<void> RealTasks::raiseClock() {
  KJ_IF_MAYBE (built, parseDate(buildVersion().built)) {
    KJ_IF_MAYBE (was, world.clock.raiseTo(*built)) {
      world.console.say(kj::str("the clock said ", dateText(*was),
                                ", before this version was made: ", "it goes on from ",
                                dateText(*built)));
    }
  }
  return kj::READY_NOW;
}

kj::Promise<void> RealTasks::enforceKsppRequirements() {
  // The original stops here; a machine that stays up and says why is of more use.
  for (auto& line : missingKsppParameters(world.arguments)) {
    world.console.say(kj::str("warning: ", line));
  }
  return kj::READY_NOW;
}

kj::Promise<void> RealTasks::writeRequiredSysctls() {
  auto absent = writeSysctls("/proc/sys", requiredSysctls(world.mode == Mode::kContainer));
  for (auto& key : absent) {
    world.console.say(kj::str("warning: this kernel has no setting ", key));
  }
  return kj::READY_NOW;
}

kj::Promise<void> RealTasks::setupSystemDirectory() {
  machined::setupSystemDirectory("");
  return kj::READY_NOW;
}

// What the kernel refuses is told and does not stop the machine: others of its devices may do.
kj::Promise<void> RealTasks::loadModules(LoadDrivers load, int niceness) {
  auto problems = co_await world.uv.blocking([load, niceness]() {
    setpriority(PRIO_PROCESS, 0, niceness);
    KJ_DEFER(setpriority(PRIO_PROCESS, 0, 0));
    kj::Vector<kj::String> problems;
    load(Modules::ofRunningKernel(), [&](kj::StringPtr p) { problems.add(kj::str(p)); });
    return problems;
  });
  for (auto& p : problems) world.console.say(kj::str("warning: ", p));
}

kj::Promise<void> RealTasks::loadNetworkModules() {
  return loadModules([](const Modules& modules, kj::Function<void(kj::StringPtr)> failed) {
    kj::StringPtr network[] = {"kernel/drivers/net/"_kj};
    modules.coldplug(kj::mv(failed), network);
  });
}

kj::Promise<void> RealTasks::loadDiskModules() {
  return loadModules([](const Modules& modules, kj::Function<void(kj::StringPtr)> failed) {
    loadDiskDrivers(modules, kj::mv(failed));
  });
}

// A driver that is being set up holds the processor whatever its priority, so these give way to the
// services for a moment; they do not depend on them.
kj::Promise<void> RealTasks::loadDeviceModules() {
  kj::Vector<kj::Promise<void>> up;
  for (auto& id : world.supervisor.ids()) {
    if (world.supervisor.isAwaited(id)) up.add(world.supervisor.whenUp(id));
  }
  co_await kj::joinPromises(up.releaseAsArray())
      .catch_([](kj::Exception&&) {})  // startAllServices tells
      .exclusiveJoin(world.timer.afterDelay(kServicesFirst));
  // Devices that nobody waits for yet give way to the services that start meanwhile.
  co_await loadModules(
      [](const Modules& modules, kj::Function<void(kj::StringPtr)> failed) {
        modules.coldplug(kj::mv(failed));
      },
      19);
}

kj::Promise<void> RealTasks::setResourceLimits() {
  raiseFileLimit();
  return kj::READY_NOW;
}

kj::Promise<void> RealTasks::createEtcNetworkFiles() {
  auto name = kernelHostname();
  writeFirstHostsFile("", name);
  writeEtcFile("", "hostname", kj::str(name, "\n"));
  // The resolver file is networkd's, in a folder that it may write.
  makeDirectories(kNetworkdState, 0755);
  KJ_SYSCALL(chown(kNetworkdState.cStr(), kNetworkdUid, kNetworkdUid));
  auto target = kj::str(kNetworkdState, "/resolv.conf");
  auto link = "/system/etc/resolv.conf";
  unlink(link);
  KJ_SYSCALL(symlink(target.cStr(), link));
  return kj::READY_NOW;
}

kj::Promise<void> RealTasks::discoverNetwork() {
  world.supervisor.start("networkd");
  co_await within(world.timer, kNetworkdPatience, world.supervisor.whenUp("networkd"),
                  kj::str("networkd was not up within ", kNetworkdPatience / kj::SECONDS, " s"));
}

kj::Promise<void> RealTasks::loadConfig() {
  return world.config.load();
}

// Whether there is an address, where a network has to be asked for one: that takes longer than to
// apply what is known. One is enough; the other cards may have no cable.
bool RealTasks::addressed(kj::String& waitingFor) {
  if (!world.store.list<rpc::AddressSpecSpec>().empty()) return true;
  // One that the kernel made of a router's advertisement counts as well.
  KJ_IF_MAYBE (current, world.store.tryGet<rpc::NodeAddressSpec>("current")) {
    if (current->getAddresses().size() > 0) return true;
  }
  auto operators = world.store.list<rpc::OperatorSpecSpec>();
  for (auto asked : operators) {
    waitingFor = kj::str(asked.id(), " has given no address");
    KJ_IF_MAYBE (status, world.store.tryGet<rpc::OperatorStatusSpec>(asked.id())) {
      waitingFor = kj::str(waitingFor, " (", status->getState(), ")");
    }
  }
  return operators.size() == 0;
}

// Whether the kernel has what the specs ask for, as networkd tells.
bool RealTasks::networkApplied(kj::String& waitingFor) {
  uint64_t wanted = 0;
  for (auto link : world.store.list<rpc::LinkSpecSpec>()) wanted += link.version();
  for (auto address : world.store.list<rpc::AddressSpecSpec>()) wanted += address.version();
  for (auto route : world.store.list<rpc::RouteSpecSpec>()) wanted += route.version();
  KJ_IF_MAYBE (status, world.store.tryGet<rpc::NetworkStatusSpec>("status")) {
    if (status->getApplied() == wanted) return addressed(waitingFor);
    waitingFor =
        kj::str("networkd has applied ", status->getApplied(), " of ", wanted, " spec versions");
    for (auto problem : status->getProblems()) waitingFor = kj::str(waitingFor, "; ", problem);
    return false;
  }
  waitingFor = kj::str("networkd has not told its status");
  return false;
}

kj::Promise<void> RealTasks::setupNetwork() {
  auto deadline = world.timer.now() + kNetworkPatience;
  kj::String waitingFor;
  // What the store was told reaches the controllers in the next turns of the loop.
  co_await kj::evalLast([]() {});
  for (;;) {
    if (world.controllers.idle() && networkApplied(waitingFor)) co_return;
    if (world.timer.now() >= deadline) break;
    co_await world.timer.afterDelay(5 * kj::MILLISECONDS);
  }
  // A machine that is reachable in part can be repaired; one that stops here cannot.
  world.console.say(kj::str("warning: the network is not complete after ",
                            kNetworkPatience / kj::SECONDS, " s: ", waitingFor));
}

// --- boot ---

kj::Promise<void> RealTasks::validateConfig() {
  world.config.validate();
  return kj::READY_NOW;
}

kj::Promise<void> RealTasks::saveConfig() {
  return world.config.save();
}

// The API of a worker is well when a control-plane machine has given it a certificate. That one may
// be down for as long as it likes: this machine's boot does not depend on it.
bool RealTasks::waitsForOthers(kj::StringPtr id) {
  if (id != "apid") return false;
  KJ_IF_MAYBE (config, storedMachineConfig(world.store)) return asksTrustd(*config);
  return false;
}

kj::Promise<void> RealTasks::startAllServices() {
  kj::Vector<kj::Promise<void>> up;
  for (auto& id : world.supervisor.ids()) {
    world.supervisor.start(id);
    if (!world.supervisor.isAwaited(id) || waitsForOthers(id)) continue;
    up.add(within(world.timer, kServicesPatience, world.supervisor.whenUp(id),
                  kj::str("service \"", id, "\" was not up within 15 minutes")));
  }
  return kj::joinPromises(up.releaseAsArray());
}

// --- the end ---

// What does not end here is ended by process 1: nothing may keep the machine from going down.
kj::Promise<void> RealTasks::warnOnly(kj::Promise<void> promise) {
  return promise.catch_(
      [this](kj::Exception&& e) { world.console.say(kj::str("warning: ", messageOf(e))); });
}

kj::Promise<void> RealTasks::stopNetworkd() {
  return warnOnly(world.supervisor.stop("networkd"));
}
kj::Promise<void> RealTasks::stopAllServices() {
  return warnOnly(world.supervisor.stopAll());
}

kj::Promise<void> RealTasks::goDown(unsigned command) {
  world.events.publish([command](rpc::Event::Builder event) { event.setRestart(command); });
  return world.process1.reboot(command);
}

}  // namespace talos::machined
