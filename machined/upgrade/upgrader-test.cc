#include "machined/upgrade/upgrader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"
#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

}  // namespace

// Catches: a system that is confirmed immediately, before it was healthy for a while, or never; a
// system that process 1 still takes for one on trial.
TEST_F(UpgraderTest, AHealthySystemIsConfirmed) {
  rollBack();
  System fresh(disk);
  ASSERT_EQ(fresh.running, Slot::kB);
  fresh.lacks = "service apid is not up";
  fresh.boot(scope);
  advance(fresh.timer, scope, 20 * kj::SECONDS);
  EXPECT_EQ(fresh.status(), "trying B v2: service apid is not up; gives up in 40 s");
  EXPECT_FALSE(fresh.settled());
  fresh.lacks = "";
  advance(fresh.timer, scope, 4 * kj::SECONDS);
  fresh.lacks = "service apid is not up";  // it had come up and exited
  advance(fresh.timer, scope, 3 * kj::SECONDS);
  EXPECT_EQ(disk.environment.confirmed, Slot::kA);
  fresh.lacks = "";
  advance(fresh.timer, scope, 8 * kj::SECONDS);
  EXPECT_EQ(fresh.status(), "done B v2: ");
  EXPECT_TRUE(fresh.settled());
  EXPECT_EQ(disk.environment.confirmed, Slot::kB);
  EXPECT_EQ(fresh.reboots, 0u);
  EXPECT_EQ(disk.start(), Slot::kB);
}

// Catches: a system that is kept although its etcd does not start, because it is healthy otherwise;
// a system that has to fulfil duties which the node did not fulfil before; duties of an earlier
// upgrade that count.
TEST_F(UpgraderTest, ANewSystemFulfilsTheDutiesOfTheOldOne) {
  auto go = [&](bool fulfils) {
    {
      System old(disk);
      old.doing = {{"voter of etcd", ""}, {"clock", "no server answers"}};
      old.boot(scope);
      old.upgrader.rollback(60).wait(scope);
      EXPECT_THAT(old.said, testing::Contains("upgrade: the new system need not mend clock: no "
                                              "server answers"));
    }
    System fresh(disk);
    fresh.doing = {{"voter of etcd", "it is a learner"}, {"clock", "still none"}};
    fresh.boot(scope);
    advance(fresh.timer, scope, 20 * kj::SECONDS);
    EXPECT_EQ(fresh.status(), "trying B v2: voter of etcd: it is a learner; gives up in 40 s");
    if (fulfils) fresh.doing["voter of etcd"] = "";
    advance(fresh.timer, scope, 45 * kj::SECONDS);
    EXPECT_EQ(fresh.reboots, fulfils ? 0u : 1u);
    EXPECT_EQ(fresh.status(), fulfils ? "done B v2: "
                                      : "rebooting B v2: it was not healthy within 60 s: voter of "
                                        "etcd: it is a learner");
  };
  go(false);
  {
    System old(disk);
    ASSERT_EQ(old.running, Slot::kA);
    old.boot(scope);
    EXPECT_THAT(old.status(), HasSubstr("voter of etcd: it is a learner"));
  }
  go(true);
  KJ_ASSERT_NONNULL(disk.record).began +=
      1 * kj::SECONDS;  // of a system that does not record duties
  KJ_ASSERT_NONNULL(disk.record).stage = UpgradeRecord::Stage::WRITTEN;
  KJ_ASSERT_NONNULL(disk.record).from = Slot::kB;
  KJ_ASSERT_NONNULL(disk.record).to = Slot::kA;
  disk.environment.attempt = Slot::kA;
  disk.environment.tries = 1;
  System other(disk);
  ASSERT_EQ(other.running, Slot::kA);
  other.boot(scope);
  advance(other.timer, scope, 8 * kj::SECONDS);
  EXPECT_EQ(other.status(), "done A v1: ");
}

