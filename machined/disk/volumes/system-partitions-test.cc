#include "machined/disk/volumes/system-partitions.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machined/disk/encryption/test-model-luks.h"
#include "machined/disk/encryption/test-state-keys.h"
#include "machined/disk/volumes/test-volume-fakes.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;
using testing::Not;
using Keys = std::map<unsigned, std::string>;

constexpr kj::StringPtr kDiskUuid = "00112233-4455-6677-8899-aabbccddeeff"_kj;
constexpr kj::StringPtr kEphemeralMapping = "/dev/mapper/vda6-encrypted"_kj;
const std::string kEphemeralKey = "00112233-4455-6677-8899-aabbccddeeffEPHEMERAL";

struct NoInstaller final : Installer {
  kj::Promise<bool> run(Fill) override { KJ_UNIMPLEMENTED("not in this test"); }
  kj::Promise<void> slots(Fill, Hear, int) override { KJ_UNIMPLEMENTED("not in this test"); }
};

struct SystemPartitionsTest : testing::Test, IgnoredReports {
  ~SystemPartitionsTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  ModelLuks luks;
  ModelStateKeys stateKeys;
  NoInstaller installer;
  ModelMarks marks;
  std::string said, keys, steps, reported;
  unsigned persisted = 0;
  SystemPartitions partitions{
      {.luks = luks,
       .stateKeys = stateKeys,
       .installer = installer,
       .marks = marks,
       .mappings = []() { return kj::Vector<kj::String>(); },
       .uuid = []() { return kj::str(kDiskUuid); },
       .say = [this](kj::StringPtr line) { said += line.cStr(); },
       .reports = *this,
       .backups = []() -> kj::Maybe<kj::String> { return kj::str("/backups"); }}};

  void report(kj::StringPtr, const VolumeReport& report) override {
    reported = report.error.cStr();
  }
  void reportKeys(kj::StringPtr, const KeysReport& report) override { keys = report.keys.cStr(); }

  SystemPartitionsTest() {
    luks.content = Luks::Content::LUKS;
    luks.slots = {{0, "a"}};
  }
  // Returns "" on success.
  std::string change(kj::StringPtr node, Encryption before, Encryption after,
                     KeyChangeExtent extent = KeyChangeExtent::kWhole) {
    persisted = 0;
    luks.steps.clear();
    auto failure = kj::runCatchingExceptions([&]() {
      partitions
          .change(
              kj::str(node), "EPHEMERAL", before, after, extent,
              [&]() -> kj::Promise<void> {
                ++persisted;
                return kj::READY_NOW;
              },
              [&](kj::StringPtr step) { steps += std::string(step.cStr()) + "\n"; })
          .wait(scope);
    });
    KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
    return "";
  }
  static Volume encrypted() {
    Volume volume;
    volume.device.name = kj::str("vda6");
    volume.content = Superblock{FileSystem::kLuks, kj::str()};
    return volume;
  }
  std::string putRight(kj::StringPtr node, Encryption how) {
    said.clear();
    luks.steps.clear();
    luks.calls = 0;
    partitions.putRight(kj::str(node), "EPHEMERAL", how).wait(scope);
    return said;
  }
};

// Catches: an unusable partition about which the API shows nothing.
TEST_F(SystemPartitionsTest, WhatIsRefusedIsReported) {
  kj::Vector<Volume> all;
  EXPECT_TRUE(partitions.find(all, "EPHEMERAL", "EPHEMERAL") == nullptr);
  auto& volume = all.add();
  volume.device.name = kj::str("vda6");
  volume.device.partitionName = kj::str("EPHEMERAL");
  volume.problem = kj::str("cannot be read: Input/output error");
  EXPECT_EQ("", reported);
  EXPECT_THROW(partitions.find(all, "EPHEMERAL", "EPHEMERAL"), kj::Exception);
  EXPECT_EQ("EPHEMERAL: /dev/vda6 cannot be read: Input/output error", reported);
  volume.problem = kj::String();
  EXPECT_TRUE(partitions.find(all, "EPHEMERAL", "EPHEMERAL") != nullptr);
}

