// The choice of the volume STATE, and a machine whose STATE exists and cannot be mounted.
#include "machined/disk/volumes/state-volume.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/encoding.h>

#include <string>

#include "common/base/error.h"
#include "common/testing/test-tree.h"
#include "machined/disk/encryption/test-model-luks.h"
#include "machined/disk/encryption/test-state-keys.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/disk/volumes/test-volume-fakes.h"
#include "machined/process1/test-busy-thread-pool.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

Volume partition(kj::StringPtr name, FileSystem type, kj::StringPtr partitionName = "STATE") {
  Volume v;
  v.device.name = kj::str(name);
  v.device.disk = kj::heapString(name.slice(0, 3));
  v.device.whole = false;
  v.device.partitionName = kj::str(partitionName);
  v.content = Superblock{type, kj::str("STATE")};
  return v;
}

Volume copyOf(const Volume& v) {
  Volume copy = partition(v.device.name, FileSystem::kXfs, v.device.partitionName);
  copy.device.disk = kj::str(v.device.disk);
  copy.device.whole = v.device.whole;
  copy.device.readOnly = v.device.readOnly;
  copy.device.cdrom = v.device.cdrom;
  copy.content =
      v.content.map([](const Superblock& s) { return Superblock{s.type, kj::str(s.label)}; });
  copy.problem = kj::str(v.problem);
  return copy;
}

// A whole disk without partitions, which may have a label.
Volume disk(kj::StringPtr name, kj::StringPtr label = "") {
  Volume v;
  v.device.name = kj::str(name);
  v.device.disk = kj::str(name);
  if (label.size() > 0) v.content = Superblock{FileSystem::kXfs, kj::str(label)};
  return v;
}

struct ModelVolumes final : Volumes {
  kj::Function<kj::Vector<Volume>()> volumes;
  kj::Promise<kj::Vector<Volume>> look() override { return volumes(); }
  kj::Promise<kj::Vector<Volume>> lookIntoOpen() override { return kj::Vector<Volume>(); }
  kj::Promise<kj::Maybe<VolumeFiles>> read(kj::StringPtr, kj::Array<kj::String>, size_t,
                                           kj::Duration) override {
    KJ_UNIMPLEMENTED("not in this test");
  }
  kj::Promise<kj::Maybe<VolumeFiles>> readDisc(kj::String, size_t, kj::Duration) override {
    KJ_UNIMPLEMENTED("not in this test");
  }
};

// The installer's answer for every partition; "": it was empty, and now has a file system.
struct ModelInstaller final : Installer {
  kj::StringPtr refusal = "/dev/vdb1 is not empty, but has no readable file system";
  std::string formatted;
  kj::Promise<void> slots(Fill, Hear, int) override { KJ_UNIMPLEMENTED("not in this test"); }
  kj::Promise<bool> run(Fill fill) override {
    capnp::MallocMessageBuilder message;
    auto request = message.initRoot<rpc::InstallRequest>();
    fill(request);
    if (refusal.size() > 0) fail(ErrorKind::kFailedPrecondition, refusal);
    auto format = request.asReader().getFormat();
    formatted = std::string(format.getDevice().cStr()) + " " + format.getLabel().cStr() + " " +
                std::to_string(format.getEmpty());
    return true;
  }
};

struct StateVolumeTest : testing::Test, IgnoredReports {
  ~StateVolumeTest() noexcept override {}
  enum class Config { kUnknown, kPlain, kEncrypted };
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  TestTree tree;
  ModelVolumes volumes;
  ModelInstaller installer;
  ModelLuks luks;
  ModelMarks marks;
  std::vector<std::string> mappings;
  ModelStateKeys stateKeys;
  StateOn on = StateOn::kDisk;
  Config config = Config::kUnknown;
  unsigned looks = 0;
  std::string said, phases, broken;
  bool locked = false;
  SystemPartitions partitions{
      {.luks = luks,
       .stateKeys = stateKeys,
       .installer = installer,
       .marks = marks,
       .mappings =
           [this]() {
             kj::Vector<kj::String> names;
             for (auto& name : mappings) names.add(kj::str(name.c_str()));
             return names;
           },
       .uuid = []() { return kj::str("00112233-4455-6677-8899-aabbccddeeff"); },
       .say = [this](kj::StringPtr line) { said += std::string(line.cStr()) + "\n"; },
       .reports = *this,
       .backups = []() -> kj::Maybe<kj::String> { return nullptr; }}};
  void report(kj::StringPtr label, const VolumeReport& report) override {
    phases += std::string(label.cStr()) + " " + nameOf(report.phase).cStr() + "\n";
  }
  void reportFailure(kj::StringPtr label, kj::StringPtr problem) override {
    broken += kj::str(label, ": ", problem, "\n").cStr();
  }