// Catches: an upgrade that fails because of a link that could not be made before either; a network
// that only the new system lacks, or that is incomplete after an upgrade by a system that recorded
// nothing about it, and passes.
TEST_F(UpgraderTest, ANetworkThatWasIncompleteBeforeMayStaySo) {
  struct Row {
    std::map<std::string, std::string> before, after;
    kj::StringPtr outcome;
  };
  const Row rows[] = {
      {{{"network", "no dummy1"}, {"link eth0", ""}},
       {{"network", "no dummy1"}, {"link eth0", "gone"}},
       "rebooting B v2: it was not healthy within 60 s: link eth0: gone"},
      {{{"network", ""}},
       {{"network", "no dummy1"}},
       "rebooting B v2: it was not healthy within 60 s: the network is not complete: no dummy1"},
      {{},
       {{"network", "no dummy1"}},
       "rebooting B v2: it was not healthy within 60 s: the network is not complete: no dummy1"},
      {{{"network", "no dummy1"}, {"link eth0", ""}},
       {{"network", "no dummy1"}, {"link eth0", ""}},
       "done B v2: "},
  };
  for (auto& row : rows) {
    {
      System old(disk);
      ASSERT_EQ(old.running, Slot::kA);
      old.doing = row.before;
      old.boot(scope);
      old.upgrader.rollback(60).wait(scope);
    }
    System fresh(disk);
    fresh.doing = row.after;
    fresh.networkLacks = "no dummy1";
    fresh.boot(scope);
    advance(fresh.timer, scope, 62 * kj::SECONDS);
    EXPECT_EQ(fresh.status(), row.outcome.cStr());
    if (fresh.reboots == 0) break;
    System back(disk);
    back.boot(scope);
  }
}

// Catches: a node that returns to its old system because other nodes are down, although this does
// not help; a node that stays on trial for ever when they are back and it is unhealthy itself.
TEST_F(UpgraderTest, ATrialWaitsForOtherNodes) {
  {
    System old(disk);
    old.doing = {{"voter of etcd", ""}};
    old.boot(scope);
    old.upgrader.rollback(60).wait(scope);
  }
  System fresh(disk);
  fresh.doing = {{"voter of etcd", "no leader"}};
  fresh.elsewhere = true;
  fresh.boot(scope);
  advance(fresh.timer, scope, 58 * kj::SECONDS);
  EXPECT_FALSE(fresh.settled());
  advance(fresh.timer, scope, 600 * kj::SECONDS);
  EXPECT_TRUE(fresh.settled());
  EXPECT_EQ(fresh.reboots, 0u);
  EXPECT_EQ(fresh.status(), "trying B v2: voter of etcd: no leader");
  EXPECT_EQ(disk.environment.confirmed, Slot::kA);
  fresh.elsewhere = false;
  advance(fresh.timer, scope, 58 * kj::SECONDS);
  EXPECT_EQ(fresh.reboots, 0u);
  advance(fresh.timer, scope, 4 * kj::SECONDS);
  EXPECT_EQ(fresh.reboots, 1u);
}

// Catches: a system that is never healthy and stays; an old system that does not report why it is
// back, or is thought to be on trial itself.
TEST_F(UpgraderTest, ASickSystemMakesWay) {
  for (bool hopeless : {false, true}) {
    rollBack();
    {
      System fresh(disk);
      fresh.lacks = "no network";
      fresh.hopeless = hopeless;
      fresh.boot(scope);
      advance(fresh.timer, scope, (hopeless ? 1 : 59) * kj::SECONDS);
      EXPECT_EQ(fresh.reboots, hopeless ? 1u : 0u);
      advance(fresh.timer, scope, 3 * kj::SECONDS);
      EXPECT_EQ(fresh.reboots, 1u);
    }
    System old(disk);
    ASSERT_EQ(old.running, Slot::kA);
    old.boot(scope);
    EXPECT_THAT(old.status(), HasSubstr("failed A v1: the system in slot B (v2) was given up: "));
    EXPECT_THAT(old.status(), HasSubstr("no network"));
    EXPECT_THAT(old.said.back(), HasSubstr("rollback failed: "));
    EXPECT_TRUE(old.settled());
    EXPECT_TRUE(disk.environment.attempt == nullptr);
  }
}

