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
