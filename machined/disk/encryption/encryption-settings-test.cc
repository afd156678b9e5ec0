#include "machined/disk/encryption/encryption-settings.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kUuid = "00112233-4455-6677-8899-aabbccddeeff"_kj;

struct RequestedEncryption {
  capnp::MallocMessageBuilder message;
  config::Encryption::Builder root = message.initRoot<config::Encryption>();
  capnp::List<config::EncryptionKey>::Builder keys(unsigned count) { return root.initKeys(count); }
  VolumeSettings settings(kj::StringPtr uuid = kUuid) {
    return settingsOf(root.asReader(), "STATE", uuid);
  }
  std::string refusal(kj::StringPtr uuid = kUuid) {
    auto failure = kj::runCatchingExceptions([&]() { settings(uuid); });
    KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
    return "";
  }
};

// Catches: keys in the config's order, so that another key than the first opens the volume; a key
// of the wrong kind or for another partition; lost settings.
TEST(VolumeSettings, AreThoseOfTheConfig) {
  RequestedEncryption requested;
  auto keys = requested.keys(3);
  keys[0].setSlot(9);
  keys[0].initNodeID();
  keys[1].setSlot(2);
  keys[1].initStatic().setPassphrase("secret");
  keys[1].initNodeID();  // static takes precedence
  keys[2].setSlot(31);
  keys[2].initStatic().setPassphrase("other");
  auto settings = requested.settings();
  ASSERT_EQ(settings.keys.size(), 3u);
  EXPECT_EQ(settings.keys[0].slot, 2u);
  EXPECT_EQ(settings.keys[0].kind, KeyKind::kStatic);
  EXPECT_EQ(kj::heapString(settings.keys[0].passphrase.asChars()), "secret");
  EXPECT_EQ(settings.keys[1].slot, 9u);
  EXPECT_EQ(settings.keys[1].kind, KeyKind::kNodeId);
  EXPECT_EQ(kj::heapString(settings.keys[1].passphrase.asChars()), kj::str(kUuid, "STATE"));
  EXPECT_EQ(settings.keys[2].slot, 31u);
  EXPECT_EQ(settings.keySize, 512u);
  EXPECT_EQ(settings.sectorSize, 512u);
  EXPECT_FALSE(settings.noReadWorkqueue || settings.noWriteWorkqueue || settings.sameCpu);

  requested.root.setKeySize(256);
  requested.root.setBlockSize(4096);
  requested.root.initOptions(1).set(0, "no_write_workqueue");
  settings = requested.settings();
  EXPECT_EQ(settings.keySize, 256u);
  EXPECT_EQ(settings.sectorSize, 4096u);
  EXPECT_TRUE(settings.noWriteWorkqueue);
  EXPECT_FALSE(settings.noReadWorkqueue || settings.sameCpu);
  auto options = requested.root.initOptions(2);
  options.set(0, "no_read_workqueue");
  options.set(1, "same_cpu_crypt");
  settings = requested.settings();
  EXPECT_TRUE(settings.noReadWorkqueue && settings.sameCpu);
  EXPECT_FALSE(settings.noWriteWorkqueue);
}

// Catches: a key that is sealed to other registers than the config says; a config without registers
// that gets the default ones.
TEST(VolumeSettings, OfTheTpmHaveItsRegisters) {
  RequestedEncryption requested;
  auto keys = requested.keys(3);
  keys[0].initTpm();
  keys[1].setSlot(1);
  auto pcrs = keys[1].initTpm().initOptions().initPcrs(2);
  pcrs.set(0, 7);
  pcrs.set(1, 4);
  keys[1].getTpm().setCheckSecurebootStatusOnEnroll(true);
  keys[2].setSlot(2);
  keys[2].initTpm().initOptions();
  auto settings = requested.settings("");
  ASSERT_EQ(settings.keys.size(), 3u);
  auto sealing = [&](size_t i) -> const Sealing& {
    return KJ_ASSERT_NONNULL(settings.keys[i].sealing);
  };
  EXPECT_EQ(settings.keys[0].kind, KeyKind::kTpm);
  EXPECT_TRUE(settings.keys[0].isSealed());
  EXPECT_EQ(kj::strArray(sealing(0).pcrs, " "), "7");
  EXPECT_EQ(kj::strArray(sealing(1).pcrs, " "), "4 7");
  EXPECT_EQ(kj::strArray(sealing(2).pcrs, " "), "");
  EXPECT_FALSE(sealing(0).secureBoot);
  EXPECT_TRUE(sealing(1).secureBoot) << "checkSecurebootStatusOnEnroll";
  EXPECT_FALSE(isReadableInMeta(requested.root));
  EXPECT_TRUE(sameKeys(settings, requested.settings("")));
  pcrs.set(1, 0);
  EXPECT_FALSE(sameKeys(settings, requested.settings("")));
}