  // Returns the result of mounting: "" if the boot continues, otherwise the error.
  template <typename... V>
  std::string mount(V... list) {
    volumes.volumes = [&]() {
      ++looks;
      kj::Vector<Volume> all;
      (all.add(copyOf(list)), ...);
      return all;
    };
    StateVolume state(
        uv, io.provider->getTimer(), volumes, partitions, on,
        [this](kj::StringPtr line) { said += std::string(line.cStr()) + "\n"; }, tree.root);
    std::string text;
    capnp::MallocMessageBuilder message;
    auto how = message.initRoot<config::Encryption>();
    auto key = how.initKeys(1)[0];
    key.initStatic().setPassphrase("secret");
    how.initOptions(1).set(0, kReadableInMeta);
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   state.mount().wait(io.waitScope);
                   locked = state.lockedProblem() != nullptr;
                   if (config == Config::kPlain) state.mountWith(nullptr).wait(io.waitScope);
                   if (config == Config::kEncrypted)
                     state.mountWith(how.asReader()).wait(io.waitScope);
                 })) {
      text = messageOf(*e).cStr();
    }
    return text;
  }
  static Volume unknown(kj::StringPtr name) {
    auto volume = partition(name, FileSystem::kXfs);
    volume.content = nullptr;
    return volume;
  }
};

// Catches: an installation that never ends, because an attempt was cut off on another disk, or
// because another disk does not answer.
TEST(FindState, OfAnInstallationIsOnItsDisk) {
  kj::Vector<Volume> all;
  all.add(partition("vda5", FileSystem::kXfs, "STATE.unfinished"));
  all.add(partition("vdb5", FileSystem::kXfs, "STATE.unfinished"));
  all.add(disk("vdc"));
  all.back().problem = kj::str("did not respond within 10 s");
  EXPECT_EQ(KJ_ASSERT_NONNULL(findState(all, "STATE.unfinished", "vdb"_kj)).device.name, "vdb5");
  EXPECT_TRUE(findState(all, "STATE", "vdb"_kj) == nullptr);
  EXPECT_ANY_THROW(findState(all, "STATE.unfinished"));
  EXPECT_ANY_THROW(findState(all, "STATE", "vdc"_kj));
}

// Catches: a configured node whose disk cannot be mounted, and that is taken for a new node, which
// accepts a config from anyone; a volume that is reported as ready and is not mounted.
TEST_F(StateVolumeTest, AMountThatFailsEndsTheBoot) {
  EXPECT_THAT(mount(partition("absent1", FileSystem::kXfs)),
              HasSubstr("cannot mount /dev/absent1 (xfs): "));
  EXPECT_THAT(broken, HasSubstr("STATE: cannot mount /dev/absent1 (xfs): "));
}

// Catches: an unusable STATE without which the machine continues.
TEST_F(StateVolumeTest, AnUnfitOneEndsTheBoot) {
  luks.content = Luks::Content::OTHER;
  EXPECT_THAT(mount(unknown("vdb1")),
              HasSubstr("STATE: /dev/vdb1 is not empty, but has no readable file system"));
  EXPECT_THAT(mount(partition("vdb1", FileSystem::kVfat)), HasSubstr("/dev/vdb1 has no file own"));
  auto locked = partition("vdb1", FileSystem::kXfs);
  locked.device.readOnly = true;
  EXPECT_THAT(mount(kj::mv(locked)), HasSubstr("/dev/vdb1 is read-only"));
}