// Catches: a boot, a change of keys or a recovery key that fails because the table of keys cannot
// be made.
TEST_F(SystemPartitionsTest, NothingDependsOnTheTable) {
  EncryptionRequest a({{0, "a"}}), b({{0, "b"}}), recoverable({{0, "a"}, {4, "*"}});
  auto failLast = [&](const char* what, kj::Function<void()> work) {
    luks.failAt = 0;
    for (auto before = luks.slots; luks.failAt == 0; luks.slots = before) {
      work();  // the first one leaves a backup
      luks.slots = before;
      luks.calls = 0;
      work();
      luks.failAt = luks.calls;
    }
    luks.calls = 0;
    said.clear();
    work();
    EXPECT_THAT(said, HasSubstr("warning: EPHEMERAL: which keys its header has is not known"))
        << what;
    luks.failAt = 0;
  };
  failLast("boot", [&]() { partitions.prepare(encrypted(), "EPHEMERAL", a.get()).wait(scope); });
  std::string made;
  failLast("recovery key", [&]() {
    made = partitions.newRecoveryKey(kj::str(kEphemeralMapping), "EPHEMERAL", recoverable.get(), 4)
               .wait(scope)
               .cStr();
  });
  EXPECT_EQ(luks.slots[4], made);
  failLast("change", [&]() { EXPECT_EQ(change(kEphemeralMapping, a.get(), b.get()), ""); });
  EXPECT_THAT(said, Not(HasSubstr("not all in place")));
}

// Catches: an explicit default that counts as a change, for which a volume must be reset.
TEST_F(SystemPartitionsTest, ADefaultIsNoChange) {
  EncryptionRequest plain({{0, "a"}}), written({{0, "a"}}), other({{0, "a"}});
  written.root.setKeySize(512);
  written.root.setBlockSize(512);
  other.root.setKeySize(256);
  EXPECT_EQ(change(kEphemeralMapping, plain.get(), written.get()), "");
  EXPECT_EQ(change(kEphemeralMapping, written.get(), plain.get()), "");
  EXPECT_THAT(change(kEphemeralMapping, plain.get(), other.get()),
              HasSubstr("keySize and blockSize take"));
}

// Catches: a stored config whose keys are not in the header, or the reverse; a config that encrypts
// a mounted partition, or makes it plain, without an effect.
TEST_F(SystemPartitionsTest, KeysChangeWithTheConfig) {
  EncryptionRequest a({{0, "a"}}), b({{0, "b"}, {3, ""}});
  EXPECT_EQ(change(kEphemeralMapping, a.get(), b.get()), "");
  EXPECT_EQ(luks.slots, (Keys{{0, "b"}, {3, kEphemeralKey}}));
  EXPECT_EQ(persisted, 1u);
  EXPECT_EQ(keys, "0 static, 3 nodeID");
  EXPECT_THAT(steps, HasSubstr("adding the key of slot 3 to /dev/vda6\nverifying"));
  EXPECT_EQ(change(kEphemeralMapping, b.get(), b.get()), "");
  EXPECT_EQ(luks.steps, "");
  EXPECT_EQ(persisted, 1u);

  EXPECT_EQ(change(kEphemeralMapping, b.get(), a.get(), KeyChangeExtent::kUntilPersisted), "");
  EXPECT_EQ(luks.slots, (Keys{{0, "b"}, {1, "a"}, {3, kEphemeralKey}}));
  EXPECT_EQ(persisted, 1u);

  luks.slots = {{0, "?"}};
  EXPECT_THAT(change(kEphemeralMapping, a.get(), b.get()),
              HasSubstr("no key of the config opens /dev/vda6"));
  EXPECT_EQ(persisted, 0u);
  struct Row {
    kj::StringPtr node;
    Encryption before, after;
  };
  for (auto& row :
       {Row{kEphemeralMapping, a.get(), nullptr}, Row{"/dev/vda6"_kj, nullptr, b.get()}}) {
    EXPECT_THAT(change(row.node, row.before, row.after),
                HasSubstr("changes only with an empty partition"));
    EXPECT_EQ(persisted, 0u);
    EXPECT_EQ(change(row.node, row.before, row.after, KeyChangeExtent::kUntilPersisted), "");
    EXPECT_EQ(persisted, 1u);
  }
  // It waits for its partition to be emptied; other changes do not concern it.
  EXPECT_EQ(change("/dev/vda6", a.get(), b.get()), "");
  EXPECT_EQ(persisted, 1u);
  EXPECT_EQ(change("/dev/vda6", nullptr, nullptr), "");
  EXPECT_EQ(persisted, 1u);
  EXPECT_EQ(luks.slots, (Keys{{0, "?"}}));
}

