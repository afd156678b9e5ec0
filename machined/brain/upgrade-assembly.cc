#include "machined/brain/upgrade-assembly.h"

#include <kj/debug.h>
#include <string.h>
#include <time.h>

#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/base/within.h"
#include "common/config/config-key-list.h"
#include "machined/api/machine-facts.h"
#include "machined/boot/tasks/install-and-upgrade-tasks.h"
#include "machined/boot/tasks/network-complete.h"
#include "machined/brain/life-assembly.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/upgrade/image-signatures.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kTrialArgument = "talos.trial"_kj, kBrainService = "machined"_kj;
constexpr size_t kMostRecord = 64u << 10;
constexpr auto kTrialFailure = static_cast<uint32_t>(MetaTag::kTrialFailure),
               kVersionFloor = static_cast<uint32_t>(MetaTag::kVersionFloor);
constexpr auto kNetworkTimeout = 1 * kj::SECONDS, kEtcdTimeout = 10 * kj::SECONDS;

// etcd objects to a reboot while another member reboots, or while it is unhealthy; both are
// temporary.
constexpr auto kMayPass = ErrorKind::kUnavailable;
constexpr kj::StringPtr kAnyway = "or use --force"_kj;

rpc::DepartureKind goingOf(bool preserve) {
  return preserve ? rpc::DepartureKind::RESTARTS : rpc::DepartureKind::REJOINS;
}

// Returns the uptime of this system, not of a container's host.
kj::Duration uptime(bool container) {
  struct timespec now;
  KJ_SYSCALL(clock_gettime(CLOCK_BOOTTIME, &now));
  auto kernel = now.tv_sec * kj::SECONDS + now.tv_nsec * kj::NANOSECONDS;
  if (!container) return kernel;
  auto started = processStartMs("/proc", 1).orDefault(0);
  return kj::max(kernel - static_cast<int64_t>(started) * kj::MILLISECONDS, 0 * kj::SECONDS);
}

// Returns the time that is left of the seconds that talos.trial allows the system after its start.
kj::Maybe<kj::Duration> trialLeft(const KernelArguments& arguments, bool container) {
  KJ_IF_MAYBE (text, arguments.first(kTrialArgument)) {
    KJ_IF_MAYBE (seconds, text->tryParseAs<unsigned>()) {
      return kj::max(int64_t{*seconds} * kj::SECONDS - uptime(container), 0 * kj::SECONDS);
    }
  }
  return nullptr;
}

// runtime.InstallImageController: wakes the upgrade to machine.install.image.
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

kj::Promise<kj::Maybe<kj::String>> recordIn(UvLoop& uv, kj::StringPtr file) {
  return uv.blocking([file]() { return tryReadFile(file, kMostRecord); });
}

template <typename Record>
kj::Maybe<Record> understood(kj::Maybe<Record> record, kj::StringPtr file) {
  if (record == nullptr) {
    log::warn("the record is damaged or of a later release; ignored", {{"file", file}});
  }
  return record;
}

}  // namespace

RealImageArchives::Dependencies UpgradeAssembly::archivesDependencies() {
  return {.uv = core.uv,
          .timer = core.timer,
          .clock = core.clock,
          .network = core.io.provider->getNetwork(),
          .resolve = [this](kj::StringPtr host) { return core.foreign.resolve(host); },
          .authorities =
              [this]() {
                return core.uv.blocking([]() {
                  KJ_IF_MAYBE (pem, tryReadFile(kAuthoritiesBundle)) return kj::mv(*pem);
                  fail(ErrorKind::kFailedPrecondition,
                       kj::str("https needs trusted CAs: there is no ", kAuthoritiesBundle));
                });
              },
          .foreign = core.foreign};
}

kj::Maybe<UpgradeVolumes&> UpgradeAssembly::volumes() {
  if (!core.container) return partitions;
  if (isMountPoint(install::kSlotsPath, readFile("/proc/self/mountinfo"))) return folders;
  return nullptr;
}