// Catches: an empty partition that gets no file system or another name, or is not verified to its
// end; the boot must not continue without it. A partition that is formatted before its encryption
// is known.
TEST_F(StateVolumeTest, AnEmptyOneGetsAFileSystem) {
  installer.refusal = "";
  EXPECT_EQ(mount(unknown("absent1")), "");
  EXPECT_EQ(installer.formatted, "");
  EXPECT_FALSE(locked);
  config = Config::kPlain;
  EXPECT_THAT(mount(unknown("absent1")), HasSubstr("cannot mount /dev/absent1 (xfs): "));
  EXPECT_EQ(installer.formatted, "/dev/absent1 STATE 0");
  EXPECT_THAT(said, HasSubstr("/dev/absent1 was empty"));
  EXPECT_EQ(luks.steps, "");
  config = Config::kEncrypted;
  EXPECT_THAT(mount(unknown("absent1")),
              HasSubstr("cannot mount /dev/mapper/absent1-encrypted (xfs): "));
  EXPECT_EQ(installer.formatted, "/dev/mapper/absent1-encrypted STATE 1048576");
  EXPECT_EQ(luks.steps, "format, settle");
}

// Catches: a partition that stays unmountable for ever after an interrupted mkfs; a partition that
// is formatted again before its encryption is known; the mark of an attempt to install that is
// followed.
TEST_F(StateVolumeTest, AnUnfinishedOneIsMadeAnew) {
  installer.refusal = "";
  marks.marks["STATE"] = 0;
  EXPECT_EQ(mount(partition("absent1", FileSystem::kXfs)), "");
  EXPECT_EQ(installer.formatted, "");
  EXPECT_FALSE(locked);
  EXPECT_THAT(said, HasSubstr("/dev/absent1 was left unfinished, and there is no config yet"));
  config = Config::kPlain;
  EXPECT_THAT(mount(partition("absent1", FileSystem::kXfs)),
              HasSubstr("cannot mount /dev/absent1"));
  EXPECT_EQ(installer.formatted, "/dev/absent1 STATE 0");
  EXPECT_TRUE(marks.marks.empty());
  installer.formatted.clear();
  EXPECT_THAT(mount(partition("absent1", FileSystem::kXfs)),
              HasSubstr("cannot mount /dev/absent1"));
  EXPECT_EQ(installer.formatted, "");
}

// Catches: a mapping that a dead brain has left, which keeps its disk in use, so that no
// installation or reset could write to it; a foreign mapping that is closed; a mapping in use that
// ends the shutdown.
TEST_F(StateVolumeTest, WhatAPredecessorHasOpenedIsClosed) {
  mappings = {"vda5-encrypted", "vg-data", "vda6-encrypted"};
  luks.inUse = "vda6-encrypted";
  auto print = [this](kj::StringPtr line) { said += line.cStr(); };
  auto& timer = io.provider->getTimer();
  StateVolume state(uv, timer, volumes, partitions, StateOn::kDisk, print, tree.root);
  state.unmount().wait(io.waitScope);
  EXPECT_EQ(luks.closed, "vda5-encrypted");
  EXPECT_EQ(said, "");
  luks.inUse.clear();
  EphemeralVolume ephemeral(uv, timer, volumes, installer, partitions, print, tree.root);
  ephemeral.unmount().wait(io.waitScope);
  EXPECT_EQ(luks.closed, "vda5-encrypted vda5-encrypted vda6-encrypted");
}

// Catches: an encrypted STATE that is taken for a missing one, so that anyone can give the machine
// a config; that is opened or formatted although it must not be, or gets a file system again.
TEST_F(StateVolumeTest, AnEncryptedOneWaitsForTheConfig) {
  luks.content = Luks::Content::LUKS;
  luks.slots = {{0, "secret"}};
  auto encrypted = [] { return partition("vdb1", FileSystem::kLuks); };
  EXPECT_EQ(mount(encrypted()), "");
  EXPECT_TRUE(locked);
  EXPECT_EQ(phases, "STATE waiting\n");
  EXPECT_EQ(luks.mapped, "");
  // Only the machine's own key needs no config.
  luks.slots = {{7, "00112233-4455-6677-8899-aabbccddeeffSTATE"}, {0, "secret"}};
  phases.clear();
  EXPECT_THAT(mount(encrypted()), HasSubstr("cannot mount /dev/mapper/vdb1-encrypted (xfs): "));
  EXPECT_EQ(phases, "STATE ready\n");
  EXPECT_EQ(luks.slots.size(), 2u) << "a key was changed before there is a config";
  luks.slots = {{0, "secret"}};
  luks.mapped.clear();
  // Its first header is damaged, its second one is not.
  EXPECT_EQ(mount(unknown("vdb1")), "");
  EXPECT_TRUE(locked);

  config = Config::kPlain;
  EXPECT_EQ(mount(encrypted()),
            "STATE: /dev/vdb1 is encrypted, but the config has no machine.systemDiskEncryption for "
            "it");
  config = Config::kEncrypted;
  phases.clear();
  EXPECT_THAT(mount(encrypted()), HasSubstr("cannot mount /dev/mapper/vdb1-encrypted (xfs): "));
  EXPECT_EQ(phases, "STATE waiting\nSTATE ready\n");
  EXPECT_EQ(installer.formatted, "");
  EXPECT_EQ(luks.steps, "");
  // Keys of a config that may not be the stored one.
  luks.slots = {{0, "secret"}, {4, "the stored config's"}};
  EXPECT_THAT(mount(encrypted()), HasSubstr("cannot mount /dev/mapper/vdb1-encrypted (xfs): "));
  EXPECT_EQ(luks.steps, "");
  luks.slots = {{0, "another"}};
  EXPECT_THAT(mount(encrypted()), HasSubstr("STATE: no key of the config opens /dev/vdb1"));
  EXPECT_EQ(luks.steps, "");
}