// Catches: a change that fails after its config was stored and counts as not applied: the previous
// config, applied again, would have no key that opens the volume.
TEST_F(SystemPartitionsTest, WhatIsStoredIsInForce) {
  EncryptionRequest a({{0, "a"}}), b({{0, "b"}});
  unsigned stored = 0;
  for (unsigned at = 1; at < 30; ++at) {
    SCOPED_TRACE(at);
    luks.slots = {{0, "a"}};
    luks.calls = 0;
    luks.failAt = at;
    auto said = change(kEphemeralMapping, a.get(), b.get());
    EXPECT_EQ(said.empty(), persisted == 1) << said;
    stored += persisted;
    auto opens = [&](const char* key) {
      for (auto& slot : luks.slots) {
        if (slot.second == key) return true;
      }
      return false;
    };
    EXPECT_TRUE(opens(persisted == 1 ? "b" : "a"));
  }
  EXPECT_GT(stored, 20u);
  EXPECT_LT(stored, 29u);
  luks.failAt = 0;
}

// Catches: a volume that was opened without its config and keeps its keys; a boot that fails
// because of them; a mismatch that is not reported.
TEST_F(SystemPartitionsTest, WhatWasOpenedEarlyGetsItsKeys) {
  EncryptionRequest wanted({{0, "b"}, {4, ""}}), wrong({{0, "x"}});
  luks.slots = {{0, kEphemeralKey}, {9, "old"}};
  EXPECT_EQ(putRight(kEphemeralMapping, wanted.get()), "") << "a predecessor has opened it";
  EXPECT_EQ(luks.steps, "");
  partitions.prepareEarly(encrypted(), "EPHEMERAL").wait(scope);
  EXPECT_EQ(putRight(kEphemeralMapping, wanted.get()), "");
  EXPECT_EQ(luks.slots, (Keys{{0, "b"}, {4, kEphemeralKey}}));
  EXPECT_THAT(putRight(kEphemeralMapping, wrong.get()),
              HasSubstr("no key of the config opens /dev/vda6"));
  EXPECT_EQ(luks.slots, (Keys{{0, "b"}, {4, kEphemeralKey}}));
  EXPECT_THAT(putRight(kEphemeralMapping, nullptr), HasSubstr("is encrypted, although the config"));
  EXPECT_THAT(putRight("/dev/vda6", wanted.get()), HasSubstr("/dev/vda6 is not encrypted"));
  EXPECT_EQ(putRight("/dev/vda6", nullptr), "");
  EXPECT_EQ(luks.calls, 0u);
}

// Catches: a config that has only opened the volume and whose keys replace those of the stored
// config; removal of the key without which the next boot could not open it.
TEST_F(SystemPartitionsTest, WhatAnotherConfigHasOpenedKeepsItsKeys) {
  EncryptionRequest source({{0, "a"}}), stored({{3, "b"}}), both({{0, "a"}, {3, "b"}});
  luks.slots = {{0, "a"}, {3, "b"}, {9, "old"}};
  auto all = luks.slots;
  partitions.prepare(encrypted(), "EPHEMERAL", source.get(), KeyCare::kLeave).wait(scope);
  EXPECT_EQ(luks.slots, all);
  EXPECT_THAT(putRight(kEphemeralMapping, stored.get()),
              HasSubstr("opened with the keys of another config than the one that is stored"));
  EXPECT_EQ(luks.slots, all);
  EXPECT_EQ(keys, "0 unknown, 3 static, 9 unknown");
  partitions.prepare(encrypted(), "EPHEMERAL", both.get(), KeyCare::kLeave).wait(scope);
  EXPECT_EQ(putRight(kEphemeralMapping, both.get()), "");
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}, {3, "b"}}));
  // Without a choice they are put right at once.
  luks.slots[9] = "old";
  partitions.prepare(encrypted(), "EPHEMERAL", both.get()).wait(scope);
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}, {3, "b"}}));
}

