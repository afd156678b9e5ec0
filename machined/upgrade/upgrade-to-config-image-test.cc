// An installed node whose config names another release than the installed one.
#include "machined/upgrade/upgrade-to-config-image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/base/version.h"
#include "common/testing/virtual-time.h"
#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;
using Stage = UpgradeRecord::Stage;

constexpr const char *kOwn = "r.example/own:v1", *kOtherImage = "r.example/i:v2";

kj::Maybe<PendingImage> copyOf(const kj::Maybe<PendingImage>& pending) {
  KJ_IF_MAYBE (w, pending) return decodePendingImage(encodePendingImage(*w));
  return nullptr;
}

// A node from one start to the next, on the disk and the STATE of the test.
struct Node final : PendingImageNode {
  Node(ModelDisk& disk, kj::Maybe<PendingImage>& kept, std::string configured,
       unsigned earlierBrains = 0)
      : system(disk, VolumesAs::kPartitions, earlierBrains),
        configured(configured),
        kept(kept),
        image({.timer = system.timer,
               .upgrader = system.upgrader,
               .own = kj::str(kOwn),
               .chance = []() { return 0.5; },
               .node = *this}) {
    system.pulls.registry[kOtherImage] = "sha256:7";
  }
  ~Node() noexcept(false) {}

  kj::Maybe<kj::String> configuredImage() override {
    if (configured == "no config") return nullptr;
    return kj::str(configured.c_str());
  }
  void log(kj::StringPtr line) override { system.said.push_back(line.cStr()); }
  kj::Promise<kj::Maybe<PendingImage>> loadPendingImage() override { return copyOf(kept); }
  kj::Promise<void> savePendingImage(kj::Maybe<PendingImage> pending) override {
    kept = copyOf(pending);
    return kj::READY_NOW;
  }

  void boot(kj::WaitScope& scope) {
    image.resume().wait(scope);
    image.changed();
    scope.poll();
  }
  // Calls changed() as the controller does, which does not run while time stands still.
  void pass(kj::WaitScope& scope, kj::Duration time) {
    advance(system.timer, scope, time);
    image.changed();
    scope.poll();
  }

  System system;
  std::string configured;
  kj::Maybe<PendingImage>& kept;
  InstallImage image;
};

struct InstallImageTest : UpgraderTest {
  ~InstallImageTest() noexcept override {}
  kj::Maybe<PendingImage> pending = PendingImage{kj::str(kOtherImage)};

  std::string kept() {
    KJ_IF_MAYBE (w, pending) return encodePendingImage(*w).cStr();
    return "";
  }
  // Returns the pending image without its earlier attempts.
  std::string wanted() { return kept().substr(0, kept().find('\n') + 1); }
  // Writes a record of a fallback from the other slot.
  void fallBack(const char* image) {
    Node fresh(disk, pending, image);
    fresh.system.lacks = "no network";
    fresh.system.hopeless = true;
    fresh.boot(scope);
    fresh.pass(scope, 2 * kj::SECONDS);
    EXPECT_EQ(fresh.system.reboots, 1u);
  }
};

}  // namespace

// Catches: a pending image that already runs; none for another release; a damaged file that is
// taken for an image.
TEST_F(InstallImageTest, AnInstallationLeavesAPendingImage) {
  const auto unpublished = kj::str(kUnpublishedInstaller, ":", buildVersion().tag);
  for (auto named : {"", kOwn, unpublished.cStr()}) {
    Node node(disk, pending, named);
    node.image.leave().wait(scope);
    EXPECT_EQ(kept(), "");
    EXPECT_TRUE(node.system.said.empty());
  }
  Node node(disk, pending, "https://h.example/i.tar?token=secret#sha256=12");
  node.image.leave().wait(scope);
  EXPECT_EQ(wanted(), "wanted https://h.example/i.tar?token=secret#sha256=12\n");
  EXPECT_THAT(node.system.said.back(), HasSubstr("after its first boot the node upgrades itself"));
  EXPECT_THAT(node.system.said.back(), testing::Not(HasSubstr("secret")));
  auto back = KJ_ASSERT_NONNULL(decodePendingImage("refused x\n1234567890123456789 3\n"));
  EXPECT_EQ(encodePendingImage(back), "refused x\n1234567890123456789 3\n");
  for (auto old : {"wanted x\n", "wanted x\n?\n", "wanted x\n? ?\n"}) {
    EXPECT_EQ(encodePendingImage(KJ_ASSERT_NONNULL(decodePendingImage(old))), "wanted x\n0 0\n");
  }
  for (auto bad : {"", "wanted", "wanted \n", "wanted x", "x\n"}) {
    EXPECT_TRUE(decodePendingImage(bad) == nullptr) << bad;
  }
}

