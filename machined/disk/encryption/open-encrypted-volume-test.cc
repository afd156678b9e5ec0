#include "machined/disk/encryption/open-encrypted-volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machined/disk/encryption/test-model-luks.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;
using Keys = PassphrasesOfSlots;

struct OpenVolumeTest : testing::Test {
  ~OpenVolumeTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope waitScope{loop};
  ModelLuks luks;
  std::string said;
  SayLine say = [this](kj::StringPtr line) { said += std::string(line.cStr()) + "\n"; };

  OpenVolume open(const Keys& keys) {
    luks.steps.clear();
    auto settings = staticKeys("STATE", keys);
    return openVolume(luks, kj::str("/dev/vdb1"), mappingOf("vdb1"), settings, say,
                      []() -> kj::Promise<void> { return kj::READY_NOW; })
        .wait(waitScope);
  }
  std::string refusal(const Keys& keys) {
    auto failure = kj::runCatchingExceptions([&]() { open(keys); });
    KJ_IF_MAYBE (e, failure) {
      EXPECT_EQ(kindOf(*e), ErrorKind::kFailedPrecondition);
      return messageOf(*e).cStr();
    }
    return "";
  }
  // Returns "" on success.
  std::string change(const Keys& before, const Keys& after, Keys& persisted,
                     KeyChangeExtent extent = KeyChangeExtent::kWhole) {
    luks.steps.clear();
    auto old = staticKeys("STATE", before), wanted = staticKeys("STATE", after);
    auto failure = kj::runCatchingExceptions([&]() {
      changeKeys(luks, kj::str("/dev/vdb1"), old, wanted, extent, [&]() -> kj::Promise<void> {
        luks.begin();
        persisted = after;
        return kj::READY_NOW;
      }).wait(waitScope);
    });
    KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
    return "";
  }
};

// Catches: an empty partition that is not encrypted, or is encrypted again at each boot.
TEST_F(OpenVolumeTest, FormatsWhatIsEmpty) {
  auto opened = open({{3, "a"}, {5, "b"}});
  EXPECT_EQ(opened.slot, 3u);
  EXPECT_TRUE(opened.fresh);
  EXPECT_EQ(luks.slots, (Keys{{3, "a"}, {5, "b"}}));
  EXPECT_EQ(luks.mapped, "vdb1-encrypted");
  EXPECT_EQ(luks.steps, "format");
  EXPECT_THAT(said, HasSubstr("/dev/vdb1 was empty and is encrypted now"));
  luks.fresh = false;
  EXPECT_FALSE(open({{3, "a"}, {5, "b"}}).fresh);
  EXPECT_EQ(luks.steps, "");
  // A volume without keys holds nothing that could be read.
  luks.slots.clear();
  open({{1, "c"}});
  EXPECT_EQ(luks.slots, (Keys{{1, "c"}}));
}

struct SealedVolumeTest : OpenVolumeTest {
  ~SealedVolumeTest() noexcept override {}
  OpenVolume open(const VolumeSettings& settings) {
    luks.steps.clear();
    said.clear();
    return openVolume(luks, kj::str("/dev/vdb1"), mappingOf("vdb1"), settings, say,
                      []() -> kj::Promise<void> { return kj::READY_NOW; })
        .wait(waitScope);
  }
  // Returns "" on success.
  std::string change(const VolumeSettings& before, const VolumeSettings& after) {
    luks.steps.clear();
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   changeKeys(luks, kj::str("/dev/vdb1"), before, after, KeyChangeExtent::kWhole,
                              []() -> kj::Promise<void> { return kj::READY_NOW; })
                       .wait(waitScope);
                 })) {
      return messageOf(*e).cStr();
    }
    return "";
  }
};

// Catches: a sealed key without its token, or with a passphrase that the TPM does not give back; a
// boot that seals it again.
TEST_F(SealedVolumeTest, IsSealedOnceAndUnsealedAtEachBoot) {
  EXPECT_EQ(open(sealedKeys("STATE", {})).slot, 0u);
  EXPECT_EQ(luks.steps, "format");
  EXPECT_EQ(luks.slots[0].size(), 44u) << "base64 of 32 bytes";
  ASSERT_EQ(luks.tokens.count(0), 1u);
  auto slots = luks.slots;
  EXPECT_EQ(open(sealedKeys("STATE", {})).slot, 0u);
  EXPECT_EQ(luks.steps, "");
  EXPECT_EQ(luks.slots, slots);
  luks.content = Luks::Content::EMPTY;
  luks.tpmProblem = "this machine has no TPM 2.0";
  auto failure = kj::runCatchingExceptions([&] { open(sealedKeys("STATE", {{1, "a"}})); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)), "tpm of slot 0: this machine has no TPM 2.0");
  EXPECT_EQ(luks.steps, "") << "it was formatted without a key of the config";
}