// Catches: a machine with another UUID, for example after a new mainboard, that is opened by its
// recovery key and needs the source for ever; a cut in between after which neither the machine nor
// the source opens it; a recovery key that is lost by its use.
TEST_F(SystemPartitionsTest, WhatARecoveryKeyHasOpenedIsTheMachinesAgain) {
  EncryptionRequest stored({{0, "b"}, {1, ""}, {7, "*"}});
  EncryptionRequest recovering({{7, "recovery"}}), sameSlot({{0, "a"}}), common({{5, "b"}});
  struct Row {
    EncryptionRequest& source;
    std::string opener;
    Keys before, after;
  };
  for (auto& row :
       {Row{recovering,
            "recovery",
            {{0, "b"}, {1, "old"}, {7, "recovery"}},
            {{0, "b"}, {1, kEphemeralKey}, {7, "recovery"}}},
        Row{sameSlot, "a", {{0, "a"}, {1, "old"}}, {{0, "b"}, {1, kEphemeralKey}}},
        Row{common, "b", {{0, "x"}, {1, "old"}, {5, "b"}}, {{0, "b"}, {1, kEphemeralKey}}}}) {
    for (unsigned at = 0; at < 30; ++at) {
      SCOPED_TRACE(at);
      luks.slots = row.before;
      luks.failAt = luks.calls = 0;
      luks.backedUp = luks.marked = false;  // another volume each time
      partitions.prepare(encrypted(), "EPHEMERAL", row.source.get(), KeyCare::kLeave).wait(scope);
      luks.failAt = at;
      auto said = putRight(kEphemeralMapping, stored.get());
      bool opens = false;
      for (auto& [slot, key] : luks.slots) {
        opens = opens || key == kEphemeralKey || key == row.opener;
      }
      EXPECT_TRUE(opens);
      if (said.empty()) EXPECT_EQ(luks.slots, row.after);
      if (at == 0) EXPECT_EQ(said, "");
    }
  }
  // A failed hand-over is reported with the slots on the disk.
  luks.slots = {{7, "recovery"}};
  luks.failAt = luks.calls = 0;
  luks.backedUp = luks.marked = false;
  partitions.prepare(encrypted(), "EPHEMERAL", recovering.get(), KeyCare::kLeave).wait(scope);
  luks.slots = {{7, "changed elsewhere"}};
  EXPECT_THAT(putRight(kEphemeralMapping, stored.get()), HasSubstr("(tried: static of slot 7)"));
}

// Catches: a boot that derives a key again, which takes a second, without a need.
TEST_F(SystemPartitionsTest, KeyIsDerivedOnce) {
  luks.slots = {{2, kEphemeralKey}};
  auto early = partitions.prepareEarly(encrypted(), "EPHEMERAL").wait(scope);
  EXPECT_EQ(KJ_ASSERT_NONNULL(early.open).node, kEphemeralMapping);
  EncryptionRequest same({{2, ""}});
  EXPECT_EQ(putRight(kEphemeralMapping, same.get()), "");
  EXPECT_EQ(luks.calls, 1u);  // reading the header
  luks.slots[7] = "old";
  EXPECT_EQ(putRight(kEphemeralMapping, same.get()), "");
  EXPECT_EQ(luks.slots, (Keys{{2, kEphemeralKey}}));
}

// Catches: a recovery key for a volume that is not encrypted, or that does not open the volume; a
// table of keys without it.
TEST_F(SystemPartitionsTest, RecoveryKeysAreMadeForWhatIsEncrypted) {
  EncryptionRequest how({{0, "a"}, {4, "*"}});
  auto made =
      partitions.newRecoveryKey(kj::str(kEphemeralMapping), "EPHEMERAL", how.get(), 4).wait(scope);
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}, {4, made.cStr()}}));
  EXPECT_EQ(keys, "0 static, 4 recovery");
  EXPECT_EQ(said.find(made.cStr()), std::string::npos) << "it was logged: " << said;
  auto failure = kj::runCatchingExceptions([&]() {
    partitions.newRecoveryKey(kj::str("/dev/vda6"), "EPHEMERAL", how.get(), 4).wait(scope);
  });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
              HasSubstr("EPHEMERAL is not encrypted"));
}

