#include "machined/config/volume-keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machined/config/controllers/test-machine-config.h"
#include "machined/disk/encryption/test-model-luks.h"
#include "machined/disk/encryption/test-state-keys.h"
#include "machined/disk/volumes/test-volume-fakes.h"
#include "machined/resources/test-store.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

// Catches: a change of keys that hides where the volume is, or by which slot it was opened; keys of
// a volume that has not been examined yet; a failure that still shows keys; a volume that cannot be
// mounted and is reported as ready.
TEST(VolumeStatus, KeysAreAddedToWhatIsKnown) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  Registry registry;
  TestClock clock;
  Store store(registry, clock);
  StoredVolumeReports reports(store);
  auto keys = [] {
    KeysReport report;
    report.slots.addAll(std::initializer_list<unsigned>{0u, 5u});
    report.keys = kj::str("0 static, 5 nodeID");
    return report;
  };
  reports.reportKeys("STATE", keys());
  EXPECT_TRUE(store.tryGet<rpc::VolumeStatusSpec>("STATE") == nullptr);

  VolumeReport report;
  report.phase = VolumePhase::kReady;
  report.location = kj::str("/dev/vda5");
  report.mountLocation = kj::str("/dev/mapper/vda5-encrypted");
  report.fileSystem = kj::str("xfs");
  report.encrypted = true;
  report.slot = 5u;
  reports.report("STATE", report);
  reports.reportKeys("STATE", keys());
  auto shown = KJ_ASSERT_NONNULL(store.tryGet<rpc::VolumeStatusSpec>("STATE"));
  EXPECT_EQ(shown.getPhase(), "ready");
  EXPECT_EQ(shown.getLocation(), "/dev/vda5");
  EXPECT_EQ(shown.getMountLocation(), "/dev/mapper/vda5-encrypted");
  EXPECT_EQ(shown.getFilesystem(), "xfs");
  EXPECT_EQ(shown.getEncryptionProvider(), "luks2");
  EXPECT_EQ(shown.getEncryptionSlot(), "5");
  EXPECT_EQ(shown.getEncryptionKeys(), "0 static, 5 nodeID");
  ASSERT_EQ(shown.getEncryptionSlots().size(), 2u);
  EXPECT_EQ(shown.getEncryptionSlots()[1], 5u);

  reports.reportFailure("STATE", "/dev/vda5: Input/output error");
  auto broken = KJ_ASSERT_NONNULL(store.tryGet<rpc::VolumeStatusSpec>("STATE"));
  EXPECT_EQ(broken.getPhase(), "failed");
  EXPECT_EQ(broken.getErrorMessage(), "/dev/vda5: Input/output error");
  EXPECT_EQ(broken.getLocation(), "/dev/vda5");
  EXPECT_EQ(broken.getEncryptionKeys(), "0 static, 5 nodeID");

  VolumeReport failed;
  failed.phase = VolumePhase::kFailed;
  failed.error = kj::str("no key of the config opens /dev/vda5");
  reports.report("STATE", failed);
  auto after = KJ_ASSERT_NONNULL(store.tryGet<rpc::VolumeStatusSpec>("STATE"));
  EXPECT_EQ(after.getErrorMessage(), "no key of the config opens /dev/vda5");
  EXPECT_EQ(after.getEncryptionKeys(), "");
}

using Keys = std::map<unsigned, std::string>;

