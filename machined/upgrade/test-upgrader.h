// For tests: a node that changes its system, with a model of its disk.
#pragma once

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "machined/process1/init/init-protocol.h"
#include "machined/process1/test-process1.h"
#include "machined/upgrade/test-pulls.h"
#include "machined/upgrade/upgrader.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {

using install::Slot;
using install::SlotState;

// BOOT, STATE, META and EPHEMERAL, and how a boot loader starts from them; outlives the systems on
// it. Counts durable writes, so that a test can cut the power after each, or make each fail.
struct ModelDisk final : Installer {
  static constexpr unsigned kNever = 1'000'000;
  unsigned writes = 0;
  unsigned cutAfter = kNever;  // so many writes are made, and nothing answers afterwards
  unsigned failAt = 0;         // the number of a write that reports an error
  bool failsSilently = false;  // and that is made all the same
  bool isOff() const { return writes >= cutAfter; }
  kj::Maybe<Slot> runs;  // a crash of machined: the same system runs, and the boot loader does not
  bool entered = false;  // it took over without a reboot
  kj::Maybe<unsigned> enteredTrialS;
  // A boot of the machine, which ends what took over.
  void powerCut() {
    runs = nullptr;
    entered = false;
    enteredTrialS = nullptr;
  }

  SlotState environment;
  std::string versions[2] = {"v1", "v2"};
  std::string slotsAt = "/dev/vda3";
  kj::Maybe<UpgradeRecord> record;
  kj::Maybe<DutyRecord> duties;
  bool refuses = false, unreadable = false, hangs = false;  // hangs: in the middle of a slot
  std::vector<std::string> cleared;
  std::string imageVersion = "v3", imageConfigKeys;
  std::string tooLarge;  // the reason, if the image does not fit the slot that does not run
  std::string written;   // from an archive
  kj::Maybe<kj::String> trialFailure;
  kj::Maybe<kj::String> floor;
  bool metaFails = false, failureStays = false;
  bool full = false;        // STATE
  bool slow = false;        // STATE: until the test lets it write
  bool losesWipes = false;  // reports a record of a wipe as written, and does not write it
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> saves;
  enum class Ephemeral { kData, kHalf, kEmpty } ephemeral = Ephemeral::kData;
  bool clearFails = false;  // interrupted in its middle
  kj::Promise<void> clears = kj::READY_NOW;
  unsigned silentChoices = 0;  // number of choices that it writes and reports as failed

  // Makes one durable write. The answer to the last one before a power cut is lost.
  kj::Promise<void> write(kj::Function<void()> change) {
    if (isOff()) return kj::NEVER_DONE;
    bool fails = ++writes == failAt;
    if (!fails || failsSilently) change();
    if (isOff()) return kj::NEVER_DONE;
    if (fails) return error(ErrorKind::kInternal, "write error");
    return kj::READY_NOW;
  }

