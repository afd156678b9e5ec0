#include "machined/disk/encryption/state-keys-in-meta.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/freed-secrets.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

constexpr kj::StringPtr kStateUuid = "00112233-4455-6677-8899-aabbccddeeff"_kj;

VolumeSettings read(kj::StringPtr text) {
  return readStateKeys(text.asBytes(), kStateUuid);
}
std::string refusal(kj::StringPtr text) {
  auto failure = kj::runCatchingExceptions([&]() { read(text); });
  KJ_IF_MAYBE (e, failure) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kInvalidArgument) << messageOf(*e).cStr();
    return messageOf(*e).cStr();
  }
  ADD_FAILURE() << "it was not refused: " << text.cStr();
  return "";
}

const Sealing& sealingOf(const VolumeKey& key) {
  return KJ_REQUIRE_NONNULL(key.sealing);
}

// Catches: a list of Talos that is not understood: its form, with the additions of later
// versions.
TEST(StateKeys, OfTheOriginalAreRead) {
  auto settings = read(
      R"({"EncryptionProvider":"luks2","EncryptionKeys":[{"KeyStatic":{"KeyData":"pass \"word\u00e9"},)"
      R"("KeyNodeID":null,"KeySlot":3},{"KeyStatic":null,"KeyNodeID":{},"KeySlot":1}],)"
      R"("EncryptionCipher":"","EncryptionKeySize":0,"EncryptionPerfOptions":null})");
  ASSERT_EQ(settings.keys.size(), 2u);
  EXPECT_EQ(settings.label, "STATE");
  EXPECT_EQ(settings.keys[0].slot, 1u);
  EXPECT_EQ(settings.keys[0].kind, KeyKind::kNodeId);
  EXPECT_EQ(settings.keys[1].slot, 3u);
  EXPECT_EQ(kj::str(settings.keys[1].passphrase.asChars()), "pass \"word\u00e9");
  EXPECT_TRUE(settings.keys[0].atBoot && settings.keys[1].atBoot);
}

// Catches: a sealed key that is lost on the way to a boot, or is another one than the config's; a
// passphrase in META beside it.
TEST(StateKeys, OfTheTpm) {
  auto settings =
      read(R"({"EncryptionKeys":[{"KeyTPM":{"TPMOptions":{"PCRs":[7,4]},)"
           R"("TPMCheckSecurebootStatusOnEnroll":true},"KeySlot":2},)"
           R"({"KeyTPM":{"TPMOptions":null,"TPMCheckSecurebootStatusOnEnroll":false},"KeySlot":3},)"
           R"({"KeyTPM":{"TPMOptions":{"PCRs":null}},"KeySlot":4}]})");
  ASSERT_EQ(settings.keys.size(), 3u);
  auto pcrs = [&](size_t i) { return kj::strArray(sealingOf(settings.keys[i]).pcrs, " "); };
  EXPECT_EQ(pcrs(0), "4 7");
  EXPECT_EQ(pcrs(1), "7");
  EXPECT_EQ(pcrs(2), "");
  EXPECT_TRUE(sealingOf(settings.keys[0]).secureBoot);
  EXPECT_FALSE(sealingOf(settings.keys[1]).secureBoot);
  for (auto wrong : {R"({"PCRs":[24]})", R"({"PCRs":["7"]})", R"({"PCRs":7})"}) {
    refusal(kj::str(R"({"EncryptionKeys":[{"KeyTPM":{"TPMOptions":)", wrong, "},\"KeySlot\":2}]}"));
  }
  capnp::MallocMessageBuilder message;
  auto config = message.initRoot<config::Encryption>();
  auto keys = config.initKeys(3);
  keys[0].initTpm().initOptions().initPcrs(1).set(0, 4);
  keys[1].setSlot(1);
  keys[1].initTpm().setCheckSecurebootStatusOnEnroll(true);
  keys[2].setSlot(2);
  keys[2].initStatic().setPassphrase("closed");
  auto text = stateKeysText(config);
  EXPECT_THAT(kj::str(text.asChars()).cStr(), testing::Not(HasSubstr("closed")));
  settings = readStateKeys(text, kStateUuid);
  ASSERT_EQ(settings.keys.size(), 2u);
  EXPECT_EQ(pcrs(0), "4");
  EXPECT_EQ(pcrs(1), "7");
  EXPECT_TRUE(sealingOf(settings.keys[1]).secureBoot);
}