// Both volumes of a node, and one of a document.
struct TwoVolumes final : Luks {
  ModelLuks state, ephemeral, data;
  ModelLuks& at(kj::StringPtr device) {
    if (device == "/dev/vdb1") return data;
    return device == "/dev/vda5" ? state : ephemeral;
  }
  kj::Promise<Found> inspect(kj::StringPtr device) override { return at(device).inspect(device); }
  kj::Promise<void> format(kj::StringPtr device, const VolumeSettings& settings) override {
    return at(device).format(device, settings);
  }
  kj::Promise<kj::Maybe<Opened>> open(kj::StringPtr device, kj::StringPtr mapping,
                                      const VolumeSettings& settings) override {
    return at(device).open(device, mapping, settings);
  }
  kj::Promise<kj::Array<bool>> test(kj::StringPtr device,
                                    kj::ArrayPtr<const VolumeKey> keys) override {
    return at(device).test(device, keys);
  }
  kj::Promise<void> add(kj::StringPtr device, At key, At by) override {
    return at(device).add(device, key, by);
  }
  kj::Promise<void> remove(kj::StringPtr device, unsigned slot, At keeping) override {
    return at(device).remove(device, slot, keeping);
  }
  kj::Promise<void> settle(kj::StringPtr device) override { return at(device).settle(device); }
  kj::Promise<void> close(kj::StringPtr mapping) override { return state.close(mapping); }
  kj::Promise<Comparison> compare(kj::StringPtr device, kj::StringPtr file) override {
    return at(device).compare(device, file);
  }
  kj::Promise<void> mark(kj::StringPtr device, kj::StringPtr file) override {
    return at(device).mark(device, file);
  }
  kj::Promise<void> backup(kj::StringPtr device, kj::StringPtr file, Change change) override {
    return at(device).backup(device, file, change);
  }
  kj::Promise<void> restore(kj::StringPtr device, kj::StringPtr file,
                            const VolumeSettings& settings) override {
    return at(device).restore(device, file, settings);
  }
  kj::Promise<void> forget(kj::StringPtr file) override { return ephemeral.forget(file); }
  kj::Promise<kj::String> seal(const VolumeKey& key, kj::ArrayPtr<const kj::byte> secret) override {
    return state.seal(key, secret);
  }
  kj::Promise<Unsealed> unseal(const VolumeKey& key, kj::StringPtr userData) override {
    return state.unseal(key, userData);
  }
};

struct NoInstaller final : Installer {
  kj::Promise<bool> run(Fill) override { KJ_UNIMPLEMENTED("not in this test"); }
  kj::Promise<void> slots(Fill, Hear, int) override { KJ_UNIMPLEMENTED("not in this test"); }
};

// Returns a worker's config; "": not encrypted. STATE also has the machine's own key, without which
// the config is not valid.
kj::String configWith(kj::StringPtr state, kj::StringPtr ephemeral) {
  auto part = [](kj::StringPtr name, kj::StringPtr passphrase, kj::StringPtr more) {
    if (passphrase.size() == 0) return kj::String();
    auto key = passphrase == "uuid" ? kj::str("{nodeID: {}, slot: 0}")
                                    : kj::str("{static: {passphrase: ", passphrase, "}, slot: 0}");
    return kj::str("    ", name, ": {provider: luks2, keys: [", key, more,
                   ", {recovery: {}, slot: 7}]}\n");
  };
  return kj::str("version: v1alpha1\nmachine:\n  type: worker\n  token: aaaaaa.aaaaaaaaaaaaaaaa\n",
                 "  systemDiskEncryption:\n", part("state", state, ", {nodeID: {}, slot: 1}"),
                 part("ephemeral", ephemeral, ""),
                 "cluster:\n  token: bbbbbb.bbbbbbbbbbbbbbbb\n  controlPlane:\n",
                 "    endpoint: https://10.0.0.1:6443\n");
}

// Returns a document with these items of encryption.keys; "": the volume is plain.
std::string dataWith(const std::string& keys, const std::string& more = "") {
  auto encryption = keys.empty() ? "" : ", encryption: {provider: luks2, keys: [" + keys + "]}";
  return "---\n{apiVersion: v1alpha1, kind: UserVolumeConfig, name: data, provisioning: "
         "{diskSelector: {match: '!system_disk'}, maxSize: 10GiB}" +
         encryption + more + "}\n";
}
std::string staticKey(const std::string& passphrase, unsigned slot) {
  return "{static: {passphrase: " + passphrase + "}, slot: " + std::to_string(slot) + "}";
}