// Catches: a power cut or a crash during the trial after which the new system is tried again, or
// the cause is not known.
TEST_F(UpgraderTest, ATrialThatEndsWithoutAReason) {
  for (bool started : {false, true}) {
    rollBack();
    {
      System fresh(disk);
      fresh.lacks = "service apid is not up";
      if (started) fresh.boot(scope);
      advance(fresh.timer, scope, 5 * kj::SECONDS);
    }
    System old(disk);
    ASSERT_EQ(old.running, Slot::kA);
    old.boot(scope);
    EXPECT_THAT(old.status(), HasSubstr(started ? "its last problem: service apid is not up"
                                                : "did not come up"));
  }
}

// Catches: a system on trial whose boot fails before it has the record, and that only process 1
// ends, or that ends without a reason; the failure of an earlier trial that is reported for a later
// one; a boot that fails without a trial, and reboots.
TEST_F(UpgraderTest, ABootThatFailsBeforeStateLeavesItsReason) {
  for (bool lost : {false, true}) {
    rollBack();
    disk.metaFails = lost;
    {
      System fresh(disk);
      fresh.upgrader.bootFailed(kj::str("service networkd\nis not there")).wait(scope);
      EXPECT_EQ(fresh.reboots, 1u);
      EXPECT_THAT(fresh.said.back(), HasSubstr("giving up slot B (v2): its boot failed: service"));
    }
    System old(disk);
    ASSERT_EQ(old.running, Slot::kA);
    old.boot(scope);
    EXPECT_THAT(old.status(),
                HasSubstr(lost ? "did not come up"
                               : "failed A v1: the system in slot B (v2) was given up: its boot "
                                 "failed: service networkd is not there"));
    EXPECT_TRUE(disk.trialFailure == nullptr);
    disk.metaFails = false;
    old.upgrader.bootFailed(kj::str("x")).wait(scope);
    EXPECT_EQ(old.reboots, 0u);
  }
  disk.trialFailure = kj::str("of an earlier one");
  rollBack();
  EXPECT_TRUE(disk.trialFailure == nullptr);
}

// Catches: a brain that died in the middle of a trial, and whose successor confirms immediately or
// never.
TEST_F(UpgraderTest, AnotherBrainGoesOnWithTheTrial) {
  rollBack();
  System fresh(disk);
  fresh.lacks = "no network";
  fresh.boot(scope);
  ++disk.environment.tries;  // the next brain is of the same start
  System next(disk);
  next.boot(scope);
  advance(next.timer, scope, 8 * kj::SECONDS);
  EXPECT_EQ(next.status(), "done B v2: ");
}

// Catches: a disk that does not write the confirmation, and a node that stays on a system which the
// next start does not use.
TEST_F(UpgraderTest, AConfirmationThatCannotBeWritten) {
  rollBack();
  System fresh(disk);
  fresh.boot(scope);
  disk.refuses = true;
  advance(fresh.timer, scope, 30 * kj::SECONDS);
  EXPECT_EQ(fresh.status(),
            "trying B v2: cannot confirm it: the disk does not take it; gives up in 30 s");
  EXPECT_FALSE(fresh.settled());
  advance(fresh.timer, scope, 40 * kj::SECONDS);
  EXPECT_EQ(fresh.reboots, 1u);
  EXPECT_EQ(disk.start(), Slot::kA);
}

