// Obstacles of an upgrade: the trial of a config, and the version floor of signed
// images (version-floor.h), across upgrades, rollbacks, trials and crashes.
#include <gmock/gmock.h>

#include "common/testing/virtual-time.h"
#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

struct UpgradeFloor : UpgraderTest {
  ~UpgradeFloor() noexcept override {}

  std::string floor() {
    KJ_IF_MAYBE (version, disk.floor) return version->cStr();
    return "none";
  }
  // Upgrades to an archive, or else to an image of a registry. Returns the refusal.
  std::string upgrade(System& node, bool archive, bool force = false) {
    node.pulls.registry["r.example/i:t"] = "sha256:7";
    UpgradeRequest request{kj::str(archive ? "https://h.example/i.tar" : "r.example/i:t"), true,
                           60};
    request.force = force;
    auto asking = node.upgrader.upgrade(kj::mv(request));
    scope.poll();
    KJ_IF_MAYBE (held, node.archives.held) (*held)->fulfill();
    auto refusal = problem(kj::mv(asking));
    scope.poll();
    return refusal;
  }
};

}  // namespace

// Catches: two trials of one node at the same time, the system's and the config's; an upgrade that
// is refused because the config was changed a moment ago, or that waits for a config for ever; two
// requests that begin at the same time when the trial ends.
TEST_F(UpgradeFloor, AnUpgradeAwaitsTheTrialOfAConfig) {
  ModelDisk fresh;
  System node(fresh);
  node.boot(scope);
  node.onTrial = "the machine config is on trial";
  auto refused = outcomeOf(node.timer, scope, node.upgrader.rollback(60, false),
                           [](auto&&) { return "began"; });
  EXPECT_EQ(refused, "the machine config is on trial");
  EXPECT_EQ(node.timer.now() - kj::origin<kj::TimePoint>(), 3 * kj::MINUTES);
  UpgradeRequest request{kj::str("https://h.example/i.tar"), true, 60};
  auto asking = node.upgrader.upgrade(kj::mv(request));
  auto late = node.upgrader.fetch({kj::str("https://h.example/j.tar"), true, 60}, false);
  advance(node.timer, scope, 1 * kj::MINUTES);
  EXPECT_TRUE(node.archives.held == nullptr) << "the fetch has begun";
  node.onTrial = "";
  advance(node.timer, scope, 2 * kj::SECONDS);
  EXPECT_THAT(problem(kj::mv(late)), HasSubstr("an upgrade is under way"));
  KJ_ASSERT_NONNULL(node.archives.held)->fulfill();
  EXPECT_EQ(problem(kj::mv(asking)), "");
}

// Catches: a signed image of a release with known holes, which a registry or a mirror gives instead
// of the newest; a refusal after something was written, or after the node took its turn to restart;
// --force that is not passed on; a floor without a key, which has no effect.
TEST_F(UpgradeFloor, ASignedOlderImageNeedsForce) {
  for (bool archive : {false, true}) {
    ModelDisk fresh;
    fresh.versions[0] = "v1.2.0";
    fresh.imageVersion = "v1.1.9";
    System node(fresh);
    node.key = "PEM";
    node.boot(scope);
    auto refusal = upgrade(node, archive);
    EXPECT_THAT(refusal, HasSubstr("v1.1.9 is older than v1.2.0, which this node has run"));
    EXPECT_THAT(refusal, HasSubstr("use --force"));
    EXPECT_THAT(refusal, HasSubstr(archive ? "https://h.example/i.tar" : "r.example/i@sha256:7"));
    EXPECT_EQ(fresh.written, "");
    EXPECT_TRUE(fresh.record == nullptr);
    EXPECT_EQ(node.status(), "none A v1.2.0: ");
    EXPECT_EQ(node.etcdAsked, std::vector<std::string>{"may restart"});
    fresh.imageVersion = "latest";
    EXPECT_THAT(upgrade(node, archive), HasSubstr("\"latest\" cannot be compared"));
    fresh.imageVersion = "v1.2.0";
    EXPECT_EQ(upgrade(node, archive), "");
    EXPECT_EQ(node.reboots, 1u);
    System forced(fresh);
    forced.key = "PEM";
    fresh.imageVersion = "v1.1.9";
    fresh.environment = {};
    fresh.record = nullptr;
    forced.boot(scope);
    EXPECT_EQ(upgrade(forced, archive, true), "");
    EXPECT_EQ(forced.reboots, 1u);
  }
  disk.versions[0] = "v1.2.0";
  disk.imageVersion = "v1.1.9";
  System keyless(disk);
  keyless.boot(scope);
  EXPECT_EQ(upgrade(keyless, true), "");
}

