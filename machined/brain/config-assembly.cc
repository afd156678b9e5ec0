#include "machined/brain/config-assembly.h"
#include "machined/config/trust/kept-identity.h"

#include "common/base/file.h"
#include "common/wire/audit.h"
#include "machined/api/audit-line.h"
#include "machined/brain/life-assembly.h"
#include "machined/config/controllers/machine-inventory.h"
#include "machined/disk/volumes/swaps.h"

namespace talos::machined {

NodeConfigSources::Dependencies ConfigAssembly::sourcesDependencies() {
  return {.arguments = core.arguments,
          .platform = core.platform,
          .userData = userDataOf(core.process1),
          .variables = urlVariables,
          .firmware = []() { return readFirmware("/sys"); },
          .volumes = disks.volumes,
          .uv = core.uv,
          .network = core.io.provider->getNetwork(),
          .sockets = *core.io.lowLevelProvider,
          .timer = core.timer,
          .clock = core.clock,
          .random = KJ_BIND_METHOD(core, chance),
          .say = core.printWithAlarms("retrying "),  // also for a quiet console: the boot waits
          .resolve = [this](kj::StringPtr host) { return core.foreign.resolve(host); },
          .foreign = core.foreign};
}

VolumeKeys::Dependencies ConfigAssembly::keysDependencies() {
  return {.store = core.store,
          .reader = core.configReader,
          .partitions = disks.partitions,
          .mounted =
              [this](kj::StringPtr label) {
                return label == kStateName ? disks.state.mounted() : disks.ephemeral.mounted();
              },
          .ephemeralPartition = KJ_BIND_METHOD(*this, ephemeralPartition),
          .container = core.container,
          .whySwapStays =
              [](kj::StringPtr device) {
                return whySwapStays(readFile("/proc/swaps"), readFile("/proc/meminfo"), device);
              }};
}

kj::Promise<kj::Maybe<kj::String>> ConfigAssembly::ephemeralPartition() {
  return core.uv.blocking([]() -> kj::Maybe<kj::String> {
    auto devices = readBlockDevices();
    kj::Maybe<kj::String> name;
    for (auto& device : devices) {
      if (device.partitionName != kEphemeralName) continue;
      if (name != nullptr) return nullptr;
      name = kj::str(device.name);
    }
    return name;
  });
}

ConfigManager::Dependencies ConfigAssembly::managerDependencies() {
  return {.mode = configMode(core.mode),
          .process1 = core.process1,
          .store = core.store,
          .reader = core.configReader,
          .sources = sources,
          .disk = stateDisk,
          .trialRecords = trialRecords,
          .foreign = core.foreign,
          .timer = core.timer,
          .host = *this,
          .keys = volumeKeys,
          .missing = [this](config::Config::Reader config) -> kj::Promise<MissingFromImage> {
            auto files = userFiles(config.getMachine());
            auto kubelet = config.getMachine().getKubelet();
            auto programs = KJ_MAP(provider, kubelet.getCredentialProviderConfig().getProviders()) {
              return kj::str(provider.getName());
            };
            if (files.empty() && programs.size() == 0) return MissingFromImage();
            return core.uv.blocking([files = kj::mv(files), programs = kj::mv(programs)]() {
              return MissingFromImage{missingImageFiles("", files), missingPrograms("", programs)};
            });
          }};
}

void ConfigAssembly::addControllers() {
  addTo(core.controllers, controllerDeps);
  core.controllers.add(kj::heap<KeptIdentityController>(KeptIdentityController::Dependencies{
      .uv = core.uv,
      .store = core.store,
      .readConfig = KJ_BIND_METHOD(core.configReader, tryConfig),
      .isMounted = KJ_BIND_METHOD(disks.state, isMounted)}));
}

ControllerDependencies ConfigAssembly::controllerDependenciesOf() {
  return {
      .arguments = core.arguments,
      .platform = core.platform,
      .uv = core.uv,
      .port = core.io.unixEventPort,
      .timer = core.timer,
      .clock = core.clock,
      .config = core.configReader,
      .kernel = disks.kernel,
      .watchdog = disks.watchdog,
      .warn = [this](kj::StringPtr problem) { core.console.say(kj::str("warning: ", problem)); },
      .showsStateToAnybody = KJ_BIND_METHOD(manager, showsStateToAnybody),
      .audit =
          [this](kj::StringPtr program, kj::StringPtr call) {
            capnp::MallocMessageBuilder message;
            auto record = message.initRoot<rpc::AuditRecord>();
            record.setClient(program);
            record.setCall(call);
            record.setOutcome(outcomeOf(nullptr));
            core.logs.append(kAuditLog, auditLine(record, core.clock.now()));
          },
      .isStateMounted = KJ_BIND_METHOD(disks.state, isMounted),
      .isStateToCome = KJ_BIND_METHOD(life, mustInstall),
      .random = KJ_BIND_METHOD(core, chance),
      .platformFacts = sources.platformFacts(),
      .platformFactsFile = platformFacts,
      .platformReport = sources.platformReport(),
      .trustedBundle = trustedBundle,
      .metadataAddresses = sources.metadataAddresses(),
      .mergeContainerd =
          [this](kj::StringPtr system, kj::ArrayPtr<const kj::String> parts) {
            return core.foreign.containerd(system.asArray(), parts);
          }};
}

kj::String ConfigAssembly::sequence() const {
  return life.life.sequenceOrNext();
}
bool ConfigAssembly::isLeaving() const {
  return disks.reset->isBeingAccepted();
}
bool ConfigAssembly::bootHasSaved() const {
  auto& sequencer = life.sequencer;
  return sequencer.currentSequence() == kBoot && sequencer.currentPhase() == kStartEverything;
}
bool ConfigAssembly::bootFailed() const {
  return life.life.hasFailed();
}
kj::Promise<void> ConfigAssembly::intendReboot() {
  return life.life.intendReboot();
}
void ConfigAssembly::reboot() {
  life.life.rebootSoon();
}

void ConfigAssembly::trialChanged(kj::StringPtr what) {
  core.announcements.trial(what, manager.revertsIn());
  core.publishStatus();
}

void ConfigAssembly::changeTrialChanged(kj::StringPtr what, Tone tone) {
  life.changeTrialChanged();
  core.announcements.changeTrial(what, tone);
  core.publishStatus();
}

kj::Promise<TrialFacts> ConfigAssembly::trialFacts(config::Config::Reader before, bool ownNetwork) {
  return life.trialFacts(before, ownNetwork);
}

}  // namespace talos::machined