// A machine's slot has its root image in the initramfs, so a machine reboots for each system.
kj::Maybe<RootSwitch&> UpgradeAssembly::rootSwitch() {
  if (!core.container || volumes() == nullptr) return nullptr;
  return root;
}

Upgrader::Dependencies UpgradeAssembly::upgraderDependencies() {
  auto running = install::slotNamed(core.arguments.first("talos.slot").orDefault(""));
  auto left = trialLeft(core.arguments, core.container);
  KJ_IF_MAYBE (system, root.entered()) {
    running = system->slot;
    left = root.trialLeft();
  }
  return {.timer = core.timer,
          .clock = core.clock,
          .process1 = core.process1,
          .store = core.store,
          .containerd = services.containerd,
          .installer = disks.installer,
          .archives = archives,
          .volumes = volumes(),
          .running = running,
          .version = kj::str(buildVersion().tag),
          .trialLeft = left,
          .node = *this,
          .records = *this,
          .clusters = *this,
          .configOnTrial = KJ_BIND_METHOD(*this, configOnTrial),
          .root = rootSwitch(),
          .entered = root.entered() != nullptr};
}

InstallImage::Dependencies UpgradeAssembly::installImageDependencies() {
  return {.timer = core.timer,
          .upgrader = upgrader,
          .own = installerImage(),
          .chance = KJ_BIND_METHOD(core, chance),
          .node = *this};
}

void UpgradeAssembly::addControllers() {
  if (!core.container) core.controllers.add(kj::heap<InstallImageController>(installImage));
}

// --- the node

kj::String UpgradeAssembly::kernelArguments() {
  return bootArgumentsOf(core.arguments, core.configReader.machine(core.store).getInstall());
}

kj::String UpgradeAssembly::imageKey() {
  return kj::str(core.configReader.machine(core.store).getInstall().getImageKey());
}

kj::Vector<kj::String> UpgradeAssembly::configKeysNotIn(kj::StringPtr list) {
  KJ_IF_MAYBE (known, core.configReader.tryConfig(core.store)) {
    return config::keysNotIn(list, *known);
  }
  return {};
}

kj::Promise<void> UpgradeAssembly::requireSignature(kj::String pinned, kj::String key) {
  return machined::requireSignature(services.containerd, core.foreign, kj::mv(pinned), kj::mv(key));
}

kj::Maybe<kj::String> UpgradeAssembly::configOnTrial() {
  if (!life.isConfigOnTrial()) return nullptr;
  return kj::str(
      "the machine config is on trial, or goes back; wait until it is confirmed (talosctl status), "
      "or keep it as it is: talosctl patch mc -p '[]' --mode=no-reboot --no-trial");
}

bool UpgradeAssembly::isBooted() {
  return core.status.stage() == MachineStatus::Stage::RUNNING;
}

kj::Promise<void> UpgradeAssembly::runSequence(kj::Function<kj::Promise<void>()> write) {
  return life.upgrade(kj::mv(write));
}

kj::Promise<void> UpgradeAssembly::reboot(kj::StringPtr reason) {
  return life.life.acceptRebootFor(reason);
}

void UpgradeAssembly::announce(kj::StringPtr line) {
  core.announcements.upgrade(line);
}

// --- records on STATE and in META

kj::Promise<kj::Maybe<UpgradeRecord>> UpgradeAssembly::load() {
  KJ_IF_MAYBE (text, co_await recordIn(core.uv, kUpgradeFile)) {
    co_return understood(decodeRecord(*text), kUpgradeFile);
  }
  co_return nullptr;
}

kj::Promise<void> UpgradeAssembly::save(const UpgradeRecord& record) {
  return core.uv.blocking(
      [bytes = encodeRecord(record)]() { writeFileAtomically(kUpgradeFile, bytes, 0600); });
}

kj::Promise<kj::Maybe<DutyRecord>> UpgradeAssembly::loadDuties() {
  KJ_IF_MAYBE (text, co_await recordIn(core.uv, kDutiesFile)) {
    co_return understood(decodeDuties(*text), kDutiesFile);
  }
  co_return nullptr;
}

