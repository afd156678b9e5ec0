// A node that is upgraded, and a node whose new system is bad: it returns to the old system by
// itself, and says why.
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <atomic>
#include <map>
#include <memory>
#include <regex>
#include <thread>

#include "tests/cuts/installed.h"
#include "tests/cuts/recording.h"
#include "tests/harness/foreign-client.h"
#include "tests/vm/upgrades.h"

namespace talos::vm {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

// The systems in the two slots, when they are whole.
using Systems = std::map<std::string, cuts::System>;

Systems systemsAtTheEnd(kj::WaitScope& scope, const cuts::Recording& recording) {
  cuts::Scratch folder;
  cuts::Replay replay(scope, recording.log(), folder.path());
  Systems systems;
  replay.cut(replay.events(), cuts::Replay::When::kBefore, 0,
             [&] { systems = cuts::bootView(replay.images()[0], folder.path()).slots; });
  return systems;
}

// The system that the boot loader would start from the disk after a cut: "old", "to be tried" or
// "new" of the slots that it names. look() throws if one of them is not whole.
class BootedAfterCut {
 public:
  BootedAfterCut(std::string image, std::string folder, std::string config, Systems whole)
      : image(std::move(image)),
        folder(std::move(folder)),
        config(std::move(config)),
        whole(std::move(whole)) {}

  std::string look() {
    auto stored = cuts::fileOfXfs(image, cuts::part(image, "STATE"), folder, "config.yaml");
    KJ_REQUIRE(KJ_REQUIRE_NONNULL(stored, "STATE has no config") == config);
    auto now = cuts::contentKey(image, cuts::part(image, "BOOT"));
    if (now != key || kind.empty()) {
      kind = lookAtSlots();
      key = now;
    }
    return kind;
  }

 private:
  std::string image, folder, config, kind;
  Systems whole;
  size_t key = 0;

  std::string lookAtSlots() {
    auto view = cuts::bootView(image, folder);
    for (auto& [name, system] : view.slots) {
      KJ_REQUIRE(system == whole.at(name), "what would be started is not whole", name.c_str());
    }
    if (view.state.confirmed == install::Slot::kB) return "new";
    return view.slots.size() == 2 ? "to be tried" : "old";
  }
};

// Returns the window from the first write to BOOT on.
cuts::Window windowOf(const cuts::Replay& replay) {
  auto boot = cuts::part(replay.images()[0], "BOOT");
  size_t begin = 0;
  for (; begin < replay.events(); ++begin) {
    auto offset = replay.record(begin).offset;
    if (replay.changes(begin) && offset >= boot.offset && offset < boot.offset + boot.size) break;
  }
  return {begin, replay.events(), true};
}

struct CutUpgrade {
  const char* what;
  unsigned count;
  const std::string& config;
  const Systems& whole;
  std::string last;  // at the end it is this
};

// Returns `samples` samples, in `kept`.
std::vector<cuts::Sample> cutUpgrade(kj::WaitScope& scope, const cuts::Recording& recording,
                                     const CutUpgrade& how, size_t samples = 0,
                                     const std::string& kept = "") {
  cuts::Scratch folder;
  cuts::Replay replay(scope, recording.log(), folder.path());
  BootedAfterCut booted(replay.images()[0], folder.path(), how.config, how.whole);
  cuts::Outcomes outcomes(how.what);
  auto taken = cuts::replayCuts(
      replay, cuts::chooseCuts(replay, {windowOf(replay)}, how.count), outcomes,
      [&](const cuts::CutAt& cut) {
        auto state = booted.look();
        KJ_REQUIRE(cut.when == cuts::Replay::When::kAt || state == how.last, state.c_str());
        return state;
      },
      samples, kept);
  if (how.count >= cuts::kMany) EXPECT_GT(outcomes.all(), outcomes.of(how.last));
  return taken;
}

// Looked at when the boot is over, which may be a moment ago.
void expectVolumesAndMounts(Cluster& cluster) {
  std::string shown;
  auto shows = [&](const char* type, const char* row) {
    return eventually(
        [&] {
          shown = cluster.ok({"get", type});
          return std::regex_search(shown, std::regex(row));
        },
        60, 0.5);
  };
  EXPECT_TRUE(shows("discoveredvolumes", "vda +\\d+ +disk +4.3 GB +gpt")) << shown;
  EXPECT_TRUE(shows("discoveredvolumes", "vda5 +\\d+ +partition +105 MB +xfs +STATE +STATE"))
      << shown;
  EXPECT_TRUE(shows("mountstatus", "EPHEMERAL +\\d+ +/dev/vda6 +/var +xfs +false")) << shown;
}

// One upgrade, in two recordings: until the reboot, and of the new system until it is confirmed.
struct RecordedUpgrade {
  cuts::Recording before;
  std::unique_ptr<cuts::Recording> after;
  std::string config;
  harness::Result result;