// Catches: a key of another server than the config says; a new server that changes nothing; a kind
// that takes precedence although the config's order is another; a volume that is opened after the
// config is read, or STATE, for which the wrong CAs are trusted.
TEST(VolumeSettings, OfAKeyServerHaveItsEndpoint) {
  RequestedEncryption requested;
  auto keys = requested.keys(4);
  keys[0].initKms().setEndpoint("kms.example.org:4050");
  keys[0].initTpm();
  keys[1].setSlot(1);
  keys[1].initKms().setEndpoint("a:1");
  keys[1].initNodeID();
  keys[2].setSlot(2);
  keys[2].initKms().setEndpoint("a:1");
  keys[2].initStatic().setPassphrase("x");
  keys[3].setSlot(3);
  keys[3].initRecovery();
  auto settings = requested.settings();
  ASSERT_EQ(settings.keys.size(), 3u);
  auto& sealing = KJ_ASSERT_NONNULL(settings.keys[0].sealing);
  EXPECT_EQ(settings.keys[0].kind, KeyKind::kKms);
  EXPECT_EQ(sealing.endpoint, "kms.example.org:4050");
  EXPECT_TRUE(settings.keys[0].isSealed() && settings.keys[0].atBoot);
  EXPECT_EQ(settings.keys[1].kind, KeyKind::kNodeId);
  EXPECT_EQ(settings.keys[2].kind, KeyKind::kStatic);
  EXPECT_TRUE(hasKmsKey(settings));
  for (bool state : {false, true}) {
    auto labelled = settingsOf(requested.root, state ? kStateName : "EPHEMERAL"_kj, kUuid);
    EXPECT_EQ(KJ_ASSERT_NONNULL(labelled.keys[0].sealing).beforeConfig, state);
  }
  EXPECT_FALSE(isReadableInMeta(requested.root));
  EXPECT_TRUE(sameKeys(settings, requested.settings()));
  keys[0].getKms().setEndpoint("kms.example.org:4051");
  EXPECT_FALSE(sameKeys(settings, requested.settings()));
}

TEST(VolumeSettings, WithoutAKeyThatWorksAreRefused) {
  RequestedEncryption requested;
  EXPECT_EQ(requested.refusal(),
            "an encrypted partition needs at least one static, nodeID, kms or tpm key");
  auto keys = requested.keys(2);
  EXPECT_EQ(requested.refusal(), "the kind of the key of slot 0 is missing");
  keys[0].initNodeID();
  keys[1].initNodeID();
  EXPECT_EQ(requested.refusal(), "key slot 0 is a duplicate");
  keys[1].setSlot(32);
  EXPECT_EQ(requested.refusal(), "32 is not a valid key slot; must be 0 to 31");
  keys[1].setSlot(31);
  EXPECT_EQ(requested.refusal(), "");
  EXPECT_EQ(
      requested.refusal("11111111-1111-1111-1111-111111111111"),
      "no key can be made of nodeID: the UUID of this machine, "
      "11111111-1111-1111-1111-111111111111, is not random: more than half of it is \"1\"; use "
      "another kind of key");
}

TEST(VolumeSettings, KeysAreTheSameOnlyAtTheSameSlots) {
  auto list = [](unsigned slot, kj::StringPtr passphrase) {
    VolumeSettings settings;
    settings.keys.add(slot, KeyKind::kStatic, kj::heapArray<kj::byte>(passphrase.asBytes()));
    return settings;
  };
  EXPECT_TRUE(sameKeys(list(1, "a"), list(1, "a")));
  EXPECT_FALSE(sameKeys(list(1, "a"), list(2, "a")));
  EXPECT_FALSE(sameKeys(list(1, "a"), list(1, "b")));
  EXPECT_FALSE(sameKeys(list(1, "a"), VolumeSettings()));
  auto recoverable = list(1, "a");
  recoverable.recovery.add(2u);
  EXPECT_FALSE(sameKeys(list(1, "a"), recoverable));
  EXPECT_EQ(keysText({1u, 2u, 9u}, recoverable), "1 static, 2 recovery, 9 unknown");
}

// Catches: a small machine that runs out of memory; a large machine whose keys are quick to guess.
TEST(VolumeSettings, DerivationIsThatOfTheMachine) {
  auto small = derivationFor(512u << 20, 1);
  EXPECT_EQ(small.memory, 128u << 10);
  EXPECT_EQ(small.passes, 4u);
  EXPECT_EQ(small.threads, 1u);
  auto large = derivationFor(uint64_t{256} << 30, 128);
  EXPECT_EQ(large.memory, 1u << 20);
  EXPECT_EQ(large.threads, 4u);
}

}  // namespace
}  // namespace talos::machined