  kj::Promise<bool> run(Fill fill) override {
    capnp::MallocMessageBuilder message;
    auto request = message.initRoot<rpc::InstallRequest>();
    fill(request);
    auto clear = request.asReader().getClear();
    EXPECT_TRUE(KJ_ASSERT_NONNULL(record).emptying || losesWipes);
    cleared.push_back(clear.getDevice().cStr() + (" " + std::to_string(clear.getBytes())));
    co_await write([this]() { ephemeral = Ephemeral::kHalf; });
    co_await kj::mv(clears);
    clears = kj::READY_NOW;
    if (clearFails) fail(ErrorKind::kFailedPrecondition, "the power is gone");
    co_await write([this]() { ephemeral = Ephemeral::kEmpty; });
    co_return true;
  }
  kj::Promise<void> slots(Fill fill, Hear hear, int archive) override {
    capnp::MallocMessageBuilder message, answer;
    auto request = message.initRoot<rpc::InstallRequest>();
    fill(request);
    if (request.isVersion()) {
      auto parts = request.asReader().getVersion().getParts();
      EXPECT_TRUE(parts.size() == 0 || parts[0].getName() == "vmlinuz");
      auto params = request.asReader().getVersion();
      EXPECT_EQ(params.getDevice().cStr(), slotsAt);
      EXPECT_GT(params.getSlot().size(), 0u);
      if (!tooLarge.empty()) fail(ErrorKind::kFailedPrecondition, tooLarge.c_str());
      auto out = answer.initRoot<rpc::Slots>();
      out.setImage(imageVersion.c_str());
      out.setConfigKeys(imageConfigKeys.c_str());
      hear(out);
      co_return;
    }
    if (hangs && request.isUpgrade()) co_await kj::Promise<void>(kj::NEVER_DONE);
    if (request.isUpgradeFrom()) {
      auto params = request.asReader().getUpgradeFrom();
      written = kj::str(params.getSlot(), " ", params.getParts()[0].getName(), " ",
                        params.getParts()[0].getOffset(), " ", params.getArguments())
                    .cStr();
      co_await write([this]() {
        environment.attempt = nullptr;
        environment.tries = 0;
        versions[1] = "";
      });
      co_await write([this]() { versions[1] = imageVersion; });
    }
    if (request.isChoose()) co_await choose(request.asReader().getChoose());
    auto out = answer.initRoot<rpc::Slots>();
    out.setConfirmed(nameOf(environment.confirmed));
    KJ_IF_MAYBE (slot, environment.attempt) out.setAttempt(nameOf(*slot));
    out.setTries(environment.tries);
    auto list = out.initSystems(versions[1].empty() ? 1 : 2);
    for (unsigned i = 0; i < list.size(); ++i) {
      list[i].setSlot(i == 0 ? "A" : "B");
      list[i].setVersion(versions[i].c_str());
    }
    hear(out);
  }
  kj::Promise<void> choose(rpc::InstallRequest::Choose::Reader params) {
    if (refuses) fail(ErrorKind::kFailedPrecondition, "the disk does not take it");
    EXPECT_EQ(params.getDevice().cStr(), slotsAt);
    co_await write([&]() {
      environment.confirmed = KJ_ASSERT_NONNULL(install::slotNamed(params.getConfirmed()));
      environment.attempt = install::slotNamed(params.getAttempt());
      environment.tries = environment.attempt == nullptr ? 0 : 1;
      environment.healthTimeoutS = params.getHealthTimeoutS();
    });
    if (silentChoices == 0) co_return;
    --silentChoices;
    fail(ErrorKind::kFailedPrecondition, "the disk did not answer");
  }

  // Writes a record when its turn comes.
  kj::Promise<void> save(const UpgradeRecord& given) {
    if (!slow) {
      return write([&]() {
        if (!losesWipes || !given.emptying) record = decodeRecord(encodeRecord(given));
      });
    }
    auto paf = kj::newPromiseAndFulfiller<void>();
    saves.push_back(kj::mv(paf.fulfiller));
    return paf.promise.then(
        [this, bytes = encodeRecord(given)]() { record = decodeRecord(bytes); });
  }

  // Chooses a slot as the boot loader does, which counts a try on the disk.
  Slot start() {
    KJ_IF_MAYBE (slot, runs) return *slot;
    KJ_IF_MAYBE (slot, environment.attempt) {
      if (environment.tries > 0) {
        --environment.tries;
        ++writes;
        return *slot;
      }
    }
    return environment.confirmed;
  }
};

// A source of archives: returns the requested one, or fails with `problem`.
struct ModelArchives final : ImageArchives {
  std::string asked, problem;
  ErrorKind kind = ErrorKind::kInvalidArgument;         // of the problem
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> held;  // while it is fetched

  kj::Promise<ImageArchive> fetch(ArchiveUrl url, kj::String key, Progress progress) override {
    asked = kj::str("fetch ", url.place.target, " ", url.sha256.size(), " ", key).cStr();
    return give(kj::mv(progress));
  }
  kj::Promise<ImageArchive> receive(kj::String name, ClientFile file, kj::String key,
                                    Progress progress) override {
    asked = kj::str("receive ", name, " ", file.size, " ", key).cStr();
    return give(kj::mv(progress));
  }

 private:
  kj::Promise<ImageArchive> give(Progress progress) {
    progress(30 << 20, 100 << 20);
    auto paf = kj::newPromiseAndFulfiller<void>();
    held = kj::mv(paf.fulfiller);
    co_await paf.promise;
    if (!problem.empty()) fail(kind, problem.c_str());
    ImageArchive archive{{}, {}, kj::str("12")};
    archive.parts.add(ImagePart{kj::str("vmlinuz"), 512, 7});
    co_return kj::mv(archive);
  }
};