// Catches: an upgrade of a node that cannot be upgraded; two at a time; an upgrade that stays under
// way after a failed pull.
TEST_F(UpgraderTest, WhatIsRefused) {
  System node(disk);
  node.boot(scope);
  node.pulls.runs = false;
  EXPECT_THAT(problem(node.upgrader.upgrade({kj::str("r/i:v2"), true, 5})),
              HasSubstr("the health timeout must be 30s to 24h"));
  EXPECT_THAT(problem(node.upgrader.upgrade({kj::str(""), true})), HasSubstr("--image"));
  std::string late;
  auto pulling = node.upgrader.upgrade({kj::str("r/i:v2"), true})
                     .catch_([&](kj::Exception&& e) { late = messageOf(e).cStr(); })
                     .eagerlyEvaluate(nullptr);
  EXPECT_EQ(node.status(), "fetching A v1: ");
  EXPECT_THAT(problem(node.upgrader.rollback(0)), HasSubstr("under way"));
  advance(node.timer, scope, 3 * kj::MINUTES);
  EXPECT_THAT(late, HasSubstr("its containerd does not run"));
  EXPECT_EQ(node.status(), "none A v1: ");
  disk.versions[1] = "";
  EXPECT_THAT(problem(node.upgrader.rollback(0)), HasSubstr("there is no system in slot B"));
  disk.versions[1] = "v2";
  EXPECT_EQ(problem(node.upgrader.rollback(0)), "");
  EXPECT_THAT(problem(node.upgrader.rollback(0)), HasSubstr("under way"));
  System trial(disk);
  trial.lacks = "x";
  trial.boot(scope);
  EXPECT_THAT(problem(trial.upgrader.rollback(0)),
              HasSubstr("return to the old one with talosctl reboot"));
  System container(disk, VolumesAs::kNone);
  container.boot(scope);
  EXPECT_EQ(container.status(), "none");
  EXPECT_THAT(problem(container.upgrader.rollback(0)), HasSubstr("has given it no slots"));
}

// Catches: an archive that is fetched and not written, or written without its places; a secret of
// its URL that is shown; progress that is not published; a name that breaks the lines of a console.
TEST_F(UpgraderTest, AnArchiveIsWritten) {
  for (bool file : {false, true}) {
    disk.environment = {};
    disk.record = nullptr;
    System node(disk);
    node.key = "PEM";
    node.boot(scope);
    UpgradeRequest request{kj::str(file ? "./installer\n.tar" : "https://h.example/i.tar"), true,
                           60};
    if (file) {
      request.file =
          ClientFile{.bytes = nullptr, .size = 5, .sha256 = nullptr, .signature = nullptr};
    } else {
      request.query = kj::str("token=secret");
    }
    auto asking = node.upgrader.upgrade(kj::mv(request)).eagerlyEvaluate(nullptr);
    scope.poll();
    EXPECT_EQ(node.archives.asked,
              file ? "receive ./installer .tar 5 PEM" : "fetch /i.tar?token=secret 0 PEM");
    EXPECT_EQ(node.status(), "fetching A v1: 30 % of 100 MiB");
    KJ_ASSERT_NONNULL(node.archives.held)->fulfill();
    asking.wait(scope);
    scope.poll();
    EXPECT_EQ(disk.written, "B vmlinuz 512 a=1");
    EXPECT_EQ(node.status(), "rebooting A v1: ");
    EXPECT_EQ(node.reboots, 1u);
    auto& record = KJ_ASSERT_NONNULL(disk.record);
    EXPECT_EQ(record.image, file ? "./installer .tar" : "https://h.example/i.tar");
    EXPECT_EQ(record.digest, file ? "sha256:12" : "https://h.example/i.tar#sha256=12");
    EXPECT_EQ(record.toVersion, "v3");
  }
}