const std::string kOwn = "00112233-4455-6677-8899-aabbccddeeffSTATE";

struct VolumeKeysTest : testing::Test {
  ~VolumeKeysTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  MachineConfigReader reader;
  TwoVolumes luks;
  NoInstaller installer;
  ModelMarks marks;
  kj::String uuid = kj::str("00112233-4455-6677-8899-aabbccddeeff");
  ModelStateKeys stateKeys;
  IgnoredReports ignored;
  SystemPartitions partitions{{.luks = luks,
                               .stateKeys = stateKeys,
                               .installer = installer,
                               .marks = marks,
                               .mappings = []() { return kj::Vector<kj::String>(); },
                               .uuid = [this]() { return kj::str(uuid); },
                               .say = [](kj::StringPtr) {},
                               .reports = ignored,
                               .backups = []() -> kj::Maybe<kj::String> { return nullptr; }}};
  bool mapped = true, container = false, varIsMounted = true;
  std::string steps, swapProblem;
  std::string document;   // of the config to apply
  std::string atPersist;  // the keys of both at that moment
  Keys dataAtPersist;
  kj::Maybe<KnownConfig> staged;

  VolumeKeysTest() {
    for (auto volume : {&luks.state, &luks.ephemeral}) volume->content = Luks::Content::LUKS;
    runs("s", "e");
  }
  VolumeKeys keys() {
    return VolumeKeys({.store = store,
                       .reader = reader,
                       .partitions = partitions,
                       .mounted = [this](kj::StringPtr label) -> kj::Maybe<kj::String> {
                         if (label == kEphemeralName && !varIsMounted) return nullptr;
                         auto node = label == kStateName ? "vda5"_kj : "vda6"_kj;
                         return mapped ? kj::str("/dev/mapper/", node, "-encrypted")
                                       : kj::str("/dev/", node);
                       },
                       .ephemeralPartition = []() -> kj::Promise<kj::Maybe<kj::String>> {
                         return kj::Maybe<kj::String>(kj::str("vda6"));
                       },
                       .container = container,
                       .whySwapStays = [this](kj::StringPtr) -> kj::Maybe<kj::String> {
                         if (swapProblem.empty()) return nullptr;
                         return kj::str(swapProblem.c_str());
                       }});
  }
  void runs(kj::StringPtr state, kj::StringPtr ephemeral, const std::string& more = "") {
    auto text = kj::str(configWith(state, ephemeral), more.c_str());
    document = more;
    reader.know(knownConfig(text));
    putRecord<rpc::MachineConfigSpec>(store, kMachineConfigId,
                                      [&](auto spec) { spec.setDocument(text); });
    luks.state.slots = {{0, state.cStr()}, {1, kOwn}, {7, "kept"}};
    luks.ephemeral.slots = {{0, ephemeral.cStr()}, {7, "kept"}};
  }
  static std::string shown(const Keys& slots) {
    std::string text;
    for (auto& [slot, key] : slots) text += (key == kOwn ? "own" : key) + " ";
    return text;
  }
  std::string apply(kj::StringPtr state, kj::StringPtr ephemeral,
                    rpc::ApplyMode mode = rpc::ApplyMode::NO_REBOOT) {
    auto next = knownConfig(kj::str(configWith(state, ephemeral), document.c_str()));
    auto work = keys();
    atPersist.clear();
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   work.check(next.get(), mode);
                   work.persist(
                           next.get(), mode, staged.map([](KnownConfig& s) { return s.get(); }),
                           [&]() -> kj::Promise<void> {
                             atPersist =
                                 shown(luks.state.slots) + "/ " + shown(luks.ephemeral.slots);
                             dataAtPersist = luks.data.slots;
                             return kj::READY_NOW;
                           },
                           [&](kj::StringPtr line) { steps += line.cStr(); })
                       .wait(scope);
                 })) {
      return messageOf(*e).cStr();
    }
    return "";
  }
};

