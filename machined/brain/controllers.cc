// The controllers of this machine, and what each of them is connected to.
#include "machined/brain/wiring.h"
#include "machined/controllers/api-certificates.h"
#include "machined/controllers/hostname-controller.h"
#include "machined/controllers/hosts-controller.h"
#include "machined/controllers/join-controller.h"
#include "machined/controllers/machine-type-controller.h"
#include "machined/controllers/network-controller.h"
#include "machined/controllers/network-events.h"
#include "machined/controllers/registries-controller.h"
#include "machined/controllers/root-secrets-controller.h"
#include "machined/controllers/service-controller.h"
#include "machined/controllers/sysctl-controller.h"
#include "machined/controllers/time-status-controller.h"

namespace talos::machined {
namespace {

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

void Wiring::addControllers() {
  addConfigControllers();
  addStateControllers();
}

// Those that make something of the machine config. What one may read is up to its own view of the
// store.
void Wiring::addConfigControllers() {
  auto entries = [this](Store& view) {
    return configReader.tryMachine(view).map(hostLines).orDefault(kj::Vector<HostLine>());
  };
  auto registries = [this](Store& view) {
    return configReader.tryMachine(view).map(
        [](config::Machine::Reader m) { return registryFiles(m.getRegistries()); });
  };
  auto wanted = [this](Store& view) { return configReader.tryMachine(view).map(wantedSysctls); };
  auto warn = [this](kj::StringPtr problem) { console.say(kj::str("warning: ", problem)); };
  auto inMaintenance = [this]() { return config.inMaintenance(); };

  controllers.add(kj::heap<HostsController>(
      kj::mv(entries), [](kj::StringPtr content) { writeEtcFile("", "hosts", content); }));
  controllers.add(kj::heap<RegistriesController>(uv, kj::mv(registries)));
  controllers.add(kj::heap<SysctlController>(uv, sysctls, kj::mv(wanted), kj::mv(warn)));
  controllers.add(kj::heap<MachineTypeController>(KJ_BIND_METHOD(configReader, view)));
  controllers.add(kj::heap<NetworkController>(arguments, KJ_BIND_METHOD(configReader, view)));
  controllers.add(kj::heap<ApiController>(uv, timer, clock, KJ_BIND_METHOD(configReader, view),
                                          kj::mv(inMaintenance)));
  controllers.add(kj::heap<RootController>(KJ_BIND_METHOD(configReader, view)));
  controllers.add(kj::heap<JoinController>(KJ_BIND_METHOD(configReader, view)));
}

// Those that tell how the machine is.
void Wiring::addStateControllers() {
  controllers.add(kj::heap<ServiceController>(events, KJ_BIND_METHOD(supervisor, isUp)));
  controllers.add(kj::heap<HostnameController>(applyHostname));
  controllers.add(repairController());
  controllers.add(timeController());
  controllers.add(kj::heap<MachineStatusController>(KJ_BIND_METHOD(*this, machineState)));
}

kj::Own<Controller> Wiring::repairController() {
  return kj::heap<NetworkEventController>(
      toldRepairs.take([](rpc::HeldCount::Reader in) { return in.getNumber(); }).orDefault(0),
      [this](uint64_t number) {
        return toldRepairs.hold([&](rpc::HeldCount::Builder out) { out.setNumber(number); });
      },
      KJ_BIND_METHOD(announcements, networkRepaired));
}

kj::Own<Controller> Wiring::timeController() {
  TimeStatusController::Dependencies world;
  world.container = mode == Mode::kContainer;
  world.beforeConfig = arguments.first("talos.config").orDefault("").startsWith("https://");
  world.readConfig = KJ_BIND_METHOD(configReader, view);
  world.keepTime = KJ_BIND_METHOD(time, keepTime);
  world.leaveAlone = KJ_BIND_METHOD(time, leaveAlone);
  world.seen = [this]() {
    auto& s = time.state();
    kj::String offset;
    KJ_IF_MAYBE (o, s.offset) offset = ntp::showOffset(*o);
    return TimeStatusController::Seen{s.steps, kj::str(s.server), kj::mv(offset),
                                      kj::str(s.problem)};
  };
  return kj::heap<TimeStatusController>(kj::mv(world));
}

MachineStatusController::State Wiring::machineState() {
  MachineStatusController::State state;
  state.stage = kj::str(nameOf(status.stage()));
  for (auto& problem : status.problems()) state.problems.add(kj::str(problem));
  state.revertsAt =
      config.revertsIn().map([this](kj::Duration left) { return clock.now() + left; });
  return state;
}

}  // namespace talos::machined