// Catches: an image that is fetched for a node that etcd needs; a node that is restarted, or
// emptied, although etcd has come to need it meanwhile; pods that leave a node before its other
// slot is written, or together with etcd, or that stay away from a node that does not restart; a
// member whose data is emptied although it has not left; a flag that is not passed on; a turn to
// restart that is taken before the image has come, or kept by a node that does not restart; an
// image that has failed because another node was restarting.
TEST_F(UpgraderTest, EtcdIsAskedFirstAndLeftLast) {
  struct Row {
    bool preserve, force;
    const char* refuses;
    std::vector<std::string> asked;
  } rows[] = {
      {false, false, "", {"may leave", "drains", "leaves"}},
      {true, false, "", {"may restart", "restarts", "drains", "restarts"}},
      {false, true, "", {"drains", "forced leaves"}},
      {true, true, "may restart", {"forced restarts", "drains"}},
      {false, false, "may leave", {"may leave"}},
      {false, false, "leaves", {"may leave", "drains", "leaves"}},
      {true, false, "restarts", {"may restart", "restarts", "stays"}},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.asked.front() + ", refused: " + row.refuses);
    ModelDisk other;
    System node(other);
    node.boot(scope);
    node.etcdRefuses = row.refuses;
    UpgradeRequest request{kj::str("https://h.example/i.tar"), row.preserve, 60};
    request.force = row.force;
    std::string refusal;
    auto asking = node.upgrader.upgrade(kj::mv(request))
                      .catch_([&](kj::Exception&& e) { refusal = messageOf(e).cStr(); })
                      .eagerlyEvaluate(nullptr);
    scope.poll();
    bool refused = row.asked.back() == row.refuses || row.asked.back() == "stays";
    if (refused && row.asked.size() == 1) {
      EXPECT_EQ(refusal, "etcd has 1 voter");
      EXPECT_EQ(node.archives.asked, "") << "nothing is fetched";
      EXPECT_EQ(node.status(), "none A v1: ");
    } else {
      EXPECT_EQ(node.etcdAsked.size(), row.force ? 0u : 1u) << "the image is not there yet";
      KJ_ASSERT_NONNULL(node.archives.held)->fulfill();
      asking.wait(scope);
      scope.poll();
      bool ofImage = refused && !row.preserve;
      EXPECT_EQ(refusal, refused && row.preserve ? "etcd has 1 voter" : "");
      EXPECT_EQ(node.status(), ofImage   ? "failed A v1: etcd has 1 voter"
                               : refused ? "none A v1: "
                                         : "rebooting A v1: ");
      EXPECT_EQ(node.reboots, refused ? 0u : 1u);
      EXPECT_EQ(node.uncordoned, ofImage ? 1u : 0u) << "it stays, and was drained";
      EXPECT_EQ(other.start() == Slot::kB, !refused);
    }
    EXPECT_EQ(node.etcdAsked, row.asked);
  }
}

// Catches: an unsigned image of a registry that is unpacked for the slot, or whose verified digest
// is not the recorded one; an image that needs a signature although the config names no key.
TEST_F(UpgraderTest, ImagesOfRegistriesAreVerified) {
  System node(disk);
  node.boot(scope);
  node.pulls.registry["r.example/i:v2"] = "sha256:7";
  node.unsignedImage = "it is not signed";
  node.key = "PEM";
  EXPECT_EQ(problem(node.upgrader.upgrade({kj::str("r.example/i:v2"), true})), "it is not signed");
  EXPECT_EQ(node.verified, "r.example/i@sha256:7");
  EXPECT_EQ(node.pulls.viewed, 0u);
  EXPECT_EQ(node.status(), "none A v1: ");
  node.key = node.verified = "";
  EXPECT_EQ(problem(node.upgrader.upgrade({kj::str("r.example/i:v2"), true})), "");
  EXPECT_EQ(node.verified, "");
  EXPECT_EQ(node.pulls.viewed, 1u);
  scope.poll();
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).digest, "r.example/i@sha256:7");
}

// Catches: a rollback that begins when the slot is written and the node is about to reboot into it.
TEST_F(UpgraderTest, NothingBeginsBeforeItsReboot) {
  System node(disk);
  node.boot(scope);
  node.pulls.registry["r.example/i:v2"] = "sha256:7";
  EXPECT_EQ(problem(node.upgrader.upgrade({kj::str("r.example/i:v2"), true})), "");
  unsigned turns = 0;
  std::string refusals;
  kj::Vector<kj::Promise<void>> asked;
  while (node.reboots == 0 && ++turns < 10'000) {
    // An idle node would refuse the timeout instead.
    asked.add(node.upgrader.rollback(5)
                  .ignoreResult()
                  .catch_([&](kj::Exception&& e) {
                    if (kindOf(e) != ErrorKind::kConflict) refusals = messageOf(e).cStr();
                  })
                  .eagerlyEvaluate(nullptr));
    scope.poll(5);
  }
  scope.poll();
  EXPECT_GT(turns, 3u);
  EXPECT_EQ(node.reboots, 1u);
  EXPECT_EQ(refusals, "");
}