// Catches: a recovery key made from a config that is replaced and freed meanwhile: at the slot of
// another key, or after a read of freed memory.
TEST_F(SystemPartitionsTest, ARecoveryKeyIsRefusedWhileKeysChange) {
  auto stored = kj::newPromiseAndFulfiller<void>();
  EncryptionRequest before({{0, "a"}}), after({{0, "b"}});
  auto changing = partitions.change(kj::str(kEphemeralMapping), "EPHEMERAL", before.get(),
                                    after.get(), KeyChangeExtent::kWhole,
                                    [&]() -> kj::Promise<void> { return kj::mv(stored.promise); });
  EXPECT_FALSE(changing.poll(scope));
  auto slots = luks.slots;
  auto failure = kj::runCatchingExceptions([&]() {
    partitions.newRecoveryKey(kj::str(kEphemeralMapping), "EPHEMERAL", before.get(), 0).wait(scope);
  });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kConflict);
  EXPECT_EQ(luks.slots, slots);
  auto second = partitions.change(kj::str(kEphemeralMapping), "EPHEMERAL", after.get(),
                                  before.get(), KeyChangeExtent::kWhole,
                                  []() -> kj::Promise<void> { return kj::READY_NOW; });
  before.root.initKeys(1)[0].initStatic().setPassphrase("another");  // as publishing a new one does
  stored.fulfiller->fulfill();
  changing.wait(scope);
  EXPECT_EQ(luks.slots, (Keys{{0, "b"}}));
  second.wait(scope);
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}}));
}

// Catches: a half-made recovery key because its caller has gone away: the previous key is removed,
// and the header counts as being changed.
TEST_F(SystemPartitionsTest, ARecoveryKeyIsMadeWithoutItsCaller) {
  EncryptionRequest how({{0, "a"}, {4, "*"}});
  luks.slots[4] = "of before";
  {
    auto gone = partitions.newRecoveryKey(kj::str(kEphemeralMapping), "EPHEMERAL", how.get(), 4);
  }
  scope.poll();
  EXPECT_EQ(luks.steps, "mark, remove 4, add 4, backup");
  EXPECT_EQ(luks.kept, luks.slots);
  EXPECT_FALSE(luks.marked);
  EXPECT_THAT(said, HasSubstr("a recovery key was made at slot 4"));
}

// Catches: a machine that accepts no config because its UUID differs from the UUID that its keys
// were made from.
TEST_F(SystemPartitionsTest, KeysOfAnotherMachineAreLeftBehind) {
  IgnoredReports ignored;
  SystemPartitions weak({.luks = luks,
                         .stateKeys = stateKeys,
                         .installer = installer,
                         .marks = marks,
                         .mappings = []() { return kj::Vector<kj::String>(); },
                         .uuid = []() { return kj::String(); },
                         .say = [](kj::StringPtr) {},
                         .reports = ignored,
                         .backups = []() -> kj::Maybe<kj::String> { return nullptr; }});
  luks.slots = {{0, kEphemeralKey}, {1, "a"}};
  EncryptionRequest before({{0, ""}, {1, "a"}}), after({{1, "a"}, {2, "b"}}), alone({{0, ""}});
  weak.checkChange(kEphemeralMapping, "EPHEMERAL", before.get(), after.get());
  auto change = [&](EncryptionRequest& from) {
    weak.change(kj::str(kEphemeralMapping), "EPHEMERAL", from.get(), after.get(),
                KeyChangeExtent::kWhole, []() -> kj::Promise<void> { return kj::READY_NOW; })
        .wait(scope);
  };
  change(before);
  EXPECT_EQ(luks.slots, (Keys{{1, "a"}, {2, "b"}}));
  luks.slots[0] = kEphemeralKey;
  change(alone);
  EXPECT_EQ(luks.slots, (Keys{{1, "a"}, {2, "b"}}));
}