// Catches: a volume that is forgotten; a config that is stored before it opens both volumes, or
// after the previous config no longer opens one; old keys that stay with no-reboot, or are removed
// with a stage.
TEST_F(VolumeKeysTest, BothFollowTheConfigAroundTheMomentItIsStored) {
  EXPECT_EQ(apply("S", "E"), "");
  EXPECT_EQ(atPersist, "s own kept / e E kept ");
  EXPECT_EQ(luks.state.slots, (Keys{{0, "S"}, {1, kOwn}, {7, "kept"}}));
  EXPECT_EQ(luks.ephemeral.slots, (Keys{{0, "E"}, {7, "kept"}}));

  runs("s", "e");
  EXPECT_EQ(apply("S", "E", rpc::ApplyMode::STAGED), "");
  EXPECT_EQ(shown(luks.state.slots) + "/ " + shown(luks.ephemeral.slots), atPersist);
  EXPECT_EQ(atPersist, "s own kept / e E kept ");

  runs("s", "e");
  luks.ephemeral.slots = {{0, "of another machine"}};
  EXPECT_THAT(apply("S", "E"), testing::HasSubstr("no key of the config opens /dev/vda6"));
  EXPECT_EQ(atPersist, "") << "it was stored";
  EXPECT_EQ(luks.state.slots[0], "s");

  runs("s", "e");
  EXPECT_EQ(apply("s", "E"), "");
  EXPECT_EQ(atPersist, "s own kept / e E kept ");
  container = true;
  runs("s", "e");
  EXPECT_EQ(apply("S", "E"), "");
  EXPECT_EQ(atPersist, "s own kept / e kept ") << "these are the host's";
}

// Catches: an EPHEMERAL that is lost because its keys were changed while it was not mounted, after
// a failed boot; a config with the key that opens it, which is refused; a config that is stored
// twice, or although the disk has failed.
TEST_F(VolumeKeysTest, AnEphemeralThatIsNotMountedGetsItsKeysToo) {
  varIsMounted = false;
  EXPECT_EQ(apply("s", "E", rpc::ApplyMode::REBOOT), "");
  EXPECT_EQ(atPersist, "s own kept / e E kept ");
  EXPECT_EQ(shown(luks.ephemeral.slots), "e E kept ") << "the next boot removes the old one";
  EXPECT_THAT(steps, testing::Not(testing::HasSubstr("gets no new keys")));

  runs("s", "e");
  luks.ephemeral.slots = {{7, "R"}};
  EXPECT_EQ(apply("s", "R", rpc::ApplyMode::REBOOT), "");
  EXPECT_EQ(atPersist, "s own kept / R R ");
  luks.ephemeral.slots = {{7, "of another config"}};
  EXPECT_EQ(apply("s", "E", rpc::ApplyMode::REBOOT), "");
  EXPECT_EQ(atPersist, "s own kept / of another config ");
  EXPECT_THAT(steps, testing::HasSubstr("EPHEMERAL is not mounted and gets no new keys: "));
  EXPECT_THAT(steps, testing::HasSubstr("no key of the config opens /dev/vda6"));
}

