#include "machined/disk/encryption/luks-header-guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machined/disk/encryption/test-model-luks.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;
using Keys = PassphrasesOfSlots;

struct HeaderGuardTest : testing::Test {
  ~HeaderGuardTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope waitScope{loop};
  ModelLuks luks;
  std::string said;
  SayLine say = [this](kj::StringPtr line) { said += std::string(line.cStr()) + "\n"; };

  HeaderGuard guard() { return {luks, kj::str("/dev/vda6"), kj::str("/backups/EPHEMERAL")}; }
  // Does what a boot does.
  void boot(const Keys& keys) {
    auto with = guard();
    auto settings = staticKeys("EPHEMERAL", keys);
    KJ_IF_MAYBE (replaced, with.check(settings).wait(waitScope)) said += replaced->cStr();
    auto opened = openVolume(with, kj::str("/dev/vda6"), kj::str("vda6-encrypted"), settings, say,
                             []() -> kj::Promise<void> { return kj::READY_NOW; })
                      .wait(waitScope);
    if (opened.fresh) with.settle("/dev/vda6").wait(waitScope);
    with.finish().wait(waitScope);
  }
  // Does what an apply does; returns false if it was cut.
  bool change(const Keys& before, const Keys& after, Keys& persisted) {
    auto with = guard();
    auto old = staticKeys("EPHEMERAL", before), wanted = staticKeys("EPHEMERAL", after);
    auto failure = kj::runCatchingExceptions([&]() {
      changeKeys(with, kj::str("/dev/vda6"), old, wanted, KeyChangeExtent::kWhole,
                 [&]() -> kj::Promise<void> {
                   co_await with.backupMeanwhile();
                   luks.begin();
                   persisted = after;
                 })
          .wait(waitScope);
      with.finish().wait(waitScope);
    });
    return failure == nullptr && luks.calls < luks.failAt;
  }
  bool backupOpensWith(const Keys& keys) const {
    for (auto& slot : luks.kept) {
      for (auto& key : keys) {
        if (slot.second == key.second) return true;
      }
    }
    return false;
  }
};

// Catches: a new volume without a backup, a backup at each boot, or before the end of the change.
TEST_F(HeaderGuardTest, WhatIsChangedIsBackedUp) {
  boot({{0, "a"}});
  EXPECT_EQ(luks.steps, "mark, format, settle, backup");
  luks.steps.clear();
  boot({{0, "a"}});
  EXPECT_EQ(luks.steps, "");
  boot({{0, "a"}, {1, "b"}});
  EXPECT_EQ(luks.steps, "mark, add 1, backup");
  luks.backedUp = false;
  luks.steps.clear();
  boot({{0, "a"}, {1, "b"}});
  EXPECT_EQ(luks.steps, "backup");
  EXPECT_EQ(said.find("warning"), std::string::npos) << said;
}

// Catches: a volume with a sealed key alone whose damaged header is given up, although the backup
// has what the TPM unseals.
TEST_F(HeaderGuardTest, ASealedKeyOpensTheBackup) {
  auto settings = sealedKeys("EPHEMERAL", {});
  auto with = guard();
  auto open = [&] {
    return openVolume(with, kj::str("/dev/vda6"), kj::str("vda6-encrypted"), settings, say,
                      []() -> kj::Promise<void> { return kj::READY_NOW; })
        .wait(waitScope);
  };
  with.check(settings).wait(waitScope);
  open();
  with.settle("/dev/vda6").wait(waitScope);
  with.finish().wait(waitScope);
  luks.content = Luks::Content::OTHER;
  EXPECT_TRUE(with.check(settings).wait(waitScope) != nullptr);
  EXPECT_EQ(open().slot, 0u);
}

// Catches: a volume that is given up because its key server is away while its damaged header is
// replaced; a failure that does not name the server.
TEST_F(HeaderGuardTest, AKeyServerThatIsAwayIsWaitedFor) {
  auto settings = serverKeys("EPHEMERAL", {});
  auto with = guard();
  with.check(settings).wait(waitScope);
  openVolume(with, kj::str("/dev/vda6"), kj::str("vda6-encrypted"), settings, say,
             []() -> kj::Promise<void> { return kj::READY_NOW; })
      .wait(waitScope);
  with.settle("/dev/vda6").wait(waitScope);
  with.finish().wait(waitScope);
  luks.content = Luks::Content::OTHER;
  luks.kmsProblem = "no answer";
  auto failure = kj::runCatchingExceptions([&] { with.check(settings).wait(waitScope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kUnavailable);
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
            "the header is not restored; kms of slot 0: no answer");
  luks.kmsProblem.clear();
  EXPECT_TRUE(with.check(settings).wait(waitScope) != nullptr);
}

// Catches: a header that another system has changed, and that is opened; a damaged header that is
// given up.
TEST_F(HeaderGuardTest, AnotherHeaderIsReplacedBeforeItIsOpened) {
  boot({{0, "a"}});
  luks.slots[7] = "theirs";
  luks.steps.clear();
  boot({{0, "a"}});
  EXPECT_EQ(luks.steps, "restore, backup");
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}}));
  EXPECT_THAT(
      said, HasSubstr("the LUKS2 header of /dev/vda6 was not the one that this node wrote, and not "
                      "used; it was replaced by its backup, and is kept as "
                      "/backups/EPHEMERAL.refused"));
  luks.content = Luks::Content::OTHER;
  boot({{0, "a"}});
  EXPECT_THAT(said, HasSubstr("the LUKS2 header of /dev/vda6 was damaged; it was replaced"));
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}}));
}