// Catches: an unsigned image that is written because the config's key is only checked for some; an
// upgrade that stays under way for ever after a refusal.
TEST_F(UpgraderTest, ArchivesThatAreRefused) {
  System node(disk);
  node.boot(scope);
  EXPECT_THAT(problem(node.upgrader.upgrade({kj::str("http://h.example/i.tar"), true})),
              HasSubstr("http does not authenticate the server"));
  EXPECT_EQ(node.archives.asked, "");
  node.archives.problem = "it is damaged";
  auto asking = node.upgrader.upgrade({kj::str("https://h.example/i.tar"), true});
  scope.poll();
  KJ_ASSERT_NONNULL(node.archives.held)->fulfill();
  EXPECT_EQ(problem(kj::mv(asking)), "it is damaged");
  EXPECT_EQ(node.status(), "none A v1: ");
  EXPECT_EQ(disk.written, "");
}

// Catches: an image that was verified with no key, or with another key than the config names when
// the slot is written: a fetch takes minutes.
TEST_F(UpgraderTest, TheKeyIsStillThatOfTheConfigWhenItIsWritten) {
  for (auto first : {"", "PEM"}) {
    System node(disk);
    node.key = first;
    node.boot(scope);
    auto asking = node.upgrader.upgrade({kj::str("https://h.example/i.tar"), true});
    scope.poll();
    node.key = "another PEM";
    KJ_ASSERT_NONNULL(node.archives.held)->fulfill();
    EXPECT_THAT(problem(kj::mv(asking)), HasSubstr("machine.install.imageKey was changed"));
    EXPECT_EQ(node.etcdAsked.back(), "stays");
    scope.poll();
    EXPECT_EQ(node.status(), "none A v1: ");
    EXPECT_EQ(disk.written, "");
  }
}

// Catches: a system that becomes the confirmed one without having been healthy, by a rollback from
// the slot that the boot loader chose by itself.
TEST_F(UpgraderTest, OnlyTheConfirmedSystemIsRolledBackFrom) {
  System node(disk);
  node.boot(scope);
  disk.environment.confirmed = Slot::kB;
  EXPECT_EQ(problem(node.upgrader.rollback(0)),
            "slot A runs, but slot B is the confirmed one; reboot into that first");
  EXPECT_EQ(disk.environment.confirmed, Slot::kB);
}

// Catches: a rollback that the boot loader has and that is not carried out, because its caller has
// gone; a rollback that says it is rebooting although it has failed.
TEST_F(UpgraderTest, ARollbackGoesOnOrIsOver) {
  System node(disk);
  node.boot(scope);
  {
    auto dropped = node.upgrader.rollback(0);
  }
  scope.poll();
  EXPECT_EQ(node.reboots, 1u);
  disk.environment = {};
  disk.record = nullptr;
  System other(disk);
  other.boot(scope);
  disk.refuses = true;
  EXPECT_EQ(problem(other.upgrader.rollback(0)), "the disk does not take it");
  EXPECT_EQ(other.status(), "failed A v1: the disk does not take it");
  EXPECT_EQ(other.reboots, 0u);
}

