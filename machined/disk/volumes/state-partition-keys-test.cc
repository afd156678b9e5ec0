// STATE's keys in META beside those in its header: the keys that a boot without a config uses.
#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "machined/disk/encryption/test-model-luks.h"
#include "machined/disk/encryption/test-state-keys.h"
#include "machined/disk/volumes/system-partitions.h"
#include "machined/disk/volumes/test-volume-fakes.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;
// Passphrases by slot. "": the machine's own; "!": this and all other keys are readable in META.
using List = std::map<unsigned, std::string>;

constexpr kj::StringPtr kMapping = "/dev/mapper/vda5-encrypted"_kj;
constexpr kj::StringPtr kStateUuid = "00112233-4455-6677-8899-aabbccddeeff"_kj, kNoUuid = ""_kj;
const std::string kMachineKey = "00112233-4455-6677-8899-aabbccddeeffSTATE";

using Request = EncryptionRequest;

// The keys of a header that agrees with the list.
std::map<unsigned, std::string> slotsOf(const List& list) {
  std::map<unsigned, std::string> slots;
  for (auto& [slot, text] : list) {
    slots[slot] = text.empty() ? kMachineKey : text[0] == '!' ? text.substr(1) : text;
  }
  return slots;
}
std::string metaOf(const List& list) {
  Request request(list);
  auto text = stateKeysText(request.root.asReader());
  return {reinterpret_cast<const char*>(text.begin()), text.size()};
}

struct ZerosInstaller final : Installer {
  kj::Promise<bool> run(Fill) override { return true; }
  kj::Promise<void> slots(Fill, Hear, int) override { KJ_UNIMPLEMENTED("not in this test"); }
};

struct StateKeysTest : testing::Test {
  ~StateKeysTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  ModelLuks luks;
  ModelStateKeys meta;
  ZerosInstaller installer;
  ModelMarks marks;
  kj::StringPtr uuid = kStateUuid;
  std::string said;
  Volume volume;
  StateKeysTest() {
    volume.device.name = kj::str("vda5");
    meta.onChange = [this]() { luks.begin(); };
  }

  IgnoredReports ignored;
  // Each boot has its own instance.
  SystemPartitions partitions() {
    return SystemPartitions({.luks = luks,
                             .stateKeys = meta,
                             .installer = installer,
                             .marks = marks,
                             .mappings = []() { return kj::Vector<kj::String>(); },
                             .uuid = [this]() { return kj::str(uuid); },
                             .say = [this](kj::StringPtr line) { said += line.cStr(); },
                             .reports = ignored,
                             .backups = []() -> kj::Maybe<kj::String> { return nullptr; }});
  }
  // Does what an apply does. Returns false if it was cut.
  bool change(const List& before, const List& after, List& stored, KeyChangeExtent extent) {
    Request from(before), to(after);
    auto all = partitions();
    auto failure = kj::runCatchingExceptions([&]() {
      all.change(kj::str(kMapping), "STATE", from.get(), to.get(), extent,
                 [&]() -> kj::Promise<void> {
                   luks.begin();
                   stored = after;
                   return kj::READY_NOW;
                 })
          .wait(scope);
    });
    return failure == nullptr && (luks.failAt == 0 || luks.calls < luks.failAt);
  }
  // Boots with only the content of the disk; returns false if STATE is locked.
  bool boot(const List& stored) {
    luks.failAt = 0;
    volume.content = Superblock{FileSystem::kLuks, kj::str()};
    auto all = partitions();
    if (all.prepareEarly(volume, "STATE").wait(scope).open == nullptr) return false;
    Request config(stored);
    all.putRight(kj::str(kMapping), "STATE", config.get()).wait(scope);
    return true;
  }
  void install(const List& list) {
    volume.content = nullptr;
    Request config(list);
    auto all = partitions();
    all.prepare(volume, "STATE", config.get()).wait(scope);
  }
};