// Catches: a key of a server that is lost on the way to a boot; text of a foreign disk that is used
// as the address of a server; a passphrase in META beside it.
TEST(StateKeys, OfAKeyServer) {
  auto settings =
      read(R"({"EncryptionKeys":[{"KeyKMS":{"KMSEndpoint":"https://kms.example.org"},"KeySlot":2},)"
           R"({"KeyKMS":null,"KeyNodeID":{},"KeySlot":3}]})");
  ASSERT_EQ(settings.keys.size(), 2u);
  EXPECT_EQ(settings.keys[0].kind, KeyKind::kKms);
  EXPECT_EQ(sealingOf(settings.keys[0]).endpoint, "https://kms.example.org");
  EXPECT_TRUE(settings.keys[0].isSealed() && settings.keys[0].atBoot);
  EXPECT_EQ(settings.keys[1].kind, KeyKind::kNodeId);
  for (auto wrong : {R"({"KMSEndpoint":"kms.example.org"})", R"({"KMSEndpoint":"a b:1"})",
                     R"({"KMSEndpoint":"a:1\nb"})", R"({"KMSEndpoint":1})", R"({})", R"("a:1")"}) {
    refusal(kj::str(R"({"EncryptionKeys":[{"KeyKMS":)", wrong, ",\"KeySlot\":2}]}"));
  }
  capnp::MallocMessageBuilder message;
  auto config = message.initRoot<config::Encryption>();
  auto keys = config.initKeys(2);
  keys[0].setSlot(4);
  keys[0].initKms().setEndpoint("[2001:db8::1]:4050");
  keys[1].initStatic().setPassphrase("closed");
  auto text = stateKeysText(config);
  EXPECT_THAT(kj::str(text.asChars()).cStr(), testing::Not(HasSubstr("closed")));
  settings = readStateKeys(text, kStateUuid);
  ASSERT_EQ(settings.keys.size(), 1u);
  EXPECT_EQ(settings.keys[0].slot, 4u);
  EXPECT_EQ(sealingOf(settings.keys[0]).endpoint, "[2001:db8::1]:4050");
  EXPECT_TRUE(needsStateKeys(config));
}

// Catches: another text that counts as a list without keys; a message with a passphrase.
TEST(StateKeys, OthersAreRefused) {
  EXPECT_EQ(refusal(""), "the keys of STATE in META are not valid at byte 0");
  EXPECT_THAT(refusal(R"({"EncryptionKeys":[]})"),
              HasSubstr("at least one static, nodeID, kms or tpm key"));
  EXPECT_THAT(refusal(R"({"EncryptionProvider":"luks1","EncryptionKeys":[]})"),
              HasSubstr("at byte 29"));
  EXPECT_THAT(refusal(R"({"EncryptionCipher":"null","EncryptionKeys":[]})"),
              HasSubstr("at byte 26"));
  EXPECT_THAT(refusal(R"({"EncryptionKeys":[{"KeyNodeID":{},"KeySlot":32}]})"),
              HasSubstr("32 is not a valid key slot"));
  EXPECT_THAT(
      refusal(R"({"EncryptionKeys":[{"KeyNodeID":{},"KeySlot":1},{"KeyNodeID":{},"KeySlot":1}]})"),
      HasSubstr("duplicate"));
  EXPECT_THAT(refusal(R"({"EncryptionKeys":[{"KeySlot":1}]})"), HasSubstr("kind of the key"));
  EXPECT_EQ(refusal(R"({"EncryptionKeys":[{"KeyStatic":"supersecret","KeySlot":1}]})"),
            "the keys of STATE in META are not valid at byte 32");
  EXPECT_EQ(refusal(R"({"EncryptionKeys":[{"KeyNodeID":{},"KeySlot":"supersecret"}]})")
                .find("supersecret"),
            std::string::npos);
  auto large = kj::heapArray<kj::byte>(kMostStateKeys + 1);
  for (auto& b : large) b = ' ';
  EXPECT_THAT(refusal(kj::str(large.asChars())), HasSubstr("65537 bytes"));
}