inline BlockDevice part(kj::StringPtr disk, unsigned number, kj::StringPtr name) {
  return BlockDevice{.name = kj::str(disk, number),
                     .disk = kj::str(disk),
                     .partitionName = kj::str(name),
                     .whole = false};
}
inline kj::Vector<BlockDevice> systemDisk(kj::StringPtr disk) {
  kj::Vector<BlockDevice> devices;
  devices.add(part(disk, 3, "BOOT"));
  devices.add(part(disk, 5, "STATE"));
  devices.add(part(disk, 6, "EPHEMERAL"));
  return devices;
}

inline kj::Maybe<UpgradeRecord> copyOfRecord(const kj::Maybe<UpgradeRecord>& record) {
  KJ_IF_MAYBE (r, record) return decodeRecord(encodeRecord(*r));
  return nullptr;
}

// Slots and EPHEMERAL as folders.
struct FolderVolumes final : UpgradeVolumes {
  explicit FolderVolumes(ModelDisk& disk) : disk(disk) {}
  kj::Promise<kj::String> slots() override { return kj::str("/slots"); }
  kj::Promise<kj::String> ephemeral() override { return kj::str("/var"); }
  kj::Promise<void> empty(kj::String ephemeral) override {
    EXPECT_TRUE(KJ_ASSERT_NONNULL(disk.record).emptying);
    disk.cleared.push_back(ephemeral.cStr());
    return kj::READY_NOW;
  }
  ModelDisk& disk;
};

// Lets another system take over. The brain of a test ends when entered() is set.
struct ModelRootSwitch final : RootSwitch {
  explicit ModelRootSwitch(ModelDisk& disk) : disk(disk) {}
  kj::Promise<void> requireStated(kj::String configKeys) override {
    if (states != configKeys.cStr()) fail(ErrorKind::kFailedPrecondition, "another process 1");
    return kj::READY_NOW;
  }
  kj::Promise<void> prepare(Slot slot) override {
    if (!differs.empty()) fail(ErrorKind::kFailedPrecondition, differs.c_str());
    prepared = slot;
    return kj::READY_NOW;
  }
  kj::Promise<void> enter(Slot slot, kj::Maybe<unsigned> trialS) override {
    EXPECT_TRUE(KJ_ASSERT_NONNULL(prepared) == slot);
    if (!refuses.empty()) return error(ErrorKind::kFailedPrecondition, refuses.c_str());
    disk.runs = slot;
    disk.entered = true;
    disk.enteredTrialS = trialS;
    hasEntered = true;
    return kj::NEVER_DONE;
  }
  kj::Promise<void> abandon() override {
    prepared = nullptr;
    return kj::READY_NOW;
  }
  kj::Promise<void> replaceServices() override {
    ++replacements;
    if (replaced == nullptr) return kj::READY_NOW;
    return KJ_ASSERT_NONNULL(kj::mv(replaced)).then([this]() { old = ""; });
  }
  kj::Maybe<kj::String> unreplaced() override {
    if (old.empty()) return nullptr;
    return kj::str("services of the old system still run: ", old.c_str());
  }

  ModelDisk& disk;
  kj::Maybe<Slot> prepared;
  bool hasEntered = false;
  unsigned replacements = 0;
  std::string states, differs, refuses, old;
  kj::Maybe<kj::Promise<void>> replaced;
};

enum class VolumesAs { kPartitions, kFolders, kNone };

inline kj::Maybe<kj::Duration> trialLeft(ModelDisk& disk, Slot running) {
  if (disk.entered) return disk.enteredTrialS.map([](unsigned s) { return s * kj::SECONDS; });
  if (running == disk.environment.confirmed) return nullptr;
  return disk.environment.healthTimeoutS * kj::SECONDS;
}

// A system from one start to the next.
class System final : public UpgradableNode, public UpgradeRecords, public UpgradeClusters {
 public:
  explicit System(ModelDisk& disk, VolumesAs kind = VolumesAs::kPartitions,
                  unsigned earlierBrains = 0)
      : disk(disk),
        partitions(disk,
                   []() -> kj::Promise<kj::Vector<BlockDevice>> { return systemDisk("vda"); }),
        folders(disk),
        root(disk),
        running(disk.start()),
        process1(after(machine, earlierBrains)),
        upgrader({.timer = timer,
                  .clock = kj::systemPreciseCalendarClock(),
                  .process1 = process1,
                  .store = store,
                  .containerd = pulls.containerd,
                  .installer = disk,
                  .archives = archives,
                  .volumes = volumesAs(kind),
                  .running = running,
                  .version = kj::str(disk.versions[running == Slot::kA ? 0 : 1].c_str()),
                  .trialLeft = trialLeft(disk, running),
                  .node = *this,
                  .records = *this,
                  .clusters = *this,
                  .configOnTrial = [this]() -> kj::Maybe<kj::String> {
                    if (onTrial.empty()) return nullptr;
                    return kj::str(onTrial.c_str());
                  },
                  .root = root,
                  .entered = disk.entered}) {}
  ~System() noexcept(false) {}

