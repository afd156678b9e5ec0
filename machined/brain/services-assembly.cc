#include "machined/brain/services-assembly.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/version.h"
#include "common/extension/extension-names.h"
#include "machined/brain/daemon-table.h"
#include "machined/config/controllers/state-controllers.h"
#include "machined/config/controllers/time-status-controller.h"
#include "machined/extensions/extension-controller.h"
#include "machined/kubernetes/etcd/etcd-run.h"
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
          // Certificates may have become valid, or expired.
          .stepped = KJ_BIND_METHOD(core, renewApiCertificate),
          .foreign = core.foreign};
}

rpc::LogLevel PageSwitches::level(kj::StringPtr service) const {
  switch (pages.level(service)) {
    case log::Level::kDebug:
      return rpc::LogLevel::DEBUG;
    case log::Level::kInfo:
      return rpc::LogLevel::INFO;
    case log::Level::kWarning:
      return rpc::LogLevel::WARNING;
    case log::Level::kError:
      return rpc::LogLevel::ERROR;
  }
  return rpc::LogLevel::INFO;
}

void PageSwitches::setLevel(kj::StringPtr service, rpc::LogLevel level) {
  switch (level) {
    case rpc::LogLevel::DEBUG:
      return pages.setLevel(service, log::Level::kDebug);
    case rpc::LogLevel::INFO:
      return pages.setLevel(service, log::Level::kInfo);
    case rpc::LogLevel::WARNING:
      return pages.setLevel(service, log::Level::kWarning);
    case rpc::LogLevel::ERROR:
      return pages.setLevel(service, log::Level::kError);
  }
}

CrashReports::Dependencies ServicesAssembly::crashDependencies() {
  return {.uv = core.uv,
          .timer = core.timer,
          .clock = core.clock,
          .logs = core.logs,
          .store = core.store,
          .version = kj::str(buildVersion().tag),
          .say = core.printWithAlarms("warning: "),
          .mounted = [this]() { return stateMounted(); }};
}

kj::Maybe<kj::String> ServicesAssembly::keepCrash(kj::StringPtr service) {
  return core.pages.takeRecord(service).map(
      [&](crash::CrashRecord record) { return crashes.add(service, kj::mv(record)); });
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
              [](kj::StringPtr cgroup) { return memoryKillsIn("/sys/fs/cgroup", cgroup); }),
          .crashReport =
              kj::Function<kj::Maybe<kj::String>(kj::StringPtr)>(KJ_BIND_METHOD(*this, keepCrash)),
          .switches = switches,
          .stackOf = kj::Function<kj::Promise<crash::CrashRecord>(kj::StringPtr)>(
              KJ_BIND_METHOD(stacks, of))};
}

kj::Array<kj::String> ServicesAssembly::environment(kj::StringPtr service,
                                                    kj::ArrayPtr<const kj::String> own) {
  kj::Vector<kj::String> users;
  KJ_IF_MAYBE (machine, core.configReader.tryMachine(core.store)) {
    users = serviceEnvironment(service, *machine);
  }
  if (service != kEtcdService) return joinEnvironment(own, users);
  kj::Vector<kj::String> all;
  for (auto& variable : own) all.add(kj::str(variable));
  KJ_IF_MAYBE (spec, core.store.tryGet<rpc::EtcdSpecSpec>(kEtcdService)) {
    for (auto& variable : etcdVariables(*spec)) all.add(kj::mv(variable));
  }
  return joinEnvironment(all, users);
}

void ServicesAssembly::addControllers() {
  core.controllers.add(timeController());
  core.controllers.add(extensionController());
}

// Returns those of an image whose layers a node in a container does not mount.
kj::Vector<kj::String> ServicesAssembly::extensionsNotLoaded() {
  constexpr kj::StringPtr kFile = "/usr/install/config-keys"_kj, kKey = "//extension="_kj;
  kj::Vector<kj::String> names;
  if (!core.container) return names;
  auto keys = tryReadFile(kFile).orDefault(kj::String());
  for (auto line : Lines(keys)) {
    auto text = kj::heapString(line);
    if (text.startsWith(kKey)) names.add(kj::str(text.slice(kKey.size())));
  }
  return names;
}

// A list that cannot be read is that of another builder. The node runs without its extensions, so
// that it can be upgraded.
kj::Own<ImageExtensions> ServicesAssembly::readExtensions() {
  auto names = extensionsNotLoaded();
  if (names.size() > 0) {
    core.printAlarms()(
        kj::str("warning: a node in a container does not load the system extensions "
                "of its image: ",
                kj::strArray(names, ", ")));
  }
  kj::Own<ImageExtensions> image;
  auto failure =
      kj::runCatchingExceptions([&] { image = ImageExtensions::read(extension::kImageFile); });
  KJ_IF_MAYBE (e, failure) {
    core.printAlarms()(kj::str("warning: no system extension is loaded: ", messageOf(*e)));
    return kj::heap<ImageExtensions>(nullptr);
  }
  return image;
}

ExtensionServices::Dependencies ServicesAssembly::extensionDependencies() {
  return {.supervisor = supervisor,
          .containerd = containerd,
          .store = core.store,
          .image = *imageExtensions,
          .allowedScore = allowedScore};
}

kj::Own<Controller> ServicesAssembly::extensionController() {
  return kj::heap<ExtensionController>(
      ExtensionController::Dependencies{.config = core.configReader,
                                        .image = *imageExtensions,
                                        .services = extensions,
                                        .read = [this](kj::ArrayPtr<const char> document) {
                                          return core.foreign.extensionConfigs(document);
                                        }});
}

kj::Own<Controller> ServicesAssembly::timeController() {
  TimeStatusController::Dependencies deps;
  deps.container = core.container;
  deps.beforeConfig = core.arguments.first("talos.config").orDefault("").startsWith("https://");
  deps.readConfig = KJ_BIND_METHOD(core.configReader, tryConfig);
  deps.keepTime = KJ_BIND_METHOD(time, enable);
  deps.setBootTimeout = KJ_BIND_METHOD(time, setBootTimeout);
  deps.leaveAlone = KJ_BIND_METHOD(time, disable);
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