// Catches: a foreign volume that is used because of a label, which anyone can set.
TEST_F(StateVolumeTest, ALabelIsNotEnough) {
  EXPECT_EQ("", mount(disk("vdb", "STATE"), partition("vdc1", FileSystem::kXfs, "state")));
  EXPECT_THAT(said, HasSubstr("STATE: no such partition"));
}

// Catches: a configured node that takes itself for a new one, and accepts a config from anyone,
// because its disk did not appear; a cut installation that cannot be started again.
TEST_F(StateVolumeTest, ASystemFromADiskHasOne) {
  on = StateOn::kOwnDisk;
  EXPECT_THAT(mount(disk("vdb")), HasSubstr("STATE: no such partition, though this system was "
                                            "started from a disk that has one"));
  EXPECT_EQ("", mount(partition("vda5", FileSystem::kXfs, "STATE.unfinished")));
  EXPECT_THAT(said, HasSubstr("STATE: no such partition"));
}

// Catches: a choice between two STATEs, even if one of them cannot be mounted.
TEST_F(StateVolumeTest, OfTwoNone) {
  auto both = mount(partition("vda5", FileSystem::kXfs), partition("vdb1", FileSystem::kVfat));
  EXPECT_THAT(both, HasSubstr("/dev/vda5"));
  EXPECT_THAT(both, HasSubstr("/dev/vdb1"));
  EXPECT_THAT(both, HasSubstr("more than one partition is named STATE"));
}

// Catches: a slow or dying disk that may have a STATE, and that turns a configured node into one
// without a config.
TEST_F(StateVolumeTest, ADiskThatCouldNotBeLookedAtMayHaveIt) {
  auto slow = disk("vdb");
  slow.problem = kj::str("did not respond within 10 s");
  EXPECT_EQ("STATE: not found, and may be on /dev/vdb, which did not respond within 10 s",
            mount(disk("vda"), kj::mv(slow)));
  // An empty drive, or a partition of another name, is no such disk.
  auto disc = disk("sr0"), other = partition("vda1", FileSystem::kXfs, "DATA");
  disc.device.cdrom = true;
  disc.problem = kj::str("cannot be read: Input/output error");
  other.problem = kj::str("cannot be read: Input/output error");
  EXPECT_EQ("", mount(kj::mv(other), kj::mv(disc)));
  auto unreadable = partition("vdb1", FileSystem::kXfs);
  unreadable.problem = kj::str("cannot be read: Input/output error");
  EXPECT_EQ("STATE: /dev/vdb1 cannot be read: Input/output error", mount(kj::mv(unreadable)));
}

// Catches: a half-written copy of the config, left by a power cut, that stays on STATE for ever.
TEST_F(StateVolumeTest, WhatWasLeftHalfWrittenIsRemoved) {
  tree.file("config.yaml", "machine: {}", 0600);
  tree.file("config.yaml.unfinished-aB3xY9", "machine: {token: geh");
  tree.file("config.yaml.backup2", "kept");
  tree.directory("folder.unfinished-aB3xY9");
  EXPECT_EQ("", mount());
  EXPECT_TRUE(tryReadFile(tree.at("config.yaml.unfinished-aB3xY9")) == nullptr);
  EXPECT_EQ("machine: {}", readFile(tree.at("config.yaml")));
  EXPECT_EQ("kept", readFile(tree.at("config.yaml.backup2")));
  EXPECT_EQ(0, access(tree.at("folder.unfinished-aB3xY9").cStr(), F_OK));
}