// Catches: a floor that is lowered by an older system, which was started by a rollback or with
// --force; a floor that an unconfirmed trial raises, so that the node cannot be upgraded to the
// system that it ran.
TEST_F(UpgradeFloor, OnlyAConfirmedSystemRaisesItAndNothingLowersIt) {
  disk.versions[0] = "v1.2.0";
  disk.versions[1] = "v1.3.0";
  rollBack();
  EXPECT_EQ(floor(), "v1.2.0");
  {
    System fresh(disk);
    fresh.lacks = "no network";
    fresh.boot(scope);
    advance(fresh.timer, scope, 62 * kj::SECONDS);
    EXPECT_EQ(fresh.reboots, 1u);
    EXPECT_EQ(floor(), "v1.2.0");
  }
  {
    System old(disk);
    old.boot(scope);
    ASSERT_EQ(old.running, Slot::kA);
    old.upgrader.rollback(60).wait(scope);
  }
  {
    System fresh(disk);
    fresh.boot(scope);
    advance(fresh.timer, scope, 8 * kj::SECONDS);
    EXPECT_EQ(fresh.status(), "done B v1.3.0: ");
    EXPECT_EQ(floor(), "v1.3.0");
    fresh.upgrader.rollback(60).wait(scope);
  }
  System old(disk);
  old.key = "PEM";
  old.boot(scope);
  advance(old.timer, scope, 8 * kj::SECONDS);
  EXPECT_EQ(old.status(), "done A v1.2.0: ");
  EXPECT_EQ(floor(), "v1.3.0");
  disk.imageVersion = "v1.2.5";
  EXPECT_THAT(upgrade(old, true), HasSubstr("v1.2.5 is older than v1.3.0"));
}

// Catches: a floor that is raised by a system which runs and was never confirmed, so that the node
// cannot be upgraded to its confirmed system.
TEST_F(UpgradeFloor, ARunningSystemThatIsNotConfirmedDoesNotRaiseIt) {
  disk.versions[0] = "v1.2.0";
  disk.versions[1] = "v1.3.0";
  disk.floor = kj::str("v1.2.0");
  System node(disk);
  node.key = "PEM";
  node.boot(scope);
  disk.environment.confirmed = Slot::kB;  // by another program, or with another boot loader's entry
  disk.versions[0] = "v1.4.0";
  disk.imageVersion = "v1.1.0";
  EXPECT_THAT(upgrade(node, true), HasSubstr("v1.1.0 is older than v1.2.0"));
  EXPECT_EQ(floor(), "v1.2.0");
  disk.environment.confirmed = Slot::kA;
  EXPECT_THAT(upgrade(node, true), HasSubstr("v1.1.0 is older than v1.4.0"));
  EXPECT_EQ(floor(), "v1.4.0");
}

// Catches: a floor that is lost by a crash between the confirmation and the value, or by a META
// which cannot be written; a signed image that is accepted while the floor is not known.
TEST_F(UpgradeFloor, ACrashOrAMetaThatFailsDoesNotLoseIt) {
  disk.versions[0] = "v1.2.0";
  disk.versions[1] = "v1.3.0";
  disk.metaFails = true;
  rollBack();
  {
    System fresh(disk);
    fresh.boot(scope);
    advance(fresh.timer, scope, 8 * kj::SECONDS);
    EXPECT_EQ(fresh.status(), "done B v1.3.0: ") << "META must not end a good system";
    EXPECT_EQ(floor(), "none");
    fresh.key = "PEM";
    disk.imageVersion = "v1.4.0";
    EXPECT_THAT(upgrade(fresh, true), HasSubstr("cannot find out the oldest version"));
    disk.metaFails = false;
    disk.imageVersion = "v1.2.0";
    EXPECT_THAT(upgrade(fresh, true), HasSubstr("v1.2.0 is older than v1.3.0"));
    EXPECT_EQ(floor(), "v1.3.0");
  }
  disk.floor = nullptr;
  System again(disk);
  disk.versions[1] = "v1.3.0+site.2";  // the version of its builder, not of its programs
  again.boot(scope);
  EXPECT_EQ(floor(), "v1.3.0+site.2");
}

}  // namespace talos::machined