// Catches: a volume that stays locked although another key fits; a slot that is taken from the TPM
// because it did not unseal its key once; a refusal that does not give the reason.
TEST_F(SealedVolumeTest, IsOpenedByTheNextKeyIfItIsNotUnsealed) {
  open(sealedKeys("STATE", {{1, "a"}}));
  auto slots = luks.slots;
  luks.tpmProblem = "PCR 7 (Secure Boot) differs";
  EXPECT_EQ(open(sealedKeys("STATE", {{1, "a"}})).slot, 1u);
  EXPECT_EQ(luks.steps, "");
  EXPECT_EQ(luks.slots, slots);
  EXPECT_EQ(luks.tokens.count(0), 1u);
  EXPECT_THAT(said, HasSubstr("warning: STATE: tpm of slot 0: PCR 7 (Secure Boot) differs\n"));
  auto failure = kj::runCatchingExceptions([&] { open(sealedKeys("STATE", {})); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
              HasSubstr("; tpm of slot 0: PCR 7 (Secure Boot) differs"));
  luks.tpmProblem = "";
  EXPECT_EQ(open(sealedKeys("STATE", {{1, "a"}})).slot, 0u);
}

// Catches: a change that removes the only other key before the TPM has sealed one; other registers
// that change nothing; a token that stays when its slot is gone; a slot whose key no longer opens.
TEST_F(SealedVolumeTest, ChangesToTheTpmAndBack) {
  auto plain = staticKeys("STATE", {{0, "a"}});
  luks.content = Luks::Content::LUKS;
  luks.slots = {{0, "a"}};
  luks.tpmProblem = "this machine has no TPM 2.0";
  EXPECT_EQ(change(plain, sealedKeys("STATE", {})), "tpm of slot 0: this machine has no TPM 2.0");
  EXPECT_EQ(luks.steps, "");
  luks.tpmProblem = "";
  EXPECT_EQ(change(plain, sealedKeys("STATE", {})), "");
  EXPECT_EQ(luks.slots.size(), 1u);
  auto userData = luks.tokens[0];
  EXPECT_EQ(change(sealedKeys("STATE", {}), sealedKeys("STATE", {{1, "b"}})), "");
  EXPECT_EQ(luks.tokens[0], userData) << "it was sealed again";
  EXPECT_EQ(change(sealedKeys("STATE", {{1, "b"}}), sealedKeys("STATE", {{1, "b"}}, {4, 7})), "");
  EXPECT_NE(luks.tokens[0], userData);
  // A locked key stays as long as the config has it. A config without it and one with it seal it
  // again.
  luks.secrets.clear();
  auto locked = luks.slots[0];
  EXPECT_EQ(change(sealedKeys("STATE", {{1, "b"}}, {4, 7}),
                   sealedKeys("STATE", {{1, "b"}, {2, "c"}}, {4, 7})),
            "");
  EXPECT_EQ(luks.slots[0], locked);
  EXPECT_EQ(
      change(sealedKeys("STATE", {{1, "b"}, {2, "c"}}, {4, 7}), staticKeys("STATE", {{1, "b"}})),
      "");
  EXPECT_EQ(luks.slots, (Keys{{1, "b"}}));
  EXPECT_TRUE(luks.tokens.empty());
  EXPECT_EQ(change(staticKeys("STATE", {{1, "b"}}), sealedKeys("STATE", {{1, "b"}})), "");
  EXPECT_EQ(open(sealedKeys("STATE", {{1, "b"}})).slot, 0u);
}

// Catches, with a cut before any step: a volume that neither list opens at the next boot.
TEST_F(SealedVolumeTest, OpensAfterACutAtAnyStep) {
  const std::pair<bool, bool> rows[] = {{true, false}, {false, false}, {true, true}, {false, true}};
  for (auto [toSealed, byServer] : rows) {
    for (unsigned cut = 1;; ++cut) {
      luks.failAt = 0;
      luks.content = Luks::Content::EMPTY;
      luks.slots.clear();
      luks.tokens.clear();
      auto plain = staticKeys("STATE", {{0, "a"}});
      auto sealed = byServer ? serverKeys("STATE", {}) : sealedKeys("STATE", {});
      auto &before = toSealed ? plain : sealed, &after = toSealed ? sealed : plain;
      open(before);
      luks.fresh = false;
      bool stored = false;
      luks.calls = 0;
      luks.failAt = cut;
      luks.failOn = true;
      auto failure = kj::runCatchingExceptions([&]() {
        changeKeys(luks, kj::str("/dev/vdb1"), before, after, KeyChangeExtent::kWhole,
                   [&]() -> kj::Promise<void> {
                     luks.begin();
                     stored = true;
                     return kj::READY_NOW;
                   })
            .wait(waitScope);
      });
      luks.failAt = 0;
      luks.failOn = false;
      open(stored ? after : before);
      ASSERT_EQ(luks.slots.size(), 1u) << cut;
      if (failure == nullptr) {
        EXPECT_TRUE(stored);
        break;
      }
    }
  }
}

// Catches: a key of a server that is sealed again at each boot; a boot that calls the server twice;
// a volume that is formatted with a key that no server has.
TEST_F(SealedVolumeTest, AServerIsAskedOnceAtEachBoot) {
  luks.kmsProblem = "the key server kms.example.org:4050: no answer";
  auto failure = kj::runCatchingExceptions([&] { open(serverKeys("EPHEMERAL", {{1, "a"}})); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
            "kms of slot 0: the key server kms.example.org:4050: no answer");
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kUnavailable);
  EXPECT_EQ(luks.steps, "");
  luks.kmsProblem = "";
  EXPECT_EQ(open(serverKeys("EPHEMERAL", {})).slot, 0u);
  EXPECT_EQ(luks.steps, "format");
  auto slots = luks.slots;
  auto userData = luks.tokens[0];
  luks.kmsAsked = 0;
  EXPECT_EQ(open(serverKeys("EPHEMERAL", {})).slot, 0u);
  EXPECT_EQ(luks.kmsAsked, 1u);
  EXPECT_EQ(luks.steps, "");
  EXPECT_EQ(luks.slots, slots);
  EXPECT_EQ(luks.tokens[0], userData);
}

// Catches: a boot that fails, or waits a second time, because the server is away although another
// key fits; a slot that is taken from the server for that; a failure that is reported as final.
TEST_F(SealedVolumeTest, IsOpenedByTheNextKeyWhileTheServerIsAway) {
  open(serverKeys("EPHEMERAL", {{1, "a"}}));
  auto slots = luks.slots;
  auto tokens = luks.tokens;
  luks.kmsProblem = "the key server kms.example.org:4050: no answer";
  luks.kmsAsked = 0;
  auto opened = open(serverKeys("EPHEMERAL", {{1, "a"}}));
  EXPECT_EQ(opened.slot, 1u);
  ASSERT_EQ(opened.problems.size(), 1u);
  EXPECT_EQ(opened.problems[0], "kms of slot 0: the key server kms.example.org:4050: no answer");
  EXPECT_EQ(luks.kmsAsked, 1u);
  EXPECT_EQ(luks.steps, "");
  EXPECT_EQ(luks.slots, slots);
  EXPECT_EQ(luks.tokens, tokens);
  auto failure = kj::runCatchingExceptions([&] { open(serverKeys("EPHEMERAL", {})); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kUnavailable);
  EXPECT_EQ(
      messageOf(KJ_ASSERT_NONNULL(failure)),
      "no key of the config opens /dev/vdb1 (tried: kms of slot 0); a key server may be away, "
      "or may not know this machine; kms of slot 0: the key server kms.example.org:4050: no "
      "answer");
}

// Catches: a slot that gets what a server has answered for a machine that it does not know: no boot
// would open it, and the key that the server may find again would be gone.
TEST_F(SealedVolumeTest, AnotherKeyThanItWasSealedIsNotUsed) {
  open(serverKeys("EPHEMERAL", {{1, "a"}}));
  auto slots = luks.slots;
  luks.kmsForgot = true;
  EXPECT_EQ(open(serverKeys("EPHEMERAL", {{1, "a"}})).slot, 1u);
  EXPECT_EQ(luks.steps, "");
  EXPECT_EQ(luks.slots, slots);
  EXPECT_THAT(said, HasSubstr("warning: EPHEMERAL: kms of slot 0: the key server answered with "
                              "another key than the volume has"));
}

// Catches: a change of keys that seals the key again although the new endpoint is of the same
// server, or trusts a new server that has another key.
TEST_F(SealedVolumeTest, AnotherEndpointGetsTheKeyIfItDoesNotHaveIt) {
  auto there = serverKeys("EPHEMERAL", {{1, "a"}}),
       moved = serverKeys("EPHEMERAL", {{1, "a"}}, "b:1");
  open(there);
  auto userData = luks.tokens[0];
  auto slots = luks.slots;
  EXPECT_EQ(change(there, moved), "");
  EXPECT_EQ(luks.tokens[0], userData);
  EXPECT_EQ(luks.slots, slots);
  luks.kmsProblem = "away";
  EXPECT_EQ(change(there, moved), "kms of slot 0: away");
  EXPECT_EQ(luks.slots, slots);
  luks.kmsProblem = "";
  luks.secrets.clear();
  EXPECT_EQ(change(there, moved), "");
  EXPECT_NE(luks.tokens[0], userData);
  EXPECT_NE(luks.slots, slots);
  EXPECT_EQ(open(moved).slot, 0u);
  // And back to a passphrase.
  EXPECT_EQ(change(moved, staticKeys("EPHEMERAL", {{0, "b"}})), "");
  EXPECT_EQ(luks.slots, (Keys{{0, "b"}}));
  EXPECT_TRUE(luks.tokens.empty());
}

// Catches: reliance on a key although the disk has stored something else: the config would be
// stored, or the operator would leave with a passphrase, and nothing would open the volume.
TEST_F(OpenVolumeTest, AKeyIsSeenToOpenItFirst) {
  luks.content = Luks::Content::LUKS;
  luks.slots = {{0, "a"}};
  luks.spoils = true;
  Keys persisted{{0, "a"}};
  EXPECT_EQ(change({{0, "a"}}, {{3, "b"}}, persisted),
            "/dev/vdb1: the new key of slot 3 does not open it");
  EXPECT_EQ(persisted, (Keys{{0, "a"}}));
  EXPECT_EQ(luks.slots[0], "a");
  auto settings = staticKeys("STATE", {{0, "a"}});
  settings.recovery.add(7u);
  VolumeKey key(7, KeyKind::kStatic, kj::heapArray<kj::byte>("r"_kj.asBytes()));
  auto failure = kj::runCatchingExceptions(
      [&]() { putRecoveryKey(luks, kj::str("/dev/vdb1"), settings, kj::mv(key)).wait(waitScope); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
              HasSubstr("the new recovery key does not open it"));
}

// Catches: data that is formatted away, or a volume that is changed without a key that opens it.
TEST_F(OpenVolumeTest, WritesNothingToWhatItDoesNotOpen) {
  luks.content = Luks::Content::OTHER;
  EXPECT_THAT(refusal({{0, "a"}}), HasSubstr("/dev/vdb1 is not empty"));
  luks.problem = "begins with zeros";
  EXPECT_EQ(
      refusal({{0, "a"}}),
      "/dev/vdb1 begins with zeros; restore its header, or wipe the partition if nothing on it "
      "is needed");
  luks.problem = "";
  luks.content = Luks::Content::LUKS;
  luks.slots = {{0, "other"}};
  EXPECT_EQ(refusal({{0, "a"}, {4, "b"}}),
            "no key of the config opens /dev/vdb1 (tried: static of slot 0, static of slot 4); the "
            "disk may be another machine's, or its keys were changed elsewhere");
  luks.slots = {{0, "a"}};
  luks.problem = "its header has the cipher null";
  EXPECT_EQ(refusal({{0, "a"}}), "/dev/vdb1: its header has the cipher null");
  EXPECT_EQ(luks.steps, "");
  EXPECT_EQ(luks.mapped, "");
}

// Catches: a recovery key at a slot that the config needs, or does not know; an old recovery key
// that still opens the volume; a node that loses its own key for it; a recovery key that can be
// guessed.
TEST_F(OpenVolumeTest, ARecoveryKeyGetsTheSlotThatIsLeftToIt) {
  luks.content = Luks::Content::LUKS;
  luks.slots = {{0, "a"}};
  auto settings = staticKeys("STATE", {{0, "a"}});
  settings.recovery.add(3u);
  auto put = [&](unsigned slot, kj::StringPtr passphrase) -> std::string {
    luks.steps.clear();
    VolumeKey key(slot, KeyKind::kStatic, kj::heapArray<kj::byte>(passphrase.asBytes()));
    auto failure = kj::runCatchingExceptions([&]() {
      putRecoveryKey(luks, kj::str("/dev/vdb1"), settings, kj::mv(key)).wait(waitScope);
    });
    KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
    return "";
  };
  EXPECT_EQ(put(3, "r"), "");
  EXPECT_EQ(put(3, "s"), "");
  EXPECT_EQ(luks.steps, "remove 3, add 3");
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}, {3, "s"}}));
  EXPECT_THAT(put(0, "t"), HasSubstr("the config has no recovery key at slot 0 of STATE"));
  luks.slots = {{3, "a"}};
  EXPECT_THAT(put(3, "t"), HasSubstr("slot 3 has the only key that opens it"));
  luks.slots = {{0, "?"}};
  EXPECT_THAT(put(3, "t"), HasSubstr("no key of the config opens /dev/vdb1"));
  EXPECT_EQ(luks.slots, (Keys{{0, "?"}}));

  auto one = newRecoveryPassphrase(), other = newRecoveryPassphrase();
  EXPECT_THAT(one.cStr(), testing::MatchesRegex("([a-km-np-z2-9]{5}-){7}[a-km-np-z2-9]{5}"));
  EXPECT_NE(one, other);
}