// Catches: a boot that does not ask the TPM for the key of STATE; one that does not say why the TPM
// keeps it, or does not try the other keys then.
TEST_F(StateKeysTest, AreUnsealedByTheTpm) {
  List sealed{{0, "@"}}, both{{0, "@"}, {1, ""}}, stored = sealed;
  install(sealed);
  ASSERT_EQ(luks.tokens.count(0), 1u);
  EXPECT_TRUE(boot(sealed));
  constexpr auto kProblem = "the TPM of another machine has sealed the key";
  luks.tpmProblem = kProblem;
  said.clear();
  EXPECT_FALSE(boot(sealed));
  EXPECT_THAT(said, HasSubstr(std::string("warning: STATE: tpm of slot 0: ") + kProblem));
  luks.tpmProblem.clear();
  EXPECT_TRUE(change(sealed, both, stored, KeyChangeExtent::kWhole));
  EXPECT_EQ(stored, both);
  auto slots = luks.slots;
  EXPECT_EQ(slots[1], kMachineKey);
  luks.tpmProblem = kProblem;
  EXPECT_TRUE(boot(both));
  EXPECT_EQ(luks.slots, slots);
  luks.tpmProblem.clear();
  EXPECT_TRUE(boot(both));
  EXPECT_EQ(luks.slots, slots);
}

// Catches: a boot that does not ask the server for the key of STATE, because META does not name it;
// one that takes a wait for the server for the lack of a config, or does not try the other keys.
TEST_F(StateKeysTest, AreUnsealedByTheKeyServer) {
  List sealed{{0, "%"}}, both{{0, "%"}, {1, ""}}, stored = sealed;
  install(sealed);
  EXPECT_THAT(KJ_ASSERT_NONNULL(meta.text),
              HasSubstr(R"("KeyKMS":{"KMSEndpoint":"kms.example.org:4050"})"));
  EXPECT_TRUE(boot(sealed));
  constexpr auto kProblem = "the key server kms.example.org:4050: no answer";
  luks.kmsProblem = kProblem;
  said.clear();
  volume.content = Superblock{FileSystem::kLuks, kj::str()};
  auto early = partitions().prepareEarly(volume, "STATE").wait(scope);
  EXPECT_TRUE(early.open == nullptr && early.locked && early.served);
  EXPECT_THAT(said, HasSubstr(std::string("warning: STATE: kms of slot 0: ") + kProblem));
  EXPECT_THAT(said, HasSubstr("is encrypted, and its key server has not opened it yet"));
  luks.kmsProblem.clear();
  EXPECT_TRUE(change(sealed, both, stored, KeyChangeExtent::kWhole));
  auto slots = luks.slots;
  luks.kmsProblem = kProblem;
  EXPECT_TRUE(boot(both));
  EXPECT_EQ(luks.slots, slots);
  luks.kmsProblem.clear();
  luks.kmsForgot = true;
  EXPECT_TRUE(boot(both));
  EXPECT_EQ(luks.slots, slots);
}

// Catches: an encrypted STATE that no boot opens, because META has no list or an old one; a list in
// META with a passphrase that the config keeps secret.
TEST_F(StateKeysTest, AreStoredWithTheVolume) {
  install({{1, ""}, {3, "closed"}});
  EXPECT_EQ(KJ_ASSERT_NONNULL(meta.text), R"({"EncryptionProvider":"luks2","EncryptionKeys":[)"
                                          R"({"KeyStatic":null,"KeyNodeID":{},"KeySlot":1}],)"
                                          R"("EncryptionCipher":"aes-xts-plain64"})");
  luks = ModelLuks();
  install({{1, ""}, {3, "!open"}});
  EXPECT_EQ(KJ_ASSERT_NONNULL(meta.text),
            R"({"EncryptionProvider":"luks2","EncryptionKeys":[)"
            R"({"KeyStatic":null,"KeyNodeID":{},"KeySlot":1},)"
            R"({"KeyStatic":{"KeyData":"open"},"KeyNodeID":null,"KeySlot":3}],)"
            R"("EncryptionCipher":"aes-xts-plain64"})");
  uuid = kNoUuid;
  luks.slots = {{3, "open"}};
  EXPECT_TRUE(boot({{3, "!open"}}));
  EXPECT_EQ(KJ_ASSERT_NONNULL(meta.text), metaOf({{3, "!open"}}));
  auto writes = meta.writes;
  EXPECT_TRUE(boot({{3, "!open"}}));
  EXPECT_EQ(meta.writes, writes) << "META is written at each boot";
}

// Catches: a cut during its formatting that leaves it encrypted without the keys in META.
TEST_F(StateKeysTest, AreThereBeforeTheVolumeIs) {
  uuid = kNoUuid;
  unsigned cuts = 0;
  for (unsigned cut = 1;; ++cut) {
    luks = ModelLuks();
    luks.failAt = cut;
    luks.failOn = true;
    meta.text = nullptr;
    auto failure = kj::runCatchingExceptions([&]() { install({{0, "!a"}}); });
    luks.failAt = 0;
    if (luks.content == Luks::Content::LUKS) {
      EXPECT_TRUE(boot({{0, "!a"}})) << cut;
    }
    if (failure == nullptr) break;
    ++cuts;
  }
  EXPECT_GT(cuts, 3u);
}

