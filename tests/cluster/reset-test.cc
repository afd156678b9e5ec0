// Resets of nodes: erased data is gone, other data stays, and a reset is finished after any power
// cut. (For a whole disk see vm-install-test.cc.)
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <filesystem>
#include <regex>

#include "machined/disk/volumes/node-reset.h"
#include "tests/cuts/image.h"
#include "tests/cuts/recording.h"
#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr double kSlow = harness::kBoots;

// Returns "not begun" if nothing has changed, "marked" if a boot finishes the reset, "done" if all
// is erased. Throws for anything else.
std::string stateOfReset(const std::string& image, const std::string& config,
                         const std::string& folder) {
  KJ_REQUIRE(cuts::metaValue(image, 40) == "stays", "a value of META is lost");
  auto mark = cuts::metaValue(image, static_cast<uint32_t>(machined::MetaTag::kReset));
  if (!mark.empty()) {
    auto read = machined::requestOfMark(kj::arrayPtr(mark.data(), mark.size()));
    auto& request = KJ_REQUIRE_NONNULL(read, "the mark has no request", mark.c_str());
    KJ_REQUIRE(request.reboot && request.labels.size() == 1 && request.labels[0] == "STATE");
    return "marked";
  }
  auto state = cuts::part(image, "STATE");
  if (cuts::isAllZeros(image, state)) return "done";
  auto found = cuts::fileOfXfs(image, state, folder, "config.yaml");
  KJ_REQUIRE(KJ_REQUIRE_NONNULL(found, "STATE has no config") == config);
  return "not begun";
}

// Returns the event after which the reset is complete: the machine boots in the same run and
// creates STATE again.
size_t endOfReset(kj::WaitScope& scope, const std::string& log, size_t answered,
                  const std::string& config) {
  cuts::Scratch folder;
  cuts::Replay replay(scope, log, folder.path());
  bool done = false;
  auto event = answered;
  for (; !done && event < replay.events(); ++event) {
    replay.cut(event, cuts::Replay::When::kBefore, 0,
               [&] { done = stateOfReset(replay.images()[1], config, folder.path()) == "done"; });
  }
  KJ_REQUIRE(done, "the reset did not come to its end");
  return event - 1;
}

class Node {
 public:
  Node(const Cluster& cluster, std::string name) : cluster(cluster), name(std::move(name)) {}