  kj::String kernelArguments() override { return kj::str("a=1"); }
  kj::String imageKey() override { return kj::str(key.c_str()); }
  kj::Vector<kj::String> configKeysNotIn(kj::StringPtr list) override {
    kj::Vector<kj::String> missing;
    for (auto& each : configKeys) {
      if (!std::string(list.cStr()).contains(each + "\n")) missing.add(kj::str(each.c_str()));
    }
    return missing;
  }
  kj::Promise<void> requireSignature(kj::String pinned, kj::String) override {
    verified = pinned.cStr();
    if (unsignedImage.empty()) return kj::READY_NOW;
    return error(ErrorKind::kPermissionDenied, unsignedImage.c_str());
  }
  bool isBooted() override { return true; }
  std::string onTrial;  // why no upgrade may begin
  kj::Promise<Health> health() override {
    Health found;
    if (!lacks.empty()) found.lacks = kj::str(lacks.c_str());
    if (!networkLacks.empty()) found.network = kj::str(networkLacks.c_str());
    found.hopeless = hopeless;
    return kj::mv(found);
  }
  kj::Promise<kj::Vector<Duty>> duties() override {
    kj::Vector<Duty> list;
    for (auto& [name, problem] : doing) {
      Duty duty{.name = kj::str(name.c_str()), .causedElsewhere = elsewhere && !problem.empty()};
      if (!problem.empty()) duty.problem = kj::str(problem.c_str());
      list.add(kj::mv(duty));
    }
    return kj::mv(list);
  }
  DutyScope dutyScope() override {
    DutyScope scope;
    scope.known = unregistered;
    scope.registered = !unregistered;
    return scope;
  }
  kj::Promise<void> saveDuties(const DutyRecord& duties) override {
    if (disk.full) return error(ErrorKind::kInternal, "STATE is full");
    return disk.write([&]() { disk.duties = decodeDuties(encodeDuties(duties)); });
  }
  kj::Promise<kj::Maybe<DutyRecord>> loadDuties() override {
    if (disk.unreadable) return error(ErrorKind::kInternal, "Input/output error");
    return disk.duties.map(
        [](DutyRecord& kept) { return KJ_ASSERT_NONNULL(decodeDuties(encodeDuties(kept))); });
  }
  kj::Promise<void> runSequence(kj::Function<kj::Promise<void>()> write) override {
    return write().attach(kj::mv(write));
  }
  kj::Promise<void> reboot(kj::StringPtr) override {
    ++reboots;
    return kj::READY_NOW;
  }
  void announce(kj::StringPtr line) override { said.push_back(line.cStr()); }

  kj::Promise<kj::Maybe<UpgradeRecord>> load() override {
    if (disk.unreadable) return error(ErrorKind::kInternal, "Input/output error");
    return copyOfRecord(disk.record);
  }
  kj::Promise<void> save(const UpgradeRecord& record) override {
    if (disk.full) return error(ErrorKind::kInternal, "STATE is full");
    return disk.save(record);
  }
  kj::Promise<void> writeTrialFailure(kj::StringPtr reason) override {
    if (disk.metaFails) return error(ErrorKind::kInternal, "no META");
    return disk.write([&]() { disk.trialFailure = kj::str(reason); });
  }
  kj::Promise<kj::Maybe<kj::String>> readTrialFailure() override {
    if (disk.metaFails) return error(ErrorKind::kInternal, "no META");
    return disk.trialFailure.map([](kj::String& reason) { return kj::str(reason); });
  }
  kj::Promise<void> clearTrialFailure() override {
    if (disk.failureStays) return error(ErrorKind::kInternal, "META stays");
    return disk.write([&]() { disk.trialFailure = nullptr; });
  }
  kj::Promise<kj::Maybe<kj::String>> readVersionFloor() override {
    if (disk.metaFails) return error(ErrorKind::kInternal, "no META");
    return disk.floor.map([](kj::String& version) { return kj::str(version); });
  }
  kj::Promise<void> writeVersionFloor(kj::StringPtr version) override {
    if (disk.metaFails) return error(ErrorKind::kInternal, "no META");
    return disk.write([&]() { disk.floor = kj::str(version); });
  }