// Catches: a change that is "in effect" on a node that has upgraded itself, or is not on one that
// has not; the image that runs, which needs nothing, taken for another one.
TEST_F(InstallImageTest, AnotherImageActsWhileOneIsPending) {
  {
    Node node(disk, pending, kOtherImage);
    node.image.resume().wait(scope);
    EXPECT_TRUE(node.image.acts(false));
    EXPECT_TRUE(node.image.acts(true));
  }
  pending = nullptr;
  Node node(disk, pending, kOtherImage);
  node.image.resume().wait(scope);
  EXPECT_FALSE(node.image.acts(false));
  EXPECT_FALSE(node.image.acts(true));
  node.configured = kOwn;
  EXPECT_FALSE(node.image.acts(false)) << "the change names another one";
  EXPECT_TRUE(node.image.acts(true));
}

// Catches: an image that is not upgraded to, or again after it was; an upgrade that empties
// EPHEMERAL; a pending image that outlives its upgrade, and comes back with a later one.
TEST_F(InstallImageTest, IsUpgradedToOnce) {
  {
    Node old(disk, pending, "no config");
    old.boot(scope);
    EXPECT_EQ(old.system.status(), "none A v1: ");  // there is no config yet
    old.configured = kOtherImage;
    old.pass(scope, 0 * kj::SECONDS);
    EXPECT_EQ(old.system.reboots, 1u);
    EXPECT_EQ(old.system.status(), "rebooting A v1: ");
    EXPECT_FALSE(KJ_ASSERT_NONNULL(disk.record).empty);
    EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).digest, "r.example/i@sha256:7");
  }
  Node fresh(disk, pending, kOtherImage);
  ASSERT_EQ(fresh.system.running, Slot::kB);
  fresh.boot(scope);
  EXPECT_NE(kept(), "");  // it may still fall back
  fresh.pass(scope, 8 * kj::SECONDS);
  EXPECT_EQ(fresh.system.status(), "done B v2: ");
  EXPECT_EQ(kept(), "");
  fresh.configured = "r.example/i:v3";
  fresh.pass(scope, 1 * kj::HOURS);
  EXPECT_EQ(fresh.system.status(), "done B v2: ");
}

// Catches: a network that is down and ends the upgrade, or is used all the time, or not again after
// a while; an error that is not reported.
TEST_F(InstallImageTest, WhatCanPassIsTriedAgain) {
  Node node(disk, pending, kOtherImage);
  node.system.pulls.away = true;
  node.boot(scope);
  EXPECT_THAT(node.system.status(), HasSubstr("waiting A v1: cannot pull"));
  EXPECT_THAT(node.system.status(), HasSubstr("i/o timeout; retrying"));
  for (unsigned i = 0; i < 3600; ++i) node.pass(scope, 1 * kj::SECONDS);
  EXPECT_GT(node.system.pulls.asked, 9u);
  EXPECT_LT(node.system.pulls.asked, 20u);
  node.system.pulls.away = false;
  node.pass(scope, 10 * kj::MINUTES);
  EXPECT_EQ(node.system.status(), "rebooting A v1: ");
}

// Catches: an image that does not exist, is not signed, or whose system gave up, and that is
// fetched at each start; an error that is lost with the start; a config that names another image
// without effect, or with effect only at the next start.
TEST_F(InstallImageTest, WhatEtcdNeedsIsNoFaultOfTheImage) {
  Node node(disk, pending, kOtherImage);
  node.system.etcdRefuses = "restarts";
  node.boot(scope);
  EXPECT_EQ(node.system.status(), "waiting A v1: etcd has 1 voter; retrying");
  EXPECT_EQ(wanted(), kj::str("wanted ", kOtherImage, "\n").cStr());
  node.system.etcdRefuses = "";
  node.pass(scope, 1 * kj::HOURS);
  EXPECT_EQ(node.system.reboots, 1u);
}