  bool booted() { return cluster.booted(); }
  std::string bootId() {
    return cluster.talosctl({"--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}, 20).out;
  }
  // Returns true if this boot has made STATE.
  bool madeState() {
    return contains(cluster.talosctl({"--timeout", "5s", "logs", "machined"}, 20).out,
                    "STATE: /dev/vdb1 was empty; made an");
  }
  // The number of boots that STATE has records of, including this one.
  size_t records() {
    auto found = cluster.talosctl({"--timeout", "5s", "get", "bootrecords"}, 20);
    if (found.status != 0) return 0;
    return static_cast<size_t>(std::count(found.out.begin(), found.out.end(), '\n')) - 1;
  }
  bool marked() { return contains(cluster.ok({"meta", "read"}), "1380275013"); }
  size_t printed(const std::string& line) {
    auto text = cluster.console(name);
    size_t count = 0;
    for (size_t at = 0; (at = text.find(line, at)) != std::string::npos; at += line.size()) ++count;
    return count;
  }
  std::string tail() {
    auto text = cluster.console(name);
    return text.size() < 3000 ? text : text.substr(text.size() - 3000);
  }

 private:
  const Cluster& cluster;
  std::string name;
};

}  // namespace

// Catches, after a power cut at any write, with any part of the unflushed writes on the disk: a
// reset that is left half done, or undone although it was answered; a reset that is repeated at
// each boot; a value of META that is erased with STATE.
TEST(Reset, IsFinishedWhereverThePowerIsCut) {
  cuts::VolatileCluster cluster(
      "reset", {"--masters", "1", "--workers", "0", "--memory", "512", "--no-uplink"});
  const std::string name = "reset-master-1";
  Node node(cluster, name);
  ASSERT_TRUE(eventually([&] { return node.booted(); }, kSlow));
  cluster.ok({"meta", "write", "40", "stays"});
  auto config = cluster.ok({"read", "/system/state/config.yaml"});
  auto before = node.bootId();
  cuts::Recording recording(cluster, name);
  cluster.ok({"reset", "--reboot", "--graceful=false", "--wait=false", "--system-labels-to-wipe",
              "STATE"});
  auto answered = recording.position();
  auto isBack = [&] {
    auto now = node.bootId();
    return !now.empty() && now != before && node.booted() && node.madeState();
  };
  ASSERT_TRUE(eventually(isBack, kSlow)) << node.tail();
  recording.stop();

  cuts::Scratch folder;
  std::vector<cuts::Sample> samples;
  {
    kj::EventLoop loop;
    kj::WaitScope scope(loop);
    cuts::Replay replay(scope, recording.log(), folder.path());
    cuts::Outcomes outcomes("a reset");
    auto end = endOfReset(scope, recording.log(), answered, config);
    // The node may be done before the answer has arrived here: then there is nothing that follows
    // it.
    std::string whenAnswered = "marked";
    std::vector<cuts::Window> windows = {{0, answered, true}};
    if (end > answered) {
      windows.push_back({answered, end, true});
    } else {
      whenAnswered = "done";
    }
    samples = cuts::replayCuts(
        replay, cuts::chooseCuts(replay, windows, cuts::cutsToMake(40)), outcomes,
        [&](const cuts::CutAt& cut) {
          auto state = stateOfReset(replay.images()[1], config, folder.path());
          KJ_REQUIRE(cut.window == 0 || state != "not begun", "it was answered");
          bool atEnd = cut.when == cuts::Replay::When::kBefore;
          KJ_REQUIRE(!atEnd || state == (cut.window == 0 ? whenAnswered : "done"), state.c_str());
          return state;
        },
        kj::max(cuts::samplesToBoot(), size_t(1)), folder.path());
    EXPECT_GT(outcomes.of("marked"), 0u);
    EXPECT_GT(outcomes.of("done"), 0u);
  }
  for (auto& sample : samples) {
    SCOPED_TRACE("event " + std::to_string(sample.at.event) + ", " + sample.kind);
    auto finished = node.printed("a reset was interrupted; finishing it");
    cuts::startWith(cluster, name, sample);
    bool erased = sample.kind != "not begun";
    ASSERT_TRUE(eventually([&] { return node.booted() && node.madeState() == erased; }, kSlow))
        << node.tail();
    EXPECT_EQ(node.printed("a reset was interrupted; finishing it") - finished,
              sample.kind == "marked");
    EXPECT_FALSE(node.marked());
    if (erased) EXPECT_LE(node.records(), 1u);  // nothing of earlier boots
    EXPECT_TRUE(contains(cluster.ok({"meta", "read", "40"}), "stays"));
  }
}

// Catches: folders that are not emptied, other folders that are, a node that does not end in the
// requested way, a label that a container does not have and accepts.
TEST(Reset, AContainerEmptiesItsFolders) {
  Cluster cluster("resetbox", {"--provisioner", "container", "--masters", "1", "--workers", "0"});
  Node node(cluster, "resetbox-master-1");
  auto folder = std::filesystem::path(cluster.stateFolder()) / "resetbox-master-1";
  auto config = folder / "state" / "config.yaml", data = folder / "var" / "system";
  auto ready = [&] { return eventually([&] { return node.booted(); }, 60); };
  ASSERT_TRUE(ready());
  ASSERT_TRUE(std::filesystem::exists(config));
  ASSERT_TRUE(std::filesystem::exists(data));

  auto refused = cluster.talosctl({"reset", "--system-labels-to-wipe", "STATE,BOOT"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "a node in a container has no partition BOOT")) << refused.err;

  // Off, without its data and with its config.
  auto reset = cluster.talosctl({"reset", "--system-labels-to-wipe", "EPHEMERAL"}, 60);
  EXPECT_EQ(reset.status, 0) << reset.err;
  EXPECT_TRUE(contains(reset.err, "erases EPHEMERAL (/var); then shuts down")) << reset.err;
  ASSERT_TRUE(
      eventually([&] { return contains(cluster.talosctl({"cluster", "show"}).out, " off"); }, 30));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "var"));
  EXPECT_TRUE(std::filesystem::exists(config));
  EXPECT_FALSE(std::filesystem::exists(folder / "state" / "reset"));

  cluster.ok({"cluster", "node", "start", "resetbox-master-1"});
  ASSERT_TRUE(ready());
  EXPECT_TRUE(std::filesystem::exists(data));

  // Back, without either: it has its config from where it had it first.
  auto before = node.bootId();
  cluster.ok({"reset", "--reboot", "--wait=false"});
  ASSERT_TRUE(eventually([&] { return !node.bootId().empty() && node.bootId() != before; }, 60));
  ASSERT_TRUE(ready());
  EXPECT_LE(node.records(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder / "state" / "reset"));
}

}  // namespace talos
