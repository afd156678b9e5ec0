#include "machined/boot/config-effects.h"

#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/wire/rpc-server.h"
#include "machined/controllers/hosts-controller.h"
#include "machined/controllers/registries-controller.h"
#include "machined/controllers/sysctl-controller.h"
#include "machined/system/service-environment.h"
#include "machined/system/user-files.h"
#include "machined/system/var-folder.h"

namespace talos::machined {
namespace {

constexpr auto kRenewPatience = 30 * kj::SECONDS;

kj::Vector<HostLine> hostLines(config::Machine::Reader machine) {
  kj::Vector<HostLine> lines;
  for (auto entry : machine.getNetwork().getExtraHostEntries()) {
    HostLine line{kj::str(entry.getIp()), {}};
    for (auto alias : entry.getAliases()) line.names.add(kj::str(alias));
    lines.add(kj::mv(line));
  }
  return lines;
}

}  // namespace

// None while there is no config that can be used. Valid until it is read again.
kj::Maybe<config::Machine::Reader> ConfigEffects::find(Store& store) {
  KJ_IF_MAYBE (config, world.configReader.document(store)) {
    if (config->good() && !config->empty()) return config->get().getMachine();
  }
  return nullptr;
}

config::Machine::Reader ConfigEffects::machineConfig() {
  KJ_IF_MAYBE (machine, find(world.store)) return *machine;
  fail(ErrorKind::kNotFound, "there is no machine config");
}

void ConfigEffects::addControllers(ControllerRuntime& controllers) {
  runtime = controllers;
  controllers.add(kj::heap<HostsController>(
      [this](Store& view) { return find(view).map(hostLines).orDefault(kj::Vector<HostLine>()); },
      [](kj::StringPtr content) { writeEtcFile("", "hosts", content); }));
  controllers.add(kj::heap<RegistriesController>(world.uv, [this](Store& view) {
    return find(view).map(
        [](config::Machine::Reader m) { return registryFiles(m.getRegistries()); });
  }));
  controllers.add(kj::heap<SysctlController>(
      world.uv, sysctls, [this](Store& view) { return find(view).map(wantedSysctls); },
      [this](kj::StringPtr problem) { world.console.say(kj::str("warning: ", problem)); }));
}

kj::Array<kj::String> ConfigEffects::environment(kj::StringPtr service,
                                                 kj::ArrayPtr<const kj::String> own) {
  kj::Vector<kj::String> users;
  KJ_IF_MAYBE (machine, find(world.store)) users = serviceEnvironment(service, *machine);
  return joinEnvironment(own, users);
}

// Services are given their variables when they are started; those that run since before there was a
// config are started again if they lack any.
kj::Promise<void> ConfigEffects::setUserEnvVars() {
  for (auto& id : world.supervisor.ids()) {
    auto wanted = serviceEnvironment(id, machineConfig());
    if (wanted.empty()) continue;
    capnp::MallocMessageBuilder scratch;
    auto service = scratch.initRoot<rpc::Service>();
    world.supervisor.fill(id, service);
    if (service.getPid() == 0 || service.getPid() == static_cast<uint32_t>(getpid())) continue;
    auto environ = tryReadFile(kj::str("/proc/", service.getPid(), "/environ"));
    KJ_IF_MAYBE (e, environ) {
      KJ_DEFER(zeroize(e->asArray()));
      if (hasEnvironment(e->asArray(), wanted)) continue;
    }
    co_await renew(id);
  }
}

kj::Promise<void> ConfigEffects::renew(kj::StringPtr service) {
  co_await world.supervisor.stop(service);
  world.supervisor.start(service);
  co_await within(world.timer, kRenewPatience, world.supervisor.whenUp(service),
                  kj::str("service \"", service, "\" was not up again within ",
                          kRenewPatience / kj::SECONDS, " s"));
}

kj::Promise<void> ConfigEffects::mountEphemeralPartition() {
  if (mountEphemeral("", mounts)) {
    world.console.say(
        "/var is in memory: there is no partition for it, and what is written there is gone after "
        "a reboot");
  }
  return kj::READY_NOW;
}

kj::Promise<void> ConfigEffects::setupVarDirectory() {
  machined::setupVarDirectory("");
  return kj::READY_NOW;
}

// By the thread pool: the kernel may have to load the module first.
kj::Promise<void> ConfigEffects::mountOverlayFilesystems() {
  return world.uv.blocking([this]() { mountOverlays("", mounts); });
}

kj::Promise<void> ConfigEffects::writeUserFiles() {
  auto files = userFiles(machineConfig());
  auto result = co_await world.uv.blocking(
      [this, files = kj::mv(files)]() { return machined::writeUserFiles("", mounts, files); });
  for (auto& warning : result.warnings) world.console.say(kj::str("warning: ", warning));
  if (!result.problems.empty()) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("files of the machine config:\n", kj::strArray(result.problems, "\n")));
  }
}

// What the kernel refuses does not keep the machine from its work: told, and tried again by the
// controller, which works from now on.
kj::Promise<void> ConfigEffects::writeUserSysctls() {
  auto wanted = wantedSysctls(machineConfig());
  auto problems = co_await world.uv.blocking(
      [this, wanted = kj::mv(wanted)]() { return sysctls.apply(wanted); });
  for (auto& p : problems.list) world.console.say(kj::str("warning: ", p));
  KJ_IF_MAYBE (c, runtime) c->poke("runtime.SysctlController");
}

}  // namespace talos::machined