TEST_F(InstallImageTest, ARefusedOneIsNotTriedAgain) {
  for (bool unsignedOne : {false, true}) {
    disk.record = nullptr;
    pending = PendingImage{kj::str(kOtherImage)};
    for (unsigned start = 0; start < 2; ++start) {
      Node node(disk, pending, kOtherImage);
      node.system.key = unsignedOne ? "PEM" : "";
      node.system.unsignedImage = "it is not signed";
      if (!unsignedOne) node.system.pulls.registry.clear();
      node.boot(scope);
      node.pass(scope, 1 * kj::HOURS);
      EXPECT_EQ(node.system.pulls.asked, start == 0 ? 1u : 0u);
      EXPECT_THAT(node.system.status(),
                  HasSubstr(unsignedOne ? "failed A v1: it is not signed"
                                        : "failed A v1: cannot pull \"r.example/i:v2\": "));
      EXPECT_EQ(wanted(), "refused r.example/i:v2\n");
    }
  }
  Node node(disk, pending, kOtherImage);
  node.boot(scope);
  node.system.pulls.registry["r.example/i:v3"] = "sha256:8";
  node.configured = "r.example/i:v3";
  node.pass(scope, 0 * kj::SECONDS);
  EXPECT_EQ(node.system.status(), "rebooting A v1: ");
  EXPECT_EQ(wanted(), "wanted r.example/i:v3\n");
}

// Catches: a system that gave up, and is tried again and again.
TEST_F(InstallImageTest, NorIsOneThatGaveUp) {
  {
    Node node(disk, pending, kOtherImage);
    node.boot(scope);
    EXPECT_EQ(node.system.status(), "rebooting A v1: ");
  }
  fallBack(kOtherImage);
  for (unsigned start = 0; start < 2; ++start) {
    Node node(disk, pending, kOtherImage);
    ASSERT_EQ(node.system.running, Slot::kA);
    node.boot(scope);
    node.pass(scope, 1 * kj::HOURS);
    EXPECT_THAT(node.system.status(), HasSubstr("was given up: no network"));
    EXPECT_EQ(wanted(), "refused r.example/i:v2\n");
  }
}

// Catches: a power cut while the slot is written, after which the image is never upgraded to; a
// machined that ends there each time, and retries for ever.
TEST_F(InstallImageTest, APowerCutIsNoFailure) {
  for (unsigned earlierBrains : {0u, 1u}) {
    disk.record = nullptr;
    disk.environment = {};
    pending = PendingImage{kj::str(kOtherImage)};
    disk.hangs = true;
    for (unsigned cut = 0; cut < 2; ++cut) {
      Node node(disk, pending, kOtherImage);
      node.boot(scope);
      EXPECT_EQ(node.system.status(), "writing A v1: ");
    }
    disk.hangs = false;
    Node node(disk, pending, kOtherImage, earlierBrains);
    node.boot(scope);
    node.pass(scope, 1 * kj::HOURS);
    EXPECT_EQ(node.system.reboots, earlierBrains == 0 ? 1u : 0u);
    EXPECT_THAT(node.system.status(),
                HasSubstr(earlierBrains == 0 ? "rebooting A v1: " : "it was interrupted"));
  }
}

// Catches: a node that upgrades itself although the upgrade is obsolete: the config names the
// running system, or an administrator has chosen a system.
TEST_F(InstallImageTest, IsWithdrawn) {
  for (bool byConfig : {true, false}) {
    disk.record = nullptr;
    disk.environment = {};
    pending = PendingImage{kj::str(kOtherImage)};
    Node node(disk, pending, kOtherImage);
    node.system.pulls.away = true;
    node.boot(scope);
    node.system.pulls.away = false;
    if (byConfig) {
      node.configured = kOwn;
    } else {
      node.system.upgrader.rollback(60).wait(scope);
    }
    node.pass(scope, 0 * kj::SECONDS);
    EXPECT_EQ(kept(), "");
    node.pass(scope, 1 * kj::HOURS);
    EXPECT_EQ(node.system.pulls.asked, 1u);
    EXPECT_EQ(node.system.status(), byConfig ? "none A v1: " : "rebooting A v1: ");
  }
}

