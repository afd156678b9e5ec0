// What an upgrade needs of the machine, and when a system that is on trial is healthy.
#include <kj/debug.h>
#include <time.h>

#include "common/base/file.h"
#include "common/base/remove-file.h"
#include "common/base/version.h"
#include "common/config/config-generate.h"
#include "machined/boot/tasks/boot-arguments.h"
#include "machined/boot/tasks/network-complete.h"
#include "machined/brain/upgrades.h"
#include "machined/brain/wiring.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/upgrade/image-signatures.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kTrialArgument = "talos.trial"_kj;
constexpr size_t kMostRecord = 64u << 10;
constexpr auto kTrialFailureTag = static_cast<uint32_t>(MetaTag::kTrialFailure);
constexpr auto kNetworkTimeout = 1 * kj::SECONDS;

// What etcd has against a reboot is another one's that is under way, or an illness: either may
// pass.
constexpr auto kMayPass = ErrorKind::kUnavailable;
constexpr kj::StringPtr kAnyway = "or use --force"_kj;

rpc::DepartureKind goingOf(bool preserve) {
  return preserve ? rpc::DepartureKind::RESTARTS : rpc::DepartureKind::REJOINS;
}

// Of the seconds that talos.trial gives the system from its start on.
kj::Maybe<kj::Duration> trialLeft(const KernelArguments& arguments) {
  KJ_IF_MAYBE (text, arguments.first(kTrialArgument)) {
    KJ_IF_MAYBE (seconds, text->tryParseAs<unsigned>()) {
      struct timespec now;
      KJ_SYSCALL(clock_gettime(CLOCK_BOOTTIME, &now));
      return kj::max(int64_t{*seconds} - now.tv_sec, 0) * kj::SECONDS;
    }
  }
  return nullptr;
}

// runtime.InstallImageController: wakes what follows machine.install.image.
class InstallImageController final : public Controller {
 public:
  explicit InstallImageController(InstallImage& image) : image(image) {}

  kj::StringPtr name() const override { return "runtime.InstallImageController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId),
                   input<rpc::UpgradeStatusSpec>("node"));
  }
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store&) override {
    image.changed();
    return kj::READY_NOW;
  }

 private:
  InstallImage& image;
};

}  // namespace

Upgrader::Dependencies Wiring::upgraderDependencies() {
  return {.timer = timer,
          .clock = clock,
          .process1 = process1,
          .store = store,
          .containerd = containerd,
          .installer = installer,
          .archives = archives,
          .container = container,
          .running = install::slotNamed(arguments.first("talos.slot").orDefault("")),
          .version = kj::str(buildVersion().tag),
          .trialLeft = trialLeft(arguments),
          .node = upgrades,
          .records = upgrades,
          .clusters = upgrades};
}

kj::String NodeUpgrades::kernelArguments() {
  return bootArgumentsOf(brain.arguments, brain.configReader.machine(brain.store).getInstall());
}

kj::String NodeUpgrades::imageKey() {
  return kj::str(brain.configReader.machine(brain.store).getInstall().getImageKey());
}

kj::Promise<void> NodeUpgrades::requireSignature(kj::String pinned, kj::String key) {
  return machined::requireSignature(brain.containerd, brain.foreign, kj::mv(pinned), kj::mv(key));
}

kj::Promise<kj::Vector<BlockDevice>> NodeUpgrades::blockDevices() {
  return brain.uv.blocking([]() { return readBlockDevices(); });
}

bool NodeUpgrades::isBooted() {
  return brain.status.stage() == MachineStatus::Stage::RUNNING;
}

kj::Promise<void> NodeUpgrades::runSequence() {
  return brain.sequencer.run(makeSequence(kUpgrade, brain.mode, brain.parts), Start::kPlain);
}

kj::Promise<void> NodeUpgrades::reboot(kj::StringPtr reason) {
  return brain.life.acceptRebootFor(reason);
}

void NodeUpgrades::announce(kj::StringPtr line) {
  brain.announcements.upgrade(line);
}

kj::Promise<kj::Maybe<UpgradeRecord>> NodeUpgrades::load() {
  return brain.uv.blocking([]() -> kj::Maybe<UpgradeRecord> {
    KJ_IF_MAYBE (text, tryReadFile(kUpgradeFile, kMostRecord)) return decodeRecord(*text);
    return nullptr;
  });
}

kj::Promise<void> NodeUpgrades::save(const UpgradeRecord& record) {
  return brain.uv.blocking(
      [bytes = encodeRecord(record)]() { writeFileAtomically(kUpgradeFile, bytes, 0600); });
}

kj::Promise<void> NodeUpgrades::writeTrialFailure(kj::StringPtr reason) {
  return brain.meta.write(brain.reads.of(0), kTrialFailureTag, kj::heapArray(reason.asBytes()));
}

kj::Promise<void> NodeUpgrades::clearTrialFailure() {
  return brain.meta.remove(brain.reads.of(0), kTrialFailureTag);
}

kj::Promise<void> NodeUpgrades::requireSpare(bool preserve) {
  return brain.requireOfEtcd(preserve);
}

kj::Promise<void> NodeUpgrades::leave(bool preserve, bool force) {
  return brain.departure.leave(goingOf(preserve), force, kMayPass, kAnyway);
}