// Catches: passphrases in freed memory: of strings that outgrow their buffer, that are skipped, or
// that occur twice.
TEST(StateKeys, LeaveNothingBehind) {
  constexpr auto kSecret = "an-uncommon-passphrase";
  auto longOne = kSecret + ("\"" + std::string(200, 'x'));
  capnp::MallocMessageBuilder message;
  auto config = message.initRoot<config::Encryption>();
  config.initKeys(1)[0].initStatic().setPassphrase(longOne.c_str());
  config.initOptions(1).set(0, "readable_in_meta");
  auto twice = std::string(R"({"EncryptionKeys":[{"KeyStatic":{"KeyData":")") + kSecret +
               R"(","KeyData":"other"}}],"Unknown":")" + kSecret + "\"}";
  FreedSecrets secrets(kSecret);
  {
    auto text = stateKeysText(config);
    EXPECT_EQ(readStateKeys(text, kStateUuid).keys.size(), 1u);
  }
  EXPECT_EQ(read(twice.c_str()).keys.size(), 1u);
  EXPECT_EQ(secrets.count(), 0u);
}

// Catches: a passphrase in META beside a key of the machine, which alone opens STATE; options that
// are lost before the config is read.
TEST(StateKeys, AreWrittenAsTheyAreRead) {
  capnp::MallocMessageBuilder message;
  auto config = message.initRoot<config::Encryption>();
  auto keys = config.initKeys(4);
  keys[0].initStatic().setPassphrase("closed");
  keys[1].setSlot(1);
  keys[1].initNodeID();
  keys[2].setSlot(2);
  keys[2].initRecovery();
  keys[3].setSlot(31);
  keys[3].initStatic().setPassphrase("\"\\\n{}\u00e9 ");
  config.initOptions(1).set(0, "same_cpu_crypt");
  auto own = readStateKeys(stateKeysText(config), kStateUuid);
  ASSERT_EQ(own.keys.size(), 1u) << "a passphrase";
  EXPECT_EQ(own.keys[0].slot, 1u);
  EXPECT_EQ(own.keys[0].kind, KeyKind::kNodeId);
  EXPECT_TRUE(own.sameCpu);
  auto options = config.initOptions(2);
  options.set(0, "readable_in_meta");
  options.set(1, "same_cpu_crypt");
  auto text = stateKeysText(config);
  EXPECT_THAT(kj::str(text.asChars()).cStr(), testing::Not(HasSubstr("readable_in_meta")));
  auto settings = readStateKeys(text, kStateUuid);
  ASSERT_EQ(settings.keys.size(), 3u);
  EXPECT_EQ(settings.keys[1].slot, 1u);
  EXPECT_EQ(settings.keys[2].slot, 31u);
  EXPECT_EQ(kj::str(settings.keys[2].passphrase.asChars()), "\"\\\n{}\u00e9 ");
  EXPECT_TRUE(settings.sameCpu);
  EXPECT_FALSE(settings.noReadWorkqueue);

  EXPECT_FALSE(needsStateKeys(config));
  config.initKeys(1)[0].initStatic().setPassphrase("x");
  EXPECT_TRUE(needsStateKeys(config));
}

// Catches: a STATE whose only key is a passphrase, which the document allows, and that no boot
// could open, because only STATE has the passphrase.
TEST(StateKeys, APassphraseAloneIsStored) {
  capnp::MallocMessageBuilder message;
  auto config = message.initRoot<config::Encryption>();
  auto keys = config.initKeys(2);
  keys[0].setSlot(4);
  keys[0].initStatic().setPassphrase("supersecret");
  keys[1].setSlot(5);
  keys[1].initRecovery();
  auto settings = readStateKeys(stateKeysText(config), kStateUuid);
  ASSERT_EQ(settings.keys.size(), 1u);
  EXPECT_EQ(settings.keys[0].slot, 4u);
  EXPECT_EQ(kj::str(settings.keys[0].passphrase.asChars()), "supersecret");
  EXPECT_TRUE(settings.keys[0].atBoot);
  auto own = settingsOf(config, "STATE", kStateUuid);
  ASSERT_EQ(own.keys.size(), 1u);
  EXPECT_TRUE(own.keys[0].atBoot);
}

}  // namespace
}  // namespace talos::machined