// Catches: a fetch that takes its 20 minutes although the config names another image meanwhile.
TEST_F(InstallImageTest, AnotherOneEndsTheFetch) {
  Node node(disk, pending, kOtherImage);
  node.system.pulls.silent = true;
  node.boot(scope);
  EXPECT_EQ(node.system.status(), "fetching A v1: ");
  node.system.pulls.silent = false;
  node.system.pulls.registry["r.example/i:v3"] = "sha256:8";
  node.configured = "r.example/i:v3";
  node.pass(scope, 0 * kj::SECONDS);
  EXPECT_EQ(node.system.status(), "rebooting A v1: ");
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).image, "r.example/i:v3");
}

// Catches: a secret of a URL in the record; an image whose record is not found by its name, so that
// it is fetched at each start.
TEST_F(InstallImageTest, OneFromAWebServer) {
  const auto url = "https://h.example/i.tar?token=secret#sha256=" + std::string(64, 'a');
  pending = PendingImage{kj::str(url.c_str())};
  for (unsigned start = 0; start < 2; ++start) {
    Node node(disk, pending, url);
    node.system.archives.problem = "it is damaged";
    node.boot(scope);
    KJ_IF_MAYBE (held, node.system.archives.held) {
      EXPECT_EQ(start, 0u);
      EXPECT_EQ(node.system.archives.asked, "fetch /i.tar?token=secret 64 ");
      (*held)->fulfill();
    }
    node.pass(scope, 1 * kj::HOURS);
    EXPECT_EQ(node.system.status(), "failed A v1: it is damaged");
    EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).image, "https://h.example/i.tar");
  }
}

// Catches: a failure of an earlier image that counts against the present one, because both have the
// same name without their secrets, or because it is named for the second time; a node that says it
// retries, and does not.
TEST_F(InstallImageTest, AnEarlierFailureSaysNothingOfAnotherImage) {
  auto withDigest = [](char digit) {
    return "https://h.example/i.tar#sha256=" + std::string(64, digit);
  };
  pending = PendingImage{kj::str(withDigest('a').c_str())};
  {
    Node node(disk, pending, withDigest('a'));
    node.system.archives.problem = "it is another one";
    node.boot(scope);
    KJ_ASSERT_NONNULL(node.system.archives.held)->fulfill();
    node.pass(scope, 1 * kj::MINUTES);
    EXPECT_EQ(node.system.status(), "failed A v1: it is another one");
  }
  for (auto digit : {'b', 'a'}) {
    SCOPED_TRACE(digit);
    // the pending image is known from the disk, then
    for (unsigned start = 0; start < 2; ++start) {
      Node node(disk, pending, withDigest(digit));
      node.system.archives.kind = ErrorKind::kUnavailable;
      node.system.archives.problem = "no route";
      node.boot(scope);
      for (unsigned time = 0; time < 2; ++time) {
        ASSERT_EQ(node.system.status(), "fetching A v1: 30 % of 100 MiB") << time;
        KJ_ASSERT_NONNULL(node.system.archives.held)->fulfill();
        scope.poll();
        EXPECT_EQ(node.system.status(), "waiting A v1: no route; retrying");
        node.pass(scope, 1 * kj::MINUTES);
      }
    }
  }
}

// Catches: a record of a failed attempt that has not been refused (the power was cut), and a node
// that says for ever that it waits for the image.
TEST_F(InstallImageTest, WhatIsRefusedIsNotAwaited) {
  Node node(disk, pending, kOtherImage);
  node.system.pulls.away = true;
  node.boot(scope);
  EXPECT_THAT(node.system.status(), HasSubstr("waiting A v1: "));
  auto asked = node.system.upgrader.upgrade({kj::str(kOtherImage), true, 60});
  EXPECT_THAT(problem(kj::mv(asked)), HasSubstr("i/o timeout"));
  node.system.upgrader.refuse(kj::str(kOtherImage), kj::str("it is no system")).wait(scope);
  node.system.upgrader.await(Upgrader::Awaited{kj::str(kOtherImage), kj::str("retrying")});
  node.pass(scope, 1 * kj::HOURS);
  EXPECT_EQ(node.system.status(), "failed A v1: it is no system");
  EXPECT_EQ(wanted(), "refused r.example/i:v2\n");
}

