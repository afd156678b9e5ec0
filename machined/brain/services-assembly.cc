#include "machined/brain/services-assembly.h"

#include "machined/config/controllers/service-controller.h"
#include "machined/config/controllers/time-status-controller.h"
#include "machined/services/service-process.h"
#include "machined/system/service-environment.h"

namespace talos::machined {

TimeFollower::Dependencies ServicesAssembly::timeDependencies() {
  return {.timer = core.timer,
          .clock = kernelClock,
          .network = timeNetwork,
          .random = KJ_BIND_METHOD(core, chance),
          .nonce = randomNonce,
          .log = KJ_BIND_METHOD(core.announcements, time),
          .changed =
              [this]() {
                core.controllers.poke("v1alpha1.TimeStatusController");
                core.publishStatus();  // has a time of day
              },
          // Certificates may have become valid or expired.
          .stepped = KJ_BIND_METHOD(core, renewApiCertificate),
          .foreign = core.foreign};
}

Supervisor::Dependencies ServicesAssembly::supervisorDependencies() {
  return {.process1 = core.process1,
          .timer = core.timer,
          .clock = core.clock,
          .random = KJ_BIND_METHOD(core, chance),
          .output = KJ_BIND_METHOD(core.logs, writer),
          .announce = KJ_BIND_METHOD(core.announcements, service),
          .environment =
              kj::Function<kj::Array<kj::String>(kj::StringPtr, kj::ArrayPtr<const kj::String>)>(
                  KJ_BIND_METHOD(*this, environment)),
          .memoryKills = kj::Function<uint64_t(kj::StringPtr)>(
              [](kj::StringPtr cgroup) { return memoryKillsIn("/sys/fs/cgroup", cgroup); })};
}

kj::Array<kj::String> ServicesAssembly::environment(kj::StringPtr service,
                                                    kj::ArrayPtr<const kj::String> own) {
  kj::Vector<kj::String> users;
  KJ_IF_MAYBE (machine, core.configReader.tryMachine(core.store)) {
    users = serviceEnvironment(service, *machine);
  }
  return joinEnvironment(own, users);
}

void ServicesAssembly::addControllers() {
  core.controllers.add(timeController());
}

kj::Own<Controller> ServicesAssembly::timeController() {
  TimeStatusController::Dependencies deps;
  deps.container = core.container;
  deps.beforeConfig = core.arguments.first("talos.config").orDefault("").startsWith("https://");
  deps.readConfig = KJ_BIND_METHOD(core.configReader, tryConfig);
  deps.keepTime = KJ_BIND_METHOD(time, keepTime);
  deps.leaveAlone = KJ_BIND_METHOD(time, leaveAlone);
  deps.seen = [this]() {
    auto& s = time.state();
    kj::String offset;
    KJ_IF_MAYBE (o, s.offset) offset = ntp::showOffset(*o);
    return TimeStatusController::Seen{s.steps, kj::str(s.server), kj::mv(offset),
                                      kj::str(s.problem)};
  };
  return kj::heap<TimeStatusController>(kj::mv(deps));
}

}  // namespace talos::machined