// Catches: a boot that leaves the keys of an earlier config, or fails because a key cannot be
// changed.
TEST_F(OpenVolumeTest, PutsTheKeysRight) {
  luks.content = Luks::Content::LUKS;
  luks.slots = {{0, "a"}, {1, "old"}, {7, "gone"}};
  EXPECT_EQ(open({{0, "a"}, {1, "b"}, {2, "c"}}).slot, 0u);
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}, {1, "b"}, {2, "c"}}));
  luks.slots = {{0, "a"}, {1, "old"}};
  luks.calls = 0;
  luks.failAt = 4;  // inspect, open, inspect, test
  EXPECT_EQ(open({{0, "a"}, {1, "b"}}).slot, 0u);
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}, {1, "old"}}));
  EXPECT_THAT(said, HasSubstr("cannot change the keys of /dev/vdb1: the power is gone"));
}

// Catches: a change of keys that is reported as done and is not; a cut at any call after which the
// persisted list opens nothing, or that the next boot does not finish.
TEST_F(OpenVolumeTest, ChangesKeysUnderWay) {
  struct {
    Keys before, after;
  } rows[] = {
      {{{0, "a"}}, {{0, "b"}}},
      {{{0, "a"}}, {{0, "a"}, {1, "b"}}},
      {{{0, "a"}, {1, "b"}}, {{1, "b"}}},
      {{{0, "a"}, {1, "b"}}, {{0, "b"}, {1, "a"}}},
      {{{0, "a"}, {1, "b"}}, {{0, "c"}, {1, "d"}, {2, "e"}}},
  };
  for (auto& row : rows) {
    for (unsigned cut = 0;; ++cut) {
      luks = ModelLuks();
      luks.content = Luks::Content::LUKS;
      luks.slots = row.before;
      luks.failAt = cut;
      auto persisted = row.before;
      auto error = change(row.before, row.after, persisted);
      auto steps = luks.steps;
      bool whole = luks.failAt == 0 || luks.calls < luks.failAt;
      EXPECT_EQ(error, whole ? "" : "the power is gone");
      if (whole) {
        EXPECT_EQ(persisted, row.after);
        EXPECT_EQ(luks.slots, row.after) << steps;
      }
      luks.failAt = 0;
      auto cutAt = luks;
      open(persisted);
      EXPECT_EQ(luks.slots, persisted) << steps;
      luks = cutAt;  // or the next brain continues with it
      EXPECT_EQ(change(row.before, row.after, persisted), "");
      EXPECT_EQ(luks.slots, row.after) << steps;
      if (whole && cut > 0) break;
    }
  }
  luks = ModelLuks();
  luks.content = Luks::Content::LUKS;
  luks.slots = {{0, "a"}};
  auto staged = luks.slots;
  EXPECT_EQ(change({{0, "a"}}, {{0, "b"}}, staged, KeyChangeExtent::kUntilPersisted), "");
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}, {1, "b"}})) << "the running config opens it, too";
  open(staged);
  EXPECT_EQ(luks.slots, (Keys{{0, "b"}}));

  luks.slots = {{0, "other"}};
  auto persisted = Keys{{0, "a"}};
  EXPECT_THAT(change({{0, "a"}}, {{0, "b"}}, persisted), HasSubstr("no key of the config opens"));
  EXPECT_EQ(persisted, (Keys{{0, "a"}}));
}

}  // namespace
}  // namespace talos::machined