kj::Promise<void> UpgradeAssembly::saveDuties(const DutyRecord& duties) {
  return core.uv.blocking(
      [bytes = encodeDuties(duties)]() { writeFileAtomically(kDutiesFile, bytes, 0600); });
}

kj::Promise<void> UpgradeAssembly::writeTrialFailure(kj::StringPtr reason) {
  return disks.meta.write(disks.reads.of(0), kTrialFailure, kj::heapArray(reason.asBytes()));
}

kj::Promise<void> UpgradeAssembly::clearTrialFailure() {
  return disks.meta.remove(disks.reads.of(0), kTrialFailure);
}

kj::Promise<kj::Maybe<kj::String>> UpgradeAssembly::readVersionFloor() {
  return disks.meta.read(disks.reads.of(0), kVersionFloor)
      .then(
          [](kj::Vector<MetaValue> values) -> kj::Maybe<kj::String> {
            return kj::heapString(values[0].value.asChars());
          },
          [](kj::Exception&& e) -> kj::Maybe<kj::String> {
            if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
            return nullptr;
          });
}

kj::Promise<void> UpgradeAssembly::writeVersionFloor(kj::StringPtr version) {
  return disks.meta.write(disks.reads.of(0), kVersionFloor, kj::heapArray(version.asBytes()));
}

kj::Maybe<kj::String> UpgradeAssembly::configuredImage() {
  return core.configReader.tryMachine(core.store).map([](config::Machine::Reader machine) {
    return kj::str(machine.getInstall().getImage());
  });
}

kj::Promise<kj::Maybe<PendingImage>> UpgradeAssembly::loadPendingImage() {
  KJ_IF_MAYBE (text, co_await recordIn(core.uv, kPendingImageFile)) {
    co_return understood(decodePendingImage(*text), kPendingImageFile);
  }
  co_return nullptr;
}

kj::Promise<void> UpgradeAssembly::savePendingImage(kj::Maybe<PendingImage> pending) {
  return core.uv.blocking([pending = kj::mv(pending)]() {
    KJ_IF_MAYBE (image, pending) {
      writeFileAtomically(kPendingImageFile, encodePendingImage(*image), 0600);
    } else {
      removeDurably(kPendingImageFile);
    }
  });
}

// --- the clusters

kj::Promise<void> UpgradeAssembly::requireSpare(bool preserve) {
  return kubernetes.departure.require(goingOf(preserve), kMayPass, kAnyway).ignoreResult();
}

kj::Promise<void> UpgradeAssembly::leave(bool preserve, bool force) {
  return kubernetes.departure.leave(goingOf(preserve), force, kMayPass, kAnyway);
}

kj::Promise<kj::Maybe<kj::String>> UpgradeAssembly::readTrialFailure() {
  kj::Maybe<kj::String> text;
  co_await disks.meta.read(disks.reads.of(0), kTrialFailure)
      .then([&](kj::Vector<MetaValue> values) { text = kj::heapString(values[0].value.asChars()); },
            [](kj::Exception&& e) {
              auto kind = kindOf(e);
              // The value or META is missing.
              if (kind == ErrorKind::kNotFound || kind == ErrorKind::kFailedPrecondition) return;
              kj::throwFatalException(kj::mv(e));
            });
  co_return kj::mv(text);
}

// Healthy means: the boot has ended, the awaited services are up, and the network is as the config
// requests.
kj::Promise<Health> UpgradeAssembly::health() {
  using Stage = MachineStatus::Stage;
  if (core.status.stage() == Stage::FAILED) {
    co_return Health{kj::str("its boot failed: ", kj::strArray(core.status.problems(), "; ")),
                     true};
  }
  if (core.status.stage() == Stage::MAINTENANCE) {
    co_return Health{kj::str("it has no machine config that it can use"), true};
  }
  kj::Vector<kj::String> lacks;
  if (core.status.stage() != Stage::RUNNING) {
    auto phase = life.sequencer.currentPhase();
    lacks.add(kj::str("it is still booting", phase.size() > 0 ? " (phase " : "", phase,
                      phase.size() > 0 ? ")" : ""));
  }
  for (auto& id : services.supervisor.ids()) {
    if (services.supervisor.isAwaited(id) && !services.supervisor.isUp(id)) {
      lacks.add(kj::str("service ", id, " is not up"));
    }
  }
  for (auto& problem : core.status.failing()) lacks.add(kj::str(problem));
  Health found;
  if (!lacks.empty()) found.lacks = kj::strArray(lacks, "; ");
  auto missing = co_await networkLacks();
  found.network = kj::mv(missing);
  co_return kj::mv(found);
}