// Catches: a voter that restarts into its other system while the cluster needs it; a flag that is
// not passed on; a turn that is kept by a node that does not restart.
TEST_F(UpgraderTest, ARollbackAsksEtcdToo) {
  struct Row {
    bool force, disk;
    const char* refuses;
    std::vector<std::string> asked;
  } rows[] = {
      {false, true, "", {"may restart", "restarts"}},
      {true, true, "", {"forced restarts"}},
      {false, true, "may restart", {"may restart"}},
      {false, true, "restarts", {"may restart", "restarts"}},
      {false, false, "", {"may restart", "restarts", "stays"}},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.asked.back() + ", refused: " + row.refuses);
    ModelDisk other;
    System node(other);
    node.boot(scope);
    node.etcdRefuses = row.refuses;
    other.refuses = !row.disk;
    auto refusal = problem(node.upgrader.rollback(0, row.force));
    scope.poll();
    bool goes = row.disk && row.asked.back() != row.refuses;
    EXPECT_EQ(refusal, goes ? "" : row.disk ? "etcd has 1 voter" : "the disk does not take it");
    EXPECT_EQ(node.reboots, goes ? 1u : 0u);
    EXPECT_EQ(other.start() == Slot::kB, goes);
    if (row.disk && !goes) EXPECT_EQ(node.status(), "none A v1: ");
    EXPECT_EQ(node.etcdAsked, row.asked);
  }
}

// Catches: a good system whose boot fails because of its record of an earlier upgrade.
TEST_F(UpgraderTest, ARecordThatCannotBeReadIsSaid) {
  disk.unreadable = true;
  System node(disk);
  node.boot(scope);
  EXPECT_THAT(node.said.back(), HasSubstr("Input/output error"));
}

// Catches: a node whose slots are not partitions that is refused, or whose slots are looked for on
// a disk.
TEST_F(UpgraderTest, SlotsThatAreFolders) {
  disk.slotsAt = "/slots";
  System old(disk, VolumesAs::kFolders);
  old.boot(scope);
  old.upgrader.rollback(60).wait(scope);
  scope.poll();
  EXPECT_EQ(old.reboots, 1u);
  KJ_ASSERT_NONNULL(disk.record).empty = true;
  System fresh(disk, VolumesAs::kFolders);
  fresh.lacks = "x";
  fresh.boot(scope);
  EXPECT_THAT(fresh.status(), testing::StartsWith("trying B v2: x"));
  fresh.upgrader.emptyEphemeralIfAsked().wait(scope);
  EXPECT_THAT(disk.cleared, testing::ElementsAre("/var"));
  EXPECT_THAT(fresh.said.back(), HasSubstr("EPHEMERAL: /var was emptied"));
  System back(disk, VolumesAs::kFolders);
  back.boot(scope);
  EXPECT_TRUE(disk.environment.attempt == nullptr);
  EXPECT_THAT(back.status(), testing::StartsWith("failed A v1"));
}

// Catches: data that is emptied although it was to be kept, emptied twice, or by the old system.
TEST_F(UpgraderTest, EphemeralIsEmptiedOnce) {
  rollBack();
  KJ_ASSERT_NONNULL(disk.record).empty = true;
  System fresh(disk);
  fresh.lacks = "x";
  fresh.boot(scope);
  fresh.upgrader.emptyEphemeralIfAsked().wait(scope);
  fresh.upgrader.emptyEphemeralIfAsked().wait(scope);
  EXPECT_THAT(disk.cleared, testing::ElementsAre("/dev/vda6 16777216"));
  KJ_ASSERT_NONNULL(disk.record).empty = true;
  System old(disk);
  old.boot(scope);
  old.upgrader.emptyEphemeralIfAsked().wait(scope);
  EXPECT_EQ(disk.cleared.size(), 1u);
}

// Catches: a partition of another disk.
TEST(SystemPartitions, AreThoseOfTheDiskWithState) {
  auto devices = systemDisk("vdb");
  devices.add(part("vda", 1, "BOOT"));
  EXPECT_EQ(partitionOfSystem(devices, "BOOT"), "/dev/vdb3");
  for (auto& more : systemDisk("vdc")) devices.add(kj::mv(more));
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&] {
                partitionOfSystem(devices, "BOOT");
              }))).cStr(),
              HasSubstr("more than one disk"));
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&] {
                partitionOfSystem({}, "BOOT");
              }))).cStr(),
              HasSubstr("no disk has"));
}

}  // namespace talos::machined