kj::Promise<void> NodeUpgrades::stay() {
  return brain.departure.stay();
}

kj::Promise<void> NodeUpgrades::drain() {
  return brain.nodeDrain.drain();
}

void NodeUpgrades::uncordon() {
  brain.nodeDrain.uncordon();
}

kj::Promise<void> Wiring::requireOfEtcd(bool preserve) {
  return departure.require(goingOf(preserve), kMayPass, kAnyway).ignoreResult();
}

kj::Promise<kj::Maybe<pki::Pem>> Wiring::readKubeletPair() {
  return uv.blocking([]() -> kj::Maybe<pki::Pem> {
    KJ_IF_MAYBE (text, tryReadFile(kKubeletClientPair)) return pki::Pem(kj::mv(*text));
    return nullptr;
  });
}

InstallImage::Dependencies Wiring::installImageDependencies() {
  return {.timer = timer,
          .upgrader = upgrader,
          .own = kj::str(config::kInstallerImage, ":", buildVersion().tag),
          .chance = KJ_BIND_METHOD(*this, chance),
          .node = upgrades};
}

kj::Maybe<kj::String> NodeUpgrades::configuredImage() {
  return brain.configReader.tryMachine(brain.store).map([](config::Machine::Reader machine) {
    return kj::str(machine.getInstall().getImage());
  });
}

void NodeUpgrades::log(kj::StringPtr line) {
  brain.console.say(line, Tone::kAlarm);
}

kj::Promise<kj::Maybe<PendingImage>> NodeUpgrades::loadPendingImage() {
  return brain.uv.blocking([]() -> kj::Maybe<PendingImage> {
    KJ_IF_MAYBE (text, tryReadFile(kPendingImageFile, kMostRecord)) {
      return decodePendingImage(*text);
    }
    return nullptr;
  });
}

kj::Promise<void> NodeUpgrades::savePendingImage(kj::Maybe<PendingImage> pending) {
  return brain.uv.blocking([pending = kj::mv(pending)]() {
    KJ_IF_MAYBE (image, pending) {
      writeFileAtomically(kPendingImageFile, encodePendingImage(*image), 0600);
    } else {
      removeDurably(kPendingImageFile);
    }
  });
}

kj::Own<Controller> Wiring::installImageController() {
  return kj::heap<InstallImageController>(installImage);
}

RealImageArchives::Dependencies Wiring::archivesDependencies() {
  return {.uv = uv,
          .timer = timer,
          .clock = clock,
          .network = io.provider->getNetwork(),
          .resolve = [this](kj::StringPtr host) { return foreign.resolve(host); },
          .authorities =
              [this]() {
                return uv.blocking([]() {
                  KJ_IF_MAYBE (pem, tryReadFile(kAuthoritiesBundle)) return kj::mv(*pem);
                  fail(ErrorKind::kFailedPrecondition,
                       kj::str("https needs trusted CAs: there is no ", kAuthoritiesBundle));
                });
              },
          .foreign = foreign};
}

kj::Promise<kj::Maybe<kj::String>> NodeUpgrades::readTrialFailure() {
  kj::Maybe<kj::String> reason;
  co_await brain.meta.read(brain.reads.of(0), kTrialFailureTag)
      .then(
          [&](kj::Vector<MetaValue> values) { reason = kj::heapString(values[0].value.asChars()); },
          [](kj::Exception&& e) {
            auto kind = kindOf(e);
            // No such value, or no META.
            if (kind == ErrorKind::kNotFound || kind == ErrorKind::kFailedPrecondition) return;
            kj::throwFatalException(kj::mv(e));
          });
  co_return kj::mv(reason);
}

// The API is up, every other service is, and the network is what the config asks for.
kj::Promise<Health> NodeUpgrades::health() {
  using Stage = MachineStatus::Stage;
  if (brain.status.stage() == Stage::FAILED) {
    co_return Health{kj::str("its boot failed: ", kj::strArray(brain.status.problems(), "; ")),
                     true};
  }
  if (brain.status.stage() == Stage::MAINTENANCE) {
    co_return Health{kj::str("it has no machine config that it can use"), true};
  }
  kj::Vector<kj::String> lacks;
  if (brain.status.stage() != Stage::RUNNING) {
    auto phase = brain.sequencer.currentPhase();
    lacks.add(kj::str("it is still booting", phase.size() > 0 ? " (phase " : "", phase,
                      phase.size() > 0 ? ")" : ""));
  }
  for (auto& id : brain.supervisor.ids()) {
    if (brain.supervisor.isAwaited(id) && !brain.supervisor.isUp(id)) {
      lacks.add(kj::str("service ", id, " is not up"));
    }
  }
  KJ_IF_MAYBE (missing, co_await networkComplete(brain.store, brain.controllers, brain.timer,
                                                 kNetworkTimeout)) {
    lacks.add(kj::str("the network is not complete: ", *missing));
  }
  for (auto& problem : brain.status.failing()) lacks.add(kj::str(problem));
  if (lacks.empty()) co_return Health{};
  co_return Health{kj::strArray(lacks, "; ")};
}

}  // namespace talos::machined