// Catches: an accepted config whose keys the machine cannot make, which only the next boot would
// report.
TEST_F(SystemPartitionsTest, AWeakUuidIsReportedAtOnce) {
  IgnoredReports ignored;
  SystemPartitions weak({.luks = luks,
                         .stateKeys = stateKeys,
                         .installer = installer,
                         .marks = marks,
                         .mappings = []() { return kj::Vector<kj::String>(); },
                         .uuid = []() { return kj::str("00000000-0000-0000-0000-000000000000"); },
                         .say = [](kj::StringPtr) {},
                         .reports = ignored,
                         .backups = []() -> kj::Maybe<kj::String> { return nullptr; }});
  EncryptionRequest own({{0, ""}}), text({{0, "a"}});
  auto failure = kj::runCatchingExceptions([&]() { weak.check("STATE", own.get()); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
              HasSubstr("no key can be made of nodeID"));
  weak.check("EPHEMERAL", text.get());
  weak.check("STATE", nullptr);
  partitions.check("STATE", own.get());
}

// Catches: a replaced header without a report; a backup that outlives removed keys, or a removed
// volume.
TEST_F(SystemPartitionsTest, TheHeaderHasABackup) {
  Volume volume;
  volume.device.name = kj::str("vda6");
  volume.content = Superblock{FileSystem::kLuks, kj::str()};
  EncryptionRequest a({{0, "a"}}), b({{0, "b"}});
  partitions.prepare(volume, "EPHEMERAL", a.get()).wait(scope);
  EXPECT_EQ(luks.kept, luks.slots);
  EXPECT_EQ(reported, "");
  EXPECT_EQ(change(kEphemeralMapping, a.get(), b.get()), "");
  EXPECT_EQ(luks.kept, (Keys{{0, "b"}}));
  auto made = partitions.newRecoveryKey(kj::str(kEphemeralMapping), "EPHEMERAL", b.get(), 0);
  EXPECT_TRUE(kj::runCatchingExceptions([&]() { made.wait(scope); }) != nullptr);
  EXPECT_EQ(luks.kept, luks.slots);
  EXPECT_FALSE(luks.marked);

  luks.slots = {{0, "a"}, {1, "theirs"}};
  partitions.prepare(volume, "EPHEMERAL", b.get()).wait(scope);
  EXPECT_EQ(luks.slots, (Keys{{0, "b"}}));
  EXPECT_THAT(said, HasSubstr("warning: EPHEMERAL: the LUKS2 header of /dev/vda6 was not the one"));
  EXPECT_THAT(reported, HasSubstr("it was replaced by its backup"));
  luks.content = Luks::Content::OTHER;
  luks.foreign = true;
  auto failure = kj::runCatchingExceptions(
      [&]() { partitions.prepare(volume, "EPHEMERAL", b.get()).wait(scope); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), HasSubstr("is not restored"));

  volume.content = Superblock{FileSystem::kXfs, kj::str()};
  partitions.prepare(volume, "EPHEMERAL", nullptr).wait(scope);
  EXPECT_FALSE(luks.backedUp);
  luks.backedUp = true;
  partitions.forgetHeader("EPHEMERAL").wait(scope);
  EXPECT_FALSE(luks.backedUp);
}

// Catches: a volume of a document whose header was erased and that is formatted, or whose backup is
// removed.
TEST_F(SystemPartitionsTest, EmptiedVolumeOfADocumentIsNotMadeAgain) {
  Volume volume;
  volume.device.name = kj::str("vdb1");
  volume.device.partitionName = kj::str("u-data");
  EncryptionRequest a({{0, "a"}});
  luks.content = Luks::Content::EMPTY;
  luks.kept = luks.slots;
  luks.slots.clear();
  luks.backedUp = true;
  partitions.prepare(volume, "u-data", a.get()).wait(scope);
  EXPECT_EQ(luks.slots, luks.kept);
  EXPECT_THAT(said, HasSubstr("the LUKS2 header of /dev/vdb1 was erased; it was replaced by"));
  for (bool rotten : {true, false}) {
    luks.content = Luks::Content::EMPTY;
    luks.slots.clear();
    luks.rotten = rotten;
    luks.backedUp = rotten;
    luks.steps.clear();
    auto failure = kj::runCatchingExceptions(
        [&]() { partitions.prepare(volume, "u-data", a.get()).wait(scope); });
    EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
                HasSubstr("/dev/vdb1 was made before, and its LUKS2 header is gone"));
    EXPECT_EQ(luks.steps, "");
    EXPECT_EQ(luks.backedUp, rotten);
  }
}

