// What an upgrade needs of the machine, and when a system that is on trial is healthy.
#include <kj/debug.h>
#include <time.h>

#include "common/base/file.h"
#include "common/base/remove-file.h"
#include "common/base/version.h"
#include "common/config/generate.h"
#include "machined/boot/tasks/boot-arguments.h"
#include "machined/boot/tasks/network-complete.h"
#include "machined/brain/wiring.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/upgrade/image-signatures.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kTrialArgument = "talos.trial"_kj;
constexpr size_t kMostRecord = 64u << 10;
constexpr auto kWord = static_cast<uint32_t>(MetaTag::kTrialFailure);
constexpr auto kNetworkPatience = 1 * kj::SECONDS;

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
  return {timer,
          clock,
          process1,
          store,
          containerd,
          installer,
          archives,
          container,
          install::slotNamed(arguments.first("talos.slot").orDefault("")),
          kj::str(buildVersion().tag),
          trialLeft(arguments),
          [this]() { return bootArgumentsOf(arguments, configReader.machine(store).getInstall()); },
          [this]() { return kj::str(configReader.machine(store).getInstall().getImageKey()); },
          [this](kj::String pinned, kj::String key) {
            return requireSignature(containerd, foreign, kj::mv(pinned), kj::mv(key));
          },
          [this]() { return sequencer.run(makeSequence(kUpgrade, mode, parts), Start::kPlain); },
          KJ_BIND_METHOD(life, acceptRebootFor),
          KJ_BIND_METHOD(*this, health),
          [this]() { return status.stage() == MachineStatus::Stage::RUNNING; },
          KJ_BIND_METHOD(announcements, upgrade),
          [this]() { return uv.blocking([]() { return readBlockDevices(); }); },
          [this]() {
            return uv.blocking([]() -> kj::Maybe<UpgradeRecord> {
              KJ_IF_MAYBE (text, tryReadFile(kUpgradeFile, kMostRecord)) {
                return decodeRecord(*text);
              }
              return nullptr;
            });
          },
          [this](const UpgradeRecord& record) {
            return uv.blocking([bytes = encodeRecord(record)]() {
              writeFileAtomically(kUpgradeFile, bytes, 0600);
            });
          },
          [this](kj::StringPtr word) {
            return meta.write(reads.of(0), kWord, kj::heapArray(word.asBytes()));
          },
          KJ_BIND_METHOD(*this, readLastWord),
          [this]() { return meta.remove(reads.of(0), kWord); },
          [this](bool preserve) { return requireOfEtcd(preserve); },
          [this](bool preserve, bool force) {
            return departure.leave(goingOf(preserve), force, kMayPass, kAnyway);
          },
          [this]() { return departure.stay(); },
          KJ_BIND_METHOD(nodeDrain, drain),
          KJ_BIND_METHOD(nodeDrain, uncordon)};
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
  return {timer,
          upgrader,
          kj::str(config::kInstallerImage, ":", buildVersion().tag),
          [this]() {
            return configReader.tryMachine(store).map([](config::Machine::Reader machine) {
              return kj::str(machine.getInstall().getImage());
            });
          },
          KJ_BIND_METHOD(*this, chance),
          [this](kj::StringPtr line) { console.say(line, Tone::kAlarm); },
          [this]() {
            return uv.blocking([]() -> kj::Maybe<PendingImage> {
              KJ_IF_MAYBE (text, tryReadFile(kPendingImageFile, kMostRecord)) {
                return decodePendingImage(*text);
              }
              return nullptr;
            });
          },
          [this](kj::Maybe<PendingImage> wish) {
            return uv.blocking([wish = kj::mv(wish)]() {
              KJ_IF_MAYBE (w, wish) {
                writeFileAtomically(kPendingImageFile, encodePendingImage(*w), 0600);
              } else {
                removeDurably(kPendingImageFile);
              }
            });
          }};
}

kj::Own<Controller> Wiring::installImageController() {
  return kj::heap<InstallImageController>(installImage);
}

RealImageArchives::Dependencies Wiring::archivesDependencies() {
  return {uv,
          timer,
          clock,
          io.provider->getNetwork(),
          [this](kj::StringPtr host) { return foreign.resolve(host); },
          [this]() {
            return uv.blocking([]() {
              KJ_IF_MAYBE (pem, tryReadFile(kAuthoritiesBundle)) return kj::mv(*pem);
              fail(ErrorKind::kFailedPrecondition,
                   kj::str("https needs trusted CAs: there is no ", kAuthoritiesBundle));
            });
          },
          foreign};
}

kj::Promise<kj::Maybe<kj::String>> Wiring::readLastWord() {
  kj::Maybe<kj::String> word;
  co_await meta.read(reads.of(0), kWord)
      .then([&](kj::Vector<MetaValue> values) { word = kj::heapString(values[0].value.asChars()); },
            [](kj::Exception&& e) {
              auto kind = kindOf(e);
              // No such word, or no META.
              if (kind == ErrorKind::kNotFound || kind == ErrorKind::kFailedPrecondition) return;
              kj::throwFatalException(kj::mv(e));
            });
  co_return kj::mv(word);
}

// The API is up, every other service is, and the network is what the config asks for.
kj::Promise<Health> Wiring::health() {
  using Stage = MachineStatus::Stage;
  if (status.stage() == Stage::FAILED) {
    co_return Health{kj::str("its boot failed: ", kj::strArray(status.problems(), "; ")), true};
  }
  if (status.stage() == Stage::MAINTENANCE) {
    co_return Health{kj::str("it has no machine config that it can use"), true};
  }
  kj::Vector<kj::String> lacks;
  if (status.stage() != Stage::RUNNING) {
    auto phase = sequencer.currentPhase();
    lacks.add(kj::str("it is still booting", phase.size() > 0 ? " (phase " : "", phase,
                      phase.size() > 0 ? ")" : ""));
  }
  for (auto& id : supervisor.ids()) {
    if (supervisor.isAwaited(id) && !supervisor.isUp(id)) {
      lacks.add(kj::str("service ", id, " is not up"));
    }
  }
  KJ_IF_MAYBE (missing, co_await networkComplete(store, controllers, timer, kNetworkPatience)) {
    lacks.add(kj::str("the network is not complete: ", *missing));
  }
  for (auto& problem : status.failing()) lacks.add(kj::str(problem));
  if (lacks.empty()) co_return Health{};
  co_return Health{kj::strArray(lacks, "; ")};
}

}  // namespace talos::machined