// Catches: an image for which EPHEMERAL has no room at the moment, and that is never fetched again.
TEST_F(InstallImageTest, RoomMayBeMade) {
  const auto url = "https://h.example/i.tar#sha256=" + std::string(64, 'a');
  pending = PendingImage{kj::str(url.c_str())};
  Node node(disk, pending, url);
  node.system.archives.kind = ErrorKind::kResourceExhausted;  // image-spool.cc
  node.system.archives.problem = "EPHEMERAL has no room";
  node.boot(scope);
  KJ_ASSERT_NONNULL(node.system.archives.held)->fulfill();
  scope.poll();
  EXPECT_EQ(node.system.status(), "waiting A v1: EPHEMERAL has no room; retrying");
  node.system.archives.problem = "";
  node.pass(scope, 1 * kj::MINUTES);
  KJ_ASSERT_NONNULL(node.system.archives.held)->fulfill();
  scope.poll();
  EXPECT_EQ(node.system.status(), "rebooting A v1: ");
}

// Catches: a machine that its watchdog resets in each write, and that writes again for ever; a
// machine that is restarted for other reasons while the registry is away, and counts each start.
TEST_F(InstallImageTest, WhatCutsTheMachineOffEachTimeIsRefused) {
  disk.hangs = true;
  auto bootAway = [&](bool away) {
    Node node(disk, pending, kOtherImage);
    node.system.pulls.away = away;
    node.boot(scope);
    return node.system.status();
  };
  for (unsigned cut = 0; cut < 5; ++cut) {
    EXPECT_EQ(bootAway(false), "writing A v1: ") << cut;
    if (cut == 4) break;
    for (unsigned start = 0; start < 6; ++start) {
      EXPECT_THAT(bootAway(true), HasSubstr("waiting A v1: "));
    }
  }
  for (unsigned start = 0; start < 2; ++start) {
    EXPECT_THAT(bootAway(false), HasSubstr("failed A v1: it was interrupted"));
    EXPECT_EQ(wanted(), "refused r.example/i:v2\n");
  }
}

// Catches: an administrator who has to wait for an upgrade by the config; a pending image that
// stays after the administrator's choice, or that a failed attempt of the administrator removes.
TEST_F(InstallImageTest, AnAdministratorComesFirst) {
  disk.versions[1] = "";
  Node node(disk, pending, kOtherImage);
  node.system.pulls.silent = true;
  node.boot(scope);
  EXPECT_EQ(node.system.status(), "fetching A v1: ");
  EXPECT_THAT(problem(node.system.upgrader.rollback(60)),
              HasSubstr("there is no system in slot B"));
  node.pass(scope, 1 * kj::MINUTES);
  EXPECT_EQ(node.system.status(), "fetching A v1: ");
  EXPECT_EQ(wanted(), "wanted r.example/i:v2\n");

  auto asked = node.system.upgrader.upgrade({kj::str("https://h.example/i.tar"), true, 60});
  node.pass(scope, 1 * kj::MINUTES);
  EXPECT_EQ(node.system.status(), "fetching A v1: 30 % of 100 MiB");
  KJ_ASSERT_NONNULL(node.system.archives.held)->fulfill();
  asked.wait(scope);
  node.pass(scope, 1 * kj::MINUTES);
  EXPECT_EQ(node.system.status(), "rebooting A v1: ");
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).image, "https://h.example/i.tar");
  EXPECT_EQ(kept(), "");
}

// Catches: a system on trial that could not read its record, and takes its own inability to upgrade
// for a refusal of the image.
TEST_F(InstallImageTest, ATrialIsNoRefusal) {
  {
    Node node(disk, pending, kOtherImage);
    node.boot(scope);
    EXPECT_EQ(node.system.reboots, 1u);
  }
  disk.unreadable = true;
  Node fresh(disk, pending, kOtherImage);
  ASSERT_EQ(fresh.system.running, Slot::kB);
  fresh.boot(scope);
  fresh.pass(scope, 1 * kj::HOURS);
  EXPECT_EQ(wanted(), "wanted r.example/i:v2\n");
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).stage, Stage::WRITTEN);
}

}  // namespace talos::machined