// Catches: a config that is accepted although the next boot could not open a volume with it, or
// that changes nothing but its text.
TEST_F(VolumeKeysTest, WhatCannotBeIsRefusedBeforeAnythingChanges) {
  auto own = kj::mv(uuid);
  uuid = kj::str("00000000-0000-0000-0000-000000000000");
  for (auto mode : {rpc::ApplyMode::NO_REBOOT, rpc::ApplyMode::STAGED}) {
    EXPECT_THAT(apply("S", "e", mode), testing::HasSubstr("no key can be made of nodeID"));
    EXPECT_THAT(apply("", "uuid", mode), testing::HasSubstr("no key can be made of nodeID"));
  }
  mapped = false;  // a plain STATE, to be encrypted after a reset
  EXPECT_THAT(apply("S", "e", rpc::ApplyMode::STAGED),
              testing::HasSubstr("no key can be made of nodeID"));
  mapped = true;
  uuid = kj::mv(own);
  EXPECT_THAT(apply("", "e"), testing::HasSubstr("STATE is encrypted, which changes only"));
  EXPECT_THAT(apply("s", ""), testing::HasSubstr("EPHEMERAL is encrypted, which changes only"));
  EXPECT_EQ(atPersist, "");
  EXPECT_EQ(apply("s", "", rpc::ApplyMode::STAGED), "");
  EXPECT_EQ(luks.ephemeral.slots[0], "e");
}

// Catches: a slot that a staged config has, and the next boot would have, and that another change
// takes before the staged config is stored.
TEST_F(VolumeKeysTest, WhatWasStagedIsWhatTheNextBootHas) {
  EXPECT_EQ(apply("s", "E", rpc::ApplyMode::STAGED), "");
  for (unsigned slot = 0; slot < kKeySlots; ++slot) luks.ephemeral.slots.emplace(slot, "?");
  auto place = [&](const char* key) {
    for (auto& [slot, text] : luks.ephemeral.slots) {
      if (text == key) return slot;
    }
    return kKeySlots;
  };
  ASSERT_LT(place("E"), kKeySlots);
  staged = knownConfig(configWith("s", "E"));
  EXPECT_EQ(apply("s", "F"), "");
  EXPECT_THAT(atPersist, testing::HasSubstr(" E "));
  EXPECT_EQ(luks.ephemeral.slots[0], "F");
}

// Catches: stored keys that no header has, because a staged config does not encrypt the volume: the
// volume keeps the keys of the running config until then.
TEST_F(VolumeKeysTest, AStagedPlainVolumeHasItsKeysUntilThen) {
  for (auto mode : {rpc::ApplyMode::NO_REBOOT, rpc::ApplyMode::REBOOT}) {
    runs("s", "e");
    EXPECT_EQ(apply("s", "", rpc::ApplyMode::STAGED), "");
    staged = knownConfig(configWith("s", ""));
    EXPECT_EQ(apply("s", "E", mode), "");
    EXPECT_EQ(atPersist, "s own kept / e E kept ");
    staged = nullptr;
  }
}

// A mounted volume of the document with the key a at slot 0.
struct DataKeysTest : VolumeKeysTest {
  ~DataKeysTest() noexcept override {}
  DataKeysTest() {
    runs("s", "e", dataWith(staticKey("a", 0)));
    luks.data.content = Luks::Content::LUKS;
    luks.data.slots = {{0, "a"}};
    status("/dev/mapper/vdb1-encrypted", "luks2", "/var/mnt/data");
  }
  void status(kj::StringPtr node, kj::StringPtr provider, kj::StringPtr target) {
    putRecord<rpc::VolumeStatusSpec>(store, "u-data", [&](auto spec) {
      spec.setPhase(target.size() > 0 ? "ready" : "failed");
      spec.setLocation("/dev/vdb1");
      spec.setMountLocation(node);
      spec.setEncryptionProvider(provider);
      spec.setTarget(target);
      spec.setType("partition");
    });
  }
  std::string applyData(const std::string& data, rpc::ApplyMode mode = rpc::ApplyMode::NO_REBOOT) {
    document = data;
    return apply("s", "e", mode);
  }
};