  RecordedUpgrade(cuts::VolatileCluster& cluster, Machine& node, const std::string& image)
      : before(cluster, node.name), config(cluster.ok({"read", "/system/state/config.yaml"})) {
    std::atomic<bool> over = false;
    std::thread following([&] {
      eventually(
          [&] {
            // A second recording is refused until the first has ended.
            KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                           after = std::make_unique<cuts::Recording>(cluster, node.name);
                         })) {
              return over.load();
            }
            return true;
          },
          2 * kComesUp, 0.2);
    });
    result = node.upgradeTo(image, {"--preserve"});
    over = true;
    following.join();
    EXPECT_EQ(before.problem(), "");
    if (after != nullptr) after->stop();
  }
};

// Upgrades and rolls back as clients of Talos do: their calls return at once, and they watch
// the node.
void byAForeignClient(Cluster& cluster, Machine& node, Images& images) {
  constexpr const char* kNode = "10.5.0.2";
  auto becomes = [&](const char* slot) {
    EXPECT_TRUE(eventually(
        [&] { return node.slot() == slot && contains(node.status(), "stage: done"); }, kComesUp, 1))
        << node.status() << cluster.console(node.name);
  };
  harness::runForeignClient(cluster, "^Test(Machine|ConfigKeys)$", kNode, {});
  harness::runForeignClient(cluster, "^TestUpgrade$", kNode,
                            {"IMAGE=" + images.inRegistry("v9.9.1")});
  becomes("B");
  harness::runForeignClient(cluster, "^TestRollback$", kNode, {});
  becomes("A");
}

// Upgrades from slot A to slot B, by the reboot after the staging.
void staged(Cluster& cluster, Machine& node, const std::string& image) {
  constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
  ASSERT_EQ(node.slot(), "A");
  auto boot = cluster.ok({"read", kBootId});
  auto stage = [&] {
    auto result = node.upgradeTo(image, {"--preserve", "--stage"});
    EXPECT_EQ(result.status, 0) << result.err << cluster.console(node.name);
    EXPECT_TRUE(contains(result.err, ", tried at the next reboot; running slot A (")) << result.err;
    EXPECT_TRUE(contains(node.status(), "stage: staged")) << node.status();
  };
  stage();
  auto withdrawal = cluster.talosctl({"rollback"}, kComesUp);
  EXPECT_EQ(withdrawal.status, 0) << withdrawal.err;
  EXPECT_TRUE(contains(node.status(), "stage: withdrawn")) << node.status();
  stage();
  EXPECT_EQ(cluster.ok({"read", kBootId}), boot) << "it has rebooted";
  EXPECT_EQ(node.slot(), "A");

  cluster.ok({"reboot"}, kComesUp);
  EXPECT_EQ(node.slot(), "B");
  EXPECT_TRUE(node.tells("is on trial")) << cluster.console(node.name);
  EXPECT_TRUE(eventually([&] { return contains(node.status(), "stage: done"); }, kComesUp, 1))
      << node.status() << cluster.console(node.name);
  cluster.ok({"reboot"}, kComesUp);
  EXPECT_EQ(node.slot(), "B") << "it was not confirmed";
}

}  // namespace