// Catches: a cut that makes the node's own change look like a foreign one, or after which the
// boot's keys cannot open the backup.
TEST_F(HeaderGuardTest, NoCutMakesItsOwnWorkForeign) {
  unsigned cuts = 0;
  for (auto& after : {Keys{{0, "c"}, {4, "d"}}, Keys{{1, "b"}}}) {
    for (unsigned cut = 1;; ++cut) {
      luks = ModelLuks();
      Keys persisted{{0, "a"}, {1, "b"}};
      boot(persisted);
      luks.steps.clear();
      luks.calls = 0;
      luks.failAt = cut;
      bool whole = change(persisted, after, persisted);
      luks.failAt = 0;
      EXPECT_TRUE(backupOpensWith(persisted)) << cut << ": " << luks.steps;
      boot(persisted);
      EXPECT_EQ(luks.steps.find("restore"), std::string::npos) << cut << ": " << luks.steps;
      EXPECT_EQ(luks.slots, persisted) << cut;
      EXPECT_EQ(luks.kept, persisted) << cut;
      EXPECT_FALSE(luks.marked) << cut;
      if (whole) break;
      ++cuts;
    }
  }
  EXPECT_GT(cuts, 10u);
}

// Catches: a header that was damaged during a change and is given up although a backup exists; an
// emptied partition that is refused as one with a foreign header.
TEST_F(HeaderGuardTest, WhatACutAndItsDamageLeaveIsUsed) {
  boot({{0, "a"}});
  luks.marked = true;
  luks.content = Luks::Content::OTHER;
  luks.steps.clear();
  boot({{0, "a"}});
  EXPECT_EQ(luks.steps, "restore, backup");
  luks.content = Luks::Content::EMPTY;
  luks.slots.clear();
  luks.steps.clear();
  boot({{0, "b"}});
  EXPECT_EQ(luks.steps, "forget, mark, format, settle, backup");
}

// Catches: a guard that is off, without a report, because its backup has rotten; a good volume that
// is lost with its backup; a guard that stays off for ever.
TEST_F(HeaderGuardTest, ABackupThatIsDamagedIsReported) {
  boot({{0, "a"}});
  luks.rotten = true;
  luks.steps.clear();
  boot({{0, "a"}});
  EXPECT_EQ(luks.steps, "backup");
  EXPECT_THAT(said, HasSubstr("the backup of the LUKS2 header of /dev/vda6, /backups/EPHEMERAL, is "
                              "damaged, so this node cannot verify that header"));
  said.clear();
  luks.slots[7] = "theirs";
  boot({{0, "a"}});
  EXPECT_THAT(said, HasSubstr("it was replaced by its backup"));
}

// Catches: a header that is changed without a mark, because the mark could not be made, or because
// of a file system.
TEST_F(HeaderGuardTest, NothingIsChangedWithoutTheMark) {
  boot({{0, "a"}});
  auto with = guard();
  auto key = staticKeys("EPHEMERAL", {{0, "a"}, {1, "b"}});
  luks.steps.clear();
  luks.failAt = luks.calls + 1;
  auto add = [&]() { with.add("/dev/vda6", {key.keys[1], 1}, {key.keys[0], 0}).wait(waitScope); };
  EXPECT_TRUE(kj::runCatchingExceptions(add) != nullptr);
  EXPECT_EQ(luks.steps, "");
  luks.failAt = 0;
  add();
  EXPECT_EQ(luks.steps, "mark, add 1");
  with.finish().wait(waitScope);
  luks.steps.clear();
  with.settle("/dev/vda6").wait(waitScope);
  EXPECT_EQ(luks.steps, "mark, settle");
}

// Catches: an overwritten header of another disk's volume, or of a volume that no key opens.
TEST_F(HeaderGuardTest, WhatIsNotItsOwnIsRefused) {
  boot({{0, "a"}});
  luks.slots = {{0, "theirs"}};
  luks.steps.clear();
  for (bool foreign : {true, false}) {
    luks.foreign = foreign;
    auto failure = kj::runCatchingExceptions([&]() { boot({{0, foreign ? "a" : "theirs"}}); });
    EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), HasSubstr("is not restored"));
    EXPECT_EQ(luks.steps, "");
  }
}

// Catches: a change that counts as done while the backup still has the removed key; a guard without
// a folder for backups that does something nevertheless.
TEST_F(HeaderGuardTest, WithoutABackupItIsNotDone) {
  auto with = guard();
  luks.content = Luks::Content::LUKS;
  luks.slots = {{0, "a"}};
  auto settings = staticKeys("EPHEMERAL", {{0, "a"}});
  EXPECT_TRUE(with.check(settings).wait(waitScope) == nullptr);
  luks.failAt = luks.calls + 1;
  auto failure = kj::runCatchingExceptions([&]() { with.finish().wait(waitScope); });
  EXPECT_TRUE(failure != nullptr);
  with.finish().wait(waitScope);
  EXPECT_EQ(luks.kept, luks.slots);
  HeaderGuard nowhere(luks, kj::str("/dev/vda5"), nullptr);
  luks.calls = luks.failAt = 0;
  EXPECT_TRUE(nowhere.check(settings).wait(waitScope) == nullptr);
  nowhere.finish().wait(waitScope);
  EXPECT_EQ(luks.calls, 0u);
}

}  // namespace
}  // namespace talos::machined