// Catches: a volume that the next boot does not open, because the keys of the stored config are not
// in its header.
TEST_F(DataKeysTest, KeysFollowTheDocument) {
  EXPECT_EQ(applyData(dataWith(staticKey("b", 0))), "");
  EXPECT_EQ(dataAtPersist.size(), 2u) << "the new one is added before the config is stored";
  EXPECT_EQ(luks.data.slots, (Keys{{0, "b"}}));

  luks.data.slots = {{0, "a"}};
  document = dataWith(staticKey("b", 0));
  EXPECT_EQ(apply("S", "E"), "") << "the keys of all volumes";
  EXPECT_EQ(luks.data.slots, (Keys{{0, "b"}}));
  EXPECT_EQ(luks.ephemeral.slots[0], "E");
}

TEST_F(DataKeysTest, StagedKeysAreAdded) {
  EXPECT_EQ(applyData(dataWith(staticKey("b", 0)), rpc::ApplyMode::STAGED), "");
  EXPECT_EQ(luks.data.slots.size(), 2u);
  EXPECT_EQ(luks.data.slots[0], "a");
}

TEST_F(DataKeysTest, LockedVolumeStopsNoConfig) {
  status("", "luks2", "");
  luks.data.slots = {{0, "of another config"}};
  EXPECT_EQ(applyData(dataWith(staticKey("b", 0))), "");
  EXPECT_EQ(luks.data.slots, (Keys{{0, "of another config"}}));
  EXPECT_THAT(steps, testing::HasSubstr("u-data is not mounted and gets no new keys"));
  EXPECT_NE(atPersist, "");
}

// Catches: a change "in effect" after which the next boot refuses the volume.
TEST_F(DataKeysTest, VolumeInUseStaysEncryptedOrPlain) {
  EXPECT_THAT(applyData(dataWith("")),
              testing::HasSubstr("u-data is encrypted, which changes only with an empty partition; "
                                 "give the volume another name"));
  runs("s", "e", dataWith(""));
  status("/dev/vdb1", "", "/var/mnt/data");
  for (auto mode : {rpc::ApplyMode::NO_REBOOT, rpc::ApplyMode::STAGED}) {
    EXPECT_THAT(applyData(dataWith(staticKey("a", 0)), mode),
                testing::HasSubstr("u-data is not encrypted, which changes only"));
  }
  EXPECT_EQ(atPersist, "");
  EXPECT_THAT(applyData("---\n{apiVersion: v1alpha1, kind: UserVolumeConfig, name: data, "
                        "volumeType: directory}\n"),
              testing::HasSubstr("remove the document first"));
}

TEST_F(DataKeysTest, SwapThatDoesNotFitIntoMemoryKeepsItsDocument) {
  runs("s", "e",
       "---\n{apiVersion: v1alpha1, kind: SwapVolumeConfig, name: swap, provisioning: "
       "{diskSelector: {match: '!system_disk'}, maxSize: 1GiB}}\n");
  putRecord<rpc::VolumeStatusSpec>(store, "s-swap",
                                   [](auto spec) { spec.setMountLocation("/dev/vdb1"); });
  swapProblem = "too much";
  EXPECT_EQ(applyData(""),
            "SwapVolumeConfig[swap] cannot be removed now: too much; use mode reboot");
  EXPECT_EQ(applyData("", rpc::ApplyMode::REBOOT), "");
}

// Catches: a recovery key for the wrong volume.
TEST_F(VolumeKeysTest, ARecoveryKeyIsOfItsVolume) {
  auto made = keys().newRecoveryKey(kj::str("EPHEMERAL"), 7).wait(scope);
  EXPECT_EQ(luks.ephemeral.slots[7], made.cStr());
  EXPECT_EQ(luks.state.slots[7], "kept");
  made = keys().newRecoveryKey(kj::str("STATE"), 7).wait(scope);
  EXPECT_EQ(luks.state.slots[7], made.cStr());
  EXPECT_ANY_THROW(keys().newRecoveryKey(kj::str("META"), 7).wait(scope));
  mapped = false;
  EXPECT_ANY_THROW(keys().newRecoveryKey(kj::str("STATE"), 7).wait(scope));
}

}  // namespace
}  // namespace talos::machined