struct KeyServerTest : SystemPartitionsTest {
  ~KeyServerTest() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::string phase, waits;
  unsigned waitChanges = 0;
  SystemPartitions waiting{
      {.luks = luks,
       .stateKeys = stateKeys,
       .installer = installer,
       .marks = marks,
       .mappings = []() { return kj::Vector<kj::String>(); },
       .uuid = []() { return kj::str(kDiskUuid); },
       .say = [this](kj::StringPtr line) { said += std::string(line.cStr()) + "\n"; },
       .reports = *this,
       .backups = []() -> kj::Maybe<kj::String> { return nullptr; },
       .timer = timer,
       .waits =
           [this](kj::StringPtr error) {
             ++waitChanges;
             waits = error.cStr();
           }}};
  void report(kj::StringPtr label, const VolumeReport& report) override {
    SystemPartitionsTest::report(label, report);
    phase = nameOf(report.phase).cStr();
  }
  // An encrypted EPHEMERAL whose key of slot 0 the server has, and with these other keys.
  void make(const Keys& others) {
    auto settings = serverKeys("EPHEMERAL", others);
    luks.content = Luks::Content::EMPTY;
    luks.slots.clear();
    openVolume(luks, kj::str("/dev/vda6"), kj::str(), settings, ignoredLine,
               []() -> kj::Promise<void> { return kj::READY_NOW; })
        .wait(scope);
    luks.fresh = false;
    luks.kmsAsked = 0;
  }
  SayLine ignoredLine = [](kj::StringPtr) {};
};

// Catches: a boot that ends because a key server is started after the node; a wait of which nothing
// is seen, or that fills the console; a volume that stays closed when the server answers.
TEST_F(KeyServerTest, EphemeralWaitsForItsKeyServer) {
  EncryptionRequest kms({{0, "%"}});
  make({});
  luks.kmsProblem = "the key server kms.example.org:4050: no answer";
  auto volume = encrypted();
  auto preparing = waiting.prepare(volume, "EPHEMERAL", kms.get());
  for (unsigned tries : {1, 2, 3, 4}) {
    EXPECT_FALSE(preparing.poll(scope));
    EXPECT_EQ(luks.kmsAsked, tries);
    EXPECT_EQ(phase, "waiting");
    EXPECT_THAT(reported,
                HasSubstr("kms of slot 0: the key server kms.example.org:4050: no answer"));
    EXPECT_EQ("EPHEMERAL: " + reported, waits);
    timer.advanceTo(timer.now() + 60 * kj::SECONDS);
  }
  auto line = "warning: " + waits + "; retrying\n";
  auto first = said.find(line);
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find(line, first + 1), std::string::npos) << said;
  luks.kmsProblem.clear();
  EXPECT_EQ(preparing.wait(scope).node, kEphemeralMapping);
  EXPECT_EQ(phase, "ready");
  EXPECT_EQ(waits, "");
  EXPECT_EQ(keys, "0 kms");
}

// Catches: a boot that waits although another key opens the volume, or that does not tell why the
// server's key did not; one that waits for a server in vain, for what no server can end; a volume
// of a document for which the boot waits.
TEST_F(KeyServerTest, NothingElseWaits) {
  auto volume = encrypted();
  {
    EncryptionRequest both({{0, "%"}, {1, "a"}});
    make({{1, "a"}});
    luks.kmsProblem = "away";
    EXPECT_EQ(waiting.prepare(volume, "EPHEMERAL", both.get()).wait(scope).node, kEphemeralMapping);
    EXPECT_EQ(phase, "ready");
    EXPECT_EQ(reported, "kms of slot 0: away");
    EXPECT_EQ(luks.kmsAsked, 1u);
  }
  EncryptionRequest kms({{0, "%"}});
  auto failure =
      kj::runCatchingExceptions([&] { waiting.prepare(volume, "u-data", kms.get()).wait(scope); });
  EXPECT_NE(failure, nullptr);
  EXPECT_EQ(phase, "failed");
  luks.content = Luks::Content::OTHER;
  failure = kj::runCatchingExceptions(
      [&] { waiting.prepare(volume, "EPHEMERAL", kms.get()).wait(scope); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), HasSubstr("is not empty"));
  EXPECT_EQ(waitChanges, 0u);
}

TEST(Mapping, IsOneOfOurs) {
  EXPECT_EQ(KJ_ASSERT_NONNULL(partitionOfMapping("/dev/mapper/nvme0n1p6-encrypted")), "nvme0n1p6");
  for (auto node : {"/dev/vda6", "/dev/mapper/-encrypted", "/dev/mapper/vda6", ""}) {
    EXPECT_TRUE(partitionOfMapping(node) == nullptr) << node;
  }
}

}  // namespace
}  // namespace talos::machined