  kj::Promise<void> requireSpare(bool preserve) override {
    return askEtcd(preserve ? "may restart" : "may leave");
  }
  kj::Promise<void> leave(bool preserve, bool force) override {
    // A node leaves before the boot loader's choice, or as a system that gives up.
    EXPECT_TRUE(disk.environment.attempt.orDefault(running) == running);
    return askEtcd(kj::str(force ? "forced " : "", preserve ? "restarts" : "leaves"));
  }
  kj::Promise<void> stay() override {
    etcdAsked.push_back("stays");
    return kj::READY_NOW;
  }
  kj::Promise<void> drain() override {
    etcdAsked.push_back("drains");
    whileDraining();
    return kj::READY_NOW;
  }
  void uncordon() override { ++uncordoned; }

  kj::Promise<void> askEtcd(kj::StringPtr what) {
    etcdAsked.push_back(what.cStr());
    KJ_IF_MAYBE (answer, whenAsked) return kj::mv(*answer);
    if (etcdRefuses != what.cStr()) return kj::READY_NOW;
    return error(ErrorKind::kUnavailable, "etcd has 1 voter");
  }
  kj::Maybe<UpgradeVolumes&> volumesAs(VolumesAs kind) {
    if (kind == VolumesAs::kPartitions) return partitions;
    if (kind == VolumesAs::kFolders) return folders;
    return nullptr;
  }

  void boot(kj::WaitScope& scope) { upgrader.resume().wait(scope); }
  std::string status() {
    KJ_IF_MAYBE (spec, store.tryGet<rpc::UpgradeStatusSpec>("node")) {
      return kj::str(spec->getStage(), " ", spec->getSlot(), " ", spec->getVersion(), ": ",
                     spec->getReason())
          .cStr();
    }
    return "none";
  }
  static FakeMachine& after(FakeMachine& machine, unsigned brains) {
    for (unsigned i = 0; i < brains; ++i) FakeProcess1 earlier(machine);
    return machine;
  }
  bool settled() { return machine.holds(process1::kSettled); }

  ModelDisk& disk;
  UpgradePartitions partitions;
  FolderVolumes folders;
  ModelRootSwitch root;
  Slot running;
  unsigned uncordoned = 0;
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  FakeMachine machine;
  FakeProcess1 process1;
  Registry registry;
  Store store{registry, kj::systemPreciseCalendarClock()};
  ModelPulls pulls{timer};
  ModelArchives archives;
  std::string lacks, networkLacks, key, verified, unsignedImage;
  std::vector<std::string> configKeys;  // that the config sets
  bool hopeless = false, elsewhere = false;
  bool unregistered = false;                 // the config keeps the node out of Kubernetes
  std::map<std::string, std::string> doing;  // duties with their problems
  std::string etcdRefuses;                   // the item of etcdAsked that is refused
  std::vector<std::string> etcdAsked;
  kj::Function<void()> whileDraining = []() {};
  kj::Maybe<kj::Promise<void>> whenAsked;  // the answer of etcd, once
  unsigned reboots = 0;
  std::vector<std::string> said;
  Upgrader upgrader;
};

struct UpgraderTest : testing::Test {
  ~UpgraderTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  ModelDisk disk;

  // Rolls the old system back to the one in slot B, up to its reboot.
  void rollBack(unsigned healthTimeoutS = 60) {
    System old(disk);
    old.boot(scope);
    EXPECT_TRUE(old.settled());
    old.upgrader.rollback(healthTimeoutS).wait(scope);
    scope.poll();
    EXPECT_EQ(old.reboots, 1u);
    EXPECT_EQ(old.status(), "rebooting A " + disk.versions[0] + ": ");
  }
  template <typename T>
  std::string problem(kj::Promise<T> promise) {
    return problem(promise.ignoreResult());
  }
  std::string problem(kj::Promise<void> promise) {
    std::string text;
    promise.catch_([&](kj::Exception&& e) { text = messageOf(e).cStr(); }).wait(scope);
    return text;
  }
};

}  // namespace talos::machined