kj::Promise<kj::Maybe<kj::String>> UpgradeAssembly::networkLacks() {
  return networkComplete(core.store, core.controllers, core.timer, kNetworkTimeout);
}

// --- duties for other nodes

// Connects to the machines of other members only if no member answers. A machine is reached if its
// kernel accepts or refuses the connection.
kj::Promise<kj::Maybe<DutyFacts::Etcd>> UpgradeAssembly::etcdFacts(bool silentAreIll) {
  auto outlook = co_await within(
      core.timer, kEtcdTimeout, kubernetes.departure.outlook(rpc::DepartureKind::RESTARTS),
      kj::str("etcd-supervisor did not answer within ", kEtcdTimeout / kj::SECONDS, " s"));
  KJ_IF_MAYBE (found, outlook) {
    auto members = found->getMembers();
    auto facts = etcdFactsOf(members);
    facts.othersReached = facts.othersReached || silentAreIll;
    for (auto i = 0u; i < members.size() && facts.member && !facts.othersReached; ++i) {
      if (members[i].getLocal()) continue;
      for (auto url : members[i].getPeerUrls()) {
        facts.othersReached = facts.othersReached ||
                              co_await isReached(url).catch_([](kj::Exception&&) { return false; });
      }
    }
    co_return kj::mv(facts);
  }
  co_return nullptr;
}

// A peer URL of etcd has an address, not a name.
kj::Promise<bool> UpgradeAssembly::isReached(kj::StringPtr peerUrl) {
  constexpr kj::StringPtr kScheme = "https://"_kj;
  if (!peerUrl.startsWith(kScheme)) co_return false;
  auto network =
      co_await core.io.provider->getNetwork().parseAddress(peerUrl.slice(kScheme.size()));
  bool reached = false;
  co_await within(core.timer, kNetworkTimeout, network->connect().ignoreResult(),
                  kj::str(peerUrl, " did not answer"))
      .then([&]() { reached = true; },
            [&](kj::Exception&& e) {
              reached = strstr(e.getDescription().cStr(), strerror(ECONNREFUSED)) != nullptr;
            });
  co_return reached;
}

kj::Promise<kj::Vector<Duty>> UpgradeAssembly::duties(bool silentAreIll) {
  DutyFacts facts;
  for (auto& id : services.supervisor.ids()) {
    capnp::MallocMessageBuilder message;
    auto service = message.initRoot<rpc::Service>();
    services.supervisor.fill(id, service);
    DutyFacts::Service fact{.id = kj::str(id), .up = services.supervisor.isUp(id)};
    for (auto event : service.asReader().getEvents()) {
      if (event.getState() != rpc::ServiceState::FAILED || event.getUptime() == 0) continue;
      fact.failedAgo = (service.getUptime() - event.getUptime()) * kj::NANOSECONDS;
    }
    // A brain that ended could not write an event about it.
    if (id == kBrainService && core.process1.brainRestarts() > 0 && !root.isFirstBrain()) {
      fact.failedAgo = core.timer.now() - brainStarted;
    }
    facts.services.add(kj::mv(fact));
  }
  auto unknown = [](kj::Exception&& e) -> kj::Maybe<DutyFacts::Etcd> {
    DutyFacts::Etcd etcd;
    etcd.member = true;
    etcd.problems.add(messageOf(e));
    return kj::mv(etcd);
  };
  facts.etcd = co_await etcdFacts(silentAreIll).catch_(unknown);
  auto lacks = co_await networkLacks();
  facts.network.emplace().lacks = kj::mv(lacks);
  co_return dutiesOf(core.store, facts);
}

}  // namespace talos::machined