// Catches: a container that uses a disk of its host, or reads its content; a half-written copy that
// stays because no disk was mounted.
TEST_F(StateVolumeTest, AContainerHasWhatItsLauncherMounted) {
  on = StateOn::kLauncher;
  tree.file("config.yaml.unfinished-aB3xY9", "machine: {token: geh");
  EXPECT_EQ("", mount(partition("vda5", FileSystem::kXfs)));
  EXPECT_EQ(0u, looks);
  EXPECT_THAT(said, HasSubstr("nothing is mounted at "));
  EXPECT_TRUE(tryReadFile(tree.at("config.yaml.unfinished-aB3xY9")) == nullptr);
}

// Catches: a boot that ends because the network, or the key server, is not up yet, or that does not
// search other sources for keys meanwhile; a server that is called without a pause, or only once.
TEST_F(StateVolumeTest, AKeyServerIsAskedAgain) {
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  EncryptionRequest kms({{0, "%"}});
  auto text = stateKeysText(kms.root.asReader());
  stateKeys.text = std::string(text.asChars().begin(), text.size());
  luks.content = Luks::Content::LUKS;
  luks.slots = {{0, "sealed"}};
  luks.tokens = {{0, "{\"sealedData\":0}"}};
  luks.kmsProblem = "no answer";
  volumes.volumes = []() {
    kj::Vector<Volume> all;
    all.add(partition("vda5", FileSystem::kLuks));
    return all;
  };
  StateVolume state(
      uv, timer, volumes, partitions, StateOn::kDisk,
      [this](kj::StringPtr line) { said += std::string(line.cStr()) + "\n"; }, tree.root);
  EXPECT_TRUE(state.untilOpened() == nullptr);
  auto pass = [&](kj::Promise<void>& promise, unsigned seconds) {
    for (unsigned i = 0; i < seconds && !promise.poll(io.waitScope); ++i) {
      timer.advanceTo(timer.now() + 1 * kj::SECONDS);
    }
  };
  auto mounting = state.mount();
  pass(mounting, 40);
  mounting.wait(io.waitScope);
  EXPECT_GE(luks.kmsAsked, 5u);
  EXPECT_LE(luks.kmsAsked, 12u);
  EXPECT_EQ("STATE is encrypted, and its key server has not opened it",
            kj::str(KJ_ASSERT_NONNULL(state.lockedProblem())));
  luks.kmsAsked = 0;
  auto opening = KJ_ASSERT_NONNULL(state.untilOpened());
  EXPECT_THAT(said, HasSubstr("its key server has not opened it; retrying"));
  pass(opening, 600);
  EXPECT_FALSE(opening.poll(io.waitScope));
  EXPECT_GE(luks.kmsAsked, 10u);
  EXPECT_LE(luks.kmsAsked, 16u);
  // It is opened, but cannot be mounted here.
  luks.kmsProblem.clear();
  luks.secrets["{\"sealedData\":0}"] = std::string(32, 's');
  auto& secret = luks.secrets["{\"sealedData\":0}"];
  luks.slots[0] = kj::encodeBase64(kj::arrayPtr(secret.data(), 32).asBytes()).cStr();
  timer.advanceTo(timer.now() + 60 * kj::SECONDS);
  auto failure = kj::runCatchingExceptions([&] { opening.wait(io.waitScope); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
              HasSubstr("cannot mount /dev/mapper/vda5-encrypted"));
  EXPECT_TRUE(state.untilOpened() == nullptr);
}

// Catches: a disk that hangs after it was mounted, and hangs the boot.
TEST_F(StateVolumeTest, WhatHangsIsNotWaitedFor) {
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  volumes.volumes = []() { return kj::Vector<Volume>(); };
  StateVolume state(
      uv, timer, volumes, partitions, StateOn::kDisk,
      [this](kj::StringPtr line) { said += line.cStr(); }, tree.root);
  HeldPool hanging(uv);
  auto mounting = state.mount();
  EXPECT_FALSE(mounting.poll(io.waitScope));
  timer.advanceTo(timer.now() + 60 * kj::SECONDS);
  ASSERT_TRUE(mounting.poll(io.waitScope));
  mounting.wait(io.waitScope);
  EXPECT_THAT(said, HasSubstr("cannot remove unfinished files: timed out after 60 s"));
}

}  // namespace
}  // namespace talos::machined