// Catches: a moment of a change at which the list in META opens nothing, wherever power is cut.
TEST_F(StateKeysTest, OpenStateAtEachMoment) {
  std::minstd_rand random(5);
  unsigned cuts = 0, changes = 0;
  for (unsigned round = 0; round < 400; ++round) {
    bool own = random() % 2 == 0;
    uuid = own ? kStateUuid : kNoUuid;
    auto list = [&]() {
      List made;
      std::string readable = own && random() % 2 == 0 ? "" : "!";
      for (unsigned i = random() % 3; i > 0; --i) {
        made[random() % 3] = readable + std::string(1, 'a' + random() % 3);
      }
      made[random() % 3] = own ? "" : "!" + std::string(1, 'a' + random() % 3);
      return made;
    };
    auto before = list(), after = list();
    auto extent = random() % 2 == 0 ? KeyChangeExtent::kWhole : KeyChangeExtent::kUntilPersisted;
    bool whole = false;
    for (unsigned cut = 1; !whole; ++cut) {
      SCOPED_TRACE(std::to_string(round) + " cut at " + std::to_string(cut));
      luks = ModelLuks();
      luks.content = Luks::Content::LUKS;
      luks.slots = slotsOf(before);
      meta.text = metaOf(before);
      auto stored = before;
      luks.failAt = cut;
      luks.failOn = true;
      whole = change(before, after, stored, extent);
      // With the list alone, without the machine's own key.
      auto list = KJ_ASSERT_NONNULL(meta.text);
      auto keys = readStateKeys(kj::StringPtr(list.c_str(), list.size()).asBytes(), uuid);
      luks.failAt = 0;
      ASSERT_TRUE(luks.open("", "", keys).wait(scope) != nullptr) << luks.steps << "; " << list;
      ASSERT_TRUE(boot(stored)) << luks.steps << "; " << list;
      ASSERT_EQ(luks.slots, slotsOf(stored)) << luks.steps;
      ASSERT_EQ(KJ_ASSERT_NONNULL(meta.text), metaOf(stored));
      ++cuts;
    }
    ++changes;
  }
  EXPECT_GT(cuts, 8 * changes);
}

// Catches: a node that is lost because META is damaged, missing or outdated; no report about it.
TEST_F(StateKeysTest, TheMachinesOwnKeyDoesWithoutThem) {
  luks.content = Luks::Content::LUKS;
  luks.slots = {{4, kMachineKey}};
  for (auto text : {"{", "[]", R"({"EncryptionKeys":[{"KeySlot":99}]})", "\xff\xfe"}) {
    said.clear();
    meta.text = text;
    EXPECT_TRUE(boot({{4, ""}})) << text;
    EXPECT_THAT(said, HasSubstr("its list of keys in META cannot be used: ")) << text;
    EXPECT_EQ(KJ_ASSERT_NONNULL(meta.text), metaOf({{4, ""}}));
  }
  said.clear();
  meta.text = metaOf({{0, "!old"}});
  EXPECT_TRUE(boot({{4, ""}}));
  meta.absent = true;
  EXPECT_TRUE(boot({{4, ""}}));
  luks.slots = {};
  install({{4, ""}});
  EXPECT_EQ(said.find("warning"), std::string::npos) << said;
  // A STATE that needs the list is not encrypted without META.
  luks = ModelLuks();
  auto failure = kj::runCatchingExceptions([&]() { install({{0, "!a"}}); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), HasSubstr("no partition META"));
  EXPECT_EQ(luks.steps, "");
}

// Catches: keys that stay readable although STATE is no longer encrypted.
TEST_F(StateKeysTest, GoWithTheEncryption) {
  meta.text = metaOf({{0, "!a"}});
  volume.content = Superblock{FileSystem::kXfs, kj::str()};
  auto all = partitions();
  all.prepare(volume, "EPHEMERAL", nullptr).wait(scope);
  EXPECT_TRUE(meta.text != nullptr);
  all.prepare(volume, "STATE", nullptr).wait(scope);
  EXPECT_TRUE(meta.text == nullptr);
}

}  // namespace
}  // namespace talos::machined