// Catches: an image that is started although it is damaged; a bad system that stays, or whose end
// is not reported; a good system, built as the users' documents say, that does not stay; a config
// or data that are lost with it; a rollback to no system. An archive from a web server, or a file,
// that does not arrive, or in which the system is not found.
TEST_F(Upgrade, ToGoodOnesAndBadOnes) {
  Images images(folder);
  images.make("v9.9.1", {});
  images.make("v9.9.3", {"TREE=" + ending("usr/sbin/init")});
  images.make("v9.9.4", {"REMOVE=" + listOf("usr/bin/apid")});
  cuts::VolatileCluster cluster("upgrade", upgradeFlags({"--with-bootloader"}), kComesUp);
  Machine node{cluster, "upgrade-master-1"};
  ASSERT_EQ(node.slot(), "A");

  expectVolumesAndMounts(cluster);
  node.expectBackOn("A", node.upgradeTo(images.truncated("v9.9.1", "v9.9.2")),
                    "rootfs.sqsh is damaged or cut off: its SHA-256 is");
  node.expectBackOn("A", node.upgradeTo(images.onServer("v9.9.3")),
                    "the system in slot B (v9.9.3) did not come up");
  node.expectBackOn(
      "A", node.upgradeTo(images.file("v9.9.4"), {"--preserve", "--health-timeout", "30s"}),
      "was given up: it was not healthy within 30 s: ");
  EXPECT_TRUE(contains(node.status(), "service apid is not up")) << node.status();

  RecordedUpgrade recorded(cluster, node, images.derived("v9.9.1", "v9.9.5"));
  auto& good = recorded.result;
  EXPECT_EQ(good.status, 0) << good.err << cluster.console(node.name);
  EXPECT_EQ(good.out, "");  // what it follows is on stderr
  EXPECT_EQ(node.slot(), "B");
  EXPECT_TRUE(contains(node.status(), "stage: done")) << node.status();
  auto pinned = "digest: ghcr.io/talos/installer@" + Images::digestOf("v9.9.5") + "\n";
  EXPECT_TRUE(contains(node.status(), pinned)) << pinned << node.status();
  EXPECT_TRUE(contains(cluster.ok({"image", "list"}), "installer")) << "--preserve lost /var";
  EXPECT_EQ(cluster.ok({"read", "/etc/site.conf"}), "a site of its own\n");
  EXPECT_FALSE(contains(cluster.ok({"list", "/etc/ssl/certs"}), "ca-certificates\n"))
      << "RM did not remove it";

  {
    kj::EventLoop loop;
    kj::WaitScope scope(loop);
    auto whole = systemsAtTheEnd(scope, recorded.before);
    EXPECT_EQ(whole.at("A").kernel, whole.at("B").kernel);
    cutUpgrade(scope, recorded.before, {"an upgrade", 5, recorded.config, whole, "to be tried"});
  }

  // Confirmed: a reboot stays.
  cluster.ok({"reboot"}, kComesUp);
  EXPECT_EQ(node.slot(), "B");

  auto back = cluster.talosctl({"rollback"}, kComesUp);
  EXPECT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(node.slot(), "A");
  EXPECT_TRUE(contains(node.status(), "stage: done")) << node.status();
  if (!harness::foreignClient().empty()) byAForeignClient(cluster, node, images);
}

// Catches: an image that is staged and reboots the node at once, or that the next reboot does not
// try, or whose trial is not confirmed.
TEST_F(Upgrade, StagedForTheNextReboot) {
  Images images(folder);
  images.make("v9.9.1", {});
  cuts::VolatileCluster cluster("upgrade", upgradeFlags({"--with-bootloader"}), kComesUp);
  Machine node{cluster, "upgrade-master-1"};
  staged(cluster, node, images.inRegistry("v9.9.1"));
}

// Catches, after a power cut at any write, with any part of the unflushed writes on the disk: a
// slot that is chosen before it is whole on the disk, as the boot loader reads it; the running
// system written over; an invalid record of the slots; a config that is lost.
TEST_F(Upgrade, PowerCuts) {
  Images images(folder);
  images.make("v9.9.1", {});
  cuts::VolatileCluster cluster("upgradecut", upgradeFlags({"--with-bootloader"}), kComesUp);
  Machine node{cluster, "upgradecut-master-1"};
  RecordedUpgrade recorded(cluster, node, images.inRegistry("v9.9.1"));
  EXPECT_EQ(recorded.result.status, 0) << recorded.result.err << cluster.console(node.name);
  ASSERT_NE(recorded.after, nullptr);
  auto count = cuts::cutsToMake(300), early = count * 2 / 3;
  cuts::Scratch kept;
  std::vector<cuts::Sample> samples;
  {
    kj::EventLoop loop;
    kj::WaitScope scope(loop);
    auto whole = systemsAtTheEnd(scope, recorded.before);
    EXPECT_EQ(whole.at("A").kernel, whole.at("B").kernel);
    samples =
        cutUpgrade(scope, recorded.before,
                   {"an upgrade, until the reboot", early, recorded.config, whole, "to be tried"},
                   cuts::samplesToBoot(), kept.path());
    cutUpgrade(scope, *recorded.after,
               {"an upgrade, until it is confirmed", count - early, recorded.config, whole, "new"});
  }
  for (auto& sample : samples) {
    SCOPED_TRACE("event " + std::to_string(sample.at.event) + ", " + sample.kind);
    cuts::startWith(cluster, node.name, sample);
    EXPECT_TRUE(eventually([&] { return !node.slot().empty(); }, kComesUp, 1))
        << cluster.console(node.name);
    EXPECT_EQ(node.slot(), sample.kind == "old" ? "A" : "B");
  }
}

}  // namespace talos::vm
