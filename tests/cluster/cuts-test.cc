// Power cuts while a node writes its config, or META: afterwards it boots with the old or with the
// new one, and with the new one if it had acknowledged it. A machine suffers a few of the cuts and
// boots after each; for many more, the disks are made from a recording, and read by the code that a
// boot uses.
//
// The configs differ from the config that a node can fetch again: a node that has lost its config
// and fetched this one has neither the old nor the new one.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <regex>
#include <thread>

#include "machined/config/trial-record.h"
#include "tests/cuts/image.h"
#include "tests/cuts/recording.h"

namespace talos {
namespace {

using cuts::VolatileCluster;
using harness::Background;
using harness::contains;
using harness::eventually;

constexpr double kSlow = harness::kBoots;
constexpr unsigned kWrites = 16;         // of an apply, more or less
constexpr unsigned kFirstValue = 65530;  // of vm.max_map_count, so that every config is another

constexpr unsigned kBootedCuts = 8;  // of the config
constexpr unsigned kBootedMetaCuts = 2;
constexpr unsigned kMostHarmfulCuts = 20;  // of a config that stops etcd
constexpr double kGoesBack = 300;          // a boot with it, its trial, and the boot without it

struct Outcomes {
  std::atomic<unsigned> old = 0, fresh = 0, cuts = 0;
};

class Victim {
 public:
  Victim(const VolatileCluster& cluster, unsigned number)
      : cluster(cluster),
        address("10.5.0." + std::to_string(number + 1)),
        name("cuts-master-" + std::to_string(number)) {}

  // Applies a config and cuts the node's power at this write; 0: when the node has acknowledged it.
  void cutAt(unsigned write, uint64_t seed, Outcomes& outcomes) {
    auto before = value, after = value + 1;
    auto what = name + " at write " + std::to_string(write) + ", seed " + std::to_string(seed);
    ASSERT_TRUE(eventually([&] { return booted(); }, kSlow)) << what << "\n" << tail();
    std::future<std::optional<disk::Cut>> cutting;
    if (write > 0) {
      cutting = std::async(std::launch::async,
                           [&] { return cluster.killAtWrite(name, write, seed, 40); });
    }
    Background apply(cluster.command(own({"--timeout", write > 0 ? "30s" : "120s", "patch", "mc",
                                          "--immediate", "--patch", patch(after)})));
    bool cut = false;
    if (write > 0) {
      cut = cutting.get().has_value();
    } else {
      EXPECT_EQ(apply.finish(150), 0) << what << apply.err();
    }
    if (!cut) cluster.killNow(name, seed);
    cluster.ok({"cluster", "node", "start", name});
    // Its output so far; it may still wait for an answer that is lost.
    if (write > 0 && apply.finish(20) < 0) apply.interrupt(20);
    bool promised = contains(apply.out() + apply.err(), "applied: in effect");
    ASSERT_TRUE(eventually([&] { return read() != 0; }, kSlow))
        << what << ": it has neither config\n"
        << tail();
    EXPECT_TRUE(value == before || value == after) << what << ": " << value;
    if (promised) EXPECT_EQ(value, after) << what << ": it had said that it has the new one";
    outcomes.cuts += cut || write == 0;
    (value == after ? outcomes.fresh : outcomes.old) += 1;
  }

  bool booted() { return cluster.booted(address); }
  void apply(unsigned to) {
    cluster.ok(own({"patch", "mc", "--immediate", "--patch", patch(to)}));
    value = to;
  }

 private:
  const VolatileCluster& cluster;
  std::string address, name;
  unsigned value = 0;  // in the config that it has

  // Calls the node directly, because another node's power may be cut meanwhile.
  std::vector<std::string> own(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"-e", cluster.endpoint(address), "-n", address});
    return arguments;
  }
  static std::string patch(unsigned to) {
    return R"([{"op":"add","path":"/machine/sysctls","value":{"vm.max_map_count":")" +
           std::to_string(to) + R"("}}])";
  }
  // 0 when it does not answer.
  unsigned read() {
    auto said = cluster.talosctl(own({"get", "mc", "-o", "yaml"}), 20);
    std::smatch match;
    static const std::regex line("vm.max_map_count: \"([0-9]+)\"");
    if (said.status != 0 || !std::regex_search(said.out, match, line)) return 0;
    return value = static_cast<unsigned>(std::stoul(match[1].str()));
  }
  std::string tail() {
    auto text = cluster.console(name);
    return text.size() < 3000 ? text : text.substr(text.size() - 3000);
  }
};

// Catches: a config that is written in place, or renamed before it is on the disk, an answer before
// then; a disk that loses flushed writes, or no writes.
TEST(PowerCuts, ANodeHasTheOldConfigOrTheNewOne) {
  VolatileCluster cluster("cuts",
                          {"--masters", "2", "--workers", "0", "--memory", "512", "--no-uplink"});
  Outcomes outcomes;
  auto suffer = [&](unsigned number) {
    Victim victim(cluster, number);
    ASSERT_TRUE(eventually([&] { return victim.booted(); }, kSlow));
    victim.apply(kFirstValue);
    for (unsigned i = number - 1; i < kBootedCuts && !testing::Test::HasFailure(); i += 2) {
      victim.cutAt(2 * i % (kWrites + 1), i % 2 == 0 ? 0 : i, outcomes);
    }
  };
  std::thread other(suffer, 2);
  suffer(1);
  other.join();
  std::cerr << outcomes.cuts << " cuts at their write; old config " << outcomes.old << ", new "
            << outcomes.fresh << "\n";
  EXPECT_GE(outcomes.cuts, kBootedCuts / 2) << "the others were cut later than asked";
  EXPECT_GT(outcomes.old, 0);
  EXPECT_GT(outcomes.fresh, 0);
}

// Catches: a copy of META that is written while the other is not whole, an answer before a value is
// on the disk; a change that loses the other values.
TEST(PowerCuts, AValueOfMetaIsTheOldOneOrTheNewOne) {
  VolatileCluster cluster("metacuts",
                          {"--masters", "1", "--workers", "0", "--memory", "512", "--no-uplink"});
  const std::string name = "metacuts-master-1";
  Victim victim(cluster, 1);
  auto read = [&](const char* key) {
    std::smatch match;
    auto said = cluster.talosctl({"--timeout", "5s", "meta", "read", key}, 20).out;
    static const std::regex row("10.5.0.2 +[0-9]+ +(\\S+)\n");
    return std::regex_search(said, match, row) ? match[1].str() : std::string();
  };
  ASSERT_TRUE(eventually([&] { return victim.booted(); }, kSlow));
  cluster.ok({"meta", "write", "41", "other"});
  cluster.ok({"meta", "write", "40", "value-0"});
  unsigned old = 0, fresh = 0;
  for (unsigned i = 1; i <= kBootedMetaCuts && !testing::Test::HasFailure(); ++i) {
    auto write = std::to_string(2 * i), before = read("40"), after = "value-" + std::to_string(i);
    SCOPED_TRACE("write " + write + ", seed " + std::to_string(i - 1));
    auto cutting =
        std::async(std::launch::async, [&] { return cluster.killAtWrite(name, 2 * i, i - 1, 40); });
    Background change(cluster.command({"--timeout", "15s", "meta", "write", "40", after}));
    bool promised = change.finish(60) == 0;
    if (!cutting.get()) cluster.kill(name);
    cluster.ok({"cluster", "node", "start", name});
    ASSERT_TRUE(eventually([&] { return victim.booted() && !read("40").empty(); }, kSlow));
    auto now = read("40");
    EXPECT_TRUE(now == before || now == after) << before << " became " << now;
    if (promised) EXPECT_EQ(now, after);
    EXPECT_EQ(read("41"), "other");
    (now == after ? fresh : old) += 1;
  }
  std::cerr << "META: old value " << old << ", new " << fresh << "\n";
  EXPECT_GT(old + fresh, 0u);
}

// Catches: a config on trial that stays, because a power cut ends its trial or leaves no way back.
TEST(PowerCuts, AConfigThatStrandsTheNodeGoesBack) {
  VolatileCluster cluster("trialcuts", {"--masters", "1", "--workers", "0", "--memory", "512",
                                        "--no-uplink", "--bootstrap=true"});
  const std::string name = "trialcuts-master-1";
  ASSERT_TRUE(eventually([&] { return cluster.booted(); }, kSlow));
  auto before = cluster.ok({"read", "/system/state/config.yaml"});
  // A machine's console has only what is alarming.
  auto isOnTrial = [&] {
    return contains(cluster.talosctl({"--timeout", "5s", "status"}, 20).out, "is on trial");
  };
  // An etcd that cannot start, and a change that needs a reboot.
  auto applied = cluster.talosctl(
      {"patch", "mc", "--mode=reboot", "--trial-timeout=1m", "-p",
       "machine: {env: {NEW: \"1\"}}\ncluster: {etcd: {extraArgs: {no-such-argument: \"1\"}}}"});
  ASSERT_EQ(applied.status, 0) << applied.err;
  for (unsigned cut = 1; cut <= 2; ++cut) {  // during the trial
    ASSERT_TRUE(eventually(isOnTrial, kSlow, 0.5)) << cluster.console(name);
    cluster.killNow(name, cut);
    cluster.ok({"cluster", "node", "start", name});
  }
  auto comesBack = [&] {
    return contains(cluster.console(name), "the previous config comes back");
  };
  ASSERT_TRUE(eventually(comesBack, kSlow, 0.5)) << cluster.console(name);
  cluster.killNow(name, 0);  // while it goes back
  cluster.ok({"cluster", "node", "start", name});
  ASSERT_TRUE(eventually([&] { return cluster.booted(); }, kSlow)) << cluster.console(name);
  EXPECT_EQ(cluster.ok({"read", "/system/state/config.yaml"}), before);
  EXPECT_TRUE(contains(cluster.ok({"status"}), "the last change of the config went back: "));
}

// A node with a change of its config that stops etcd.
class Stranded {
 public:
  explicit Stranded(const VolatileCluster& cluster) : cluster(cluster) {}

  std::string config() const {
    return cluster.talosctl({"--timeout", "5s", "read", "/system/state/config.yaml"}, 20).out;
  }
  bool isOnTrial() const {
    return contains(cluster.talosctl({"--timeout", "5s", "status"}, 20).out, "is on trial");
  }
  // Applies the change, and cuts the power at this write, or else when the node has answered.
  void cutAt(unsigned write, const std::string& mode, uint64_t seed) {
    auto cutting =
        std::async(std::launch::async, [&] { return cluster.killAtWrite(kName, write, seed, 40); });
    Background apply(
        cluster.command({"--timeout", "30s", "patch", "mc", mode, "--trial-timeout=1m", "-p",
                         "machine: {env: {NEW: \"" + mode + std::to_string(write) +
                             "\"}}\ncluster: {etcd: {extraArgs: {no-such-argument: \"1\"}}}"}));
    if (!cutting.get().has_value()) cluster.killNow(kName, seed);
    cluster.ok({"cluster", "node", "start", kName});
    if (apply.finish(20) < 0) apply.interrupt(20);
  }

  static constexpr const char* kName = "harmcuts-master-1";

 private:
  const VolatileCluster& cluster;
};

// Catches: a harmful config that stays because the power went at some write of its apply: before or
// after its record, its copy, or the reboot; a good one that is lost because the power went at the
// end of its trial.
TEST(PowerCuts, AHarmfulConfigGoesBackAfterACutOfItsApply) {
  VolatileCluster cluster("harmcuts", {"--masters", "1", "--workers", "0", "--memory", "512",
                                       "--no-uplink", "--bootstrap=true"});
  Stranded node(cluster);
  auto works = [&] { return cluster.booted() && !node.isOnTrial(); };
  ASSERT_TRUE(eventually(works, kSlow));
  auto before = node.config();
  auto count = kj::min(cuts::cutsToMake(4), kMostHarmfulCuts);
  for (unsigned i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    auto write = 1 + i * kWrites / count;
    auto mode = i % 2 == 0 ? "--mode=reboot" : "--mode=staged";
    SCOPED_TRACE(mode + (" write " + std::to_string(write)));
    node.cutAt(write, mode, i % 3);
    ASSERT_TRUE(eventually([&] { return works() && node.config() == before; }, kSlow + kGoesBack))
        << cluster.console(node.kName);
  }
  // The end of the trial of a good one.
  cluster.ok({"patch", "mc", "--mode=no-reboot", "-p",
              R"(machine: {sysctls: {vm.max_map_count: "65531"}})"});
  auto after = node.config();
  EXPECT_NE(after, before);
  if (!cluster.killAtWrite(node.kName, 2, 0, 40).has_value()) cluster.killNow(node.kName, 0);
  cluster.ok({"cluster", "node", "start", node.kName});
  ASSERT_TRUE(eventually(works, kSlow)) << cluster.console(node.kName);
  EXPECT_EQ(node.config(), after);
}

// The image that has this partition.
const std::string& imageWith(const cuts::Replay& replay, const char* name) {
  for (auto& image : replay.images()) {
    if (cuts::findPart(image, name) != nullptr) return image;
  }
  KJ_FAIL_REQUIRE("no disk has the partition", name);
}

std::string stateOf(const cuts::CutAt& cut, const std::string& found, const std::string& before,
                    const std::string& after, const char* what) {
  KJ_REQUIRE(found == after || found == before, "it has neither", what, found.size());
  bool answered = cut.when == cuts::Replay::When::kBefore;
  KJ_REQUIRE(!answered || found == after, "what was answered is lost", what);
  return answered ? "new, as answered" : found == after ? "new" : "old";
}

// The changes of a node while it was recorded: in each window the value or the config of its number
// becomes the next one.
struct Changes {
  std::vector<cuts::Window> ofMeta, ofConfig;
  std::vector<std::string> configs;
  std::vector<bool> onTrial;  // for each window of a config: its trial had not ended at its end
  static std::string value(size_t i) { return "value-" + std::to_string(i); }
};

Changes makeChanges(const VolatileCluster& cluster, Victim& victim, cuts::Recording& recording,
                    unsigned count) {
  Changes made;
  auto config = [&] { return cluster.ok({"read", "/system/state/config.yaml"}); };
  auto isOnTrial = [&] { return contains(cluster.ok({"status"}), "is on trial"); };
  auto during = [&](std::vector<cuts::Window>& windows, auto&& act) {
    auto begin = recording.position();
    act();
    windows.push_back({begin, recording.position(), true});
  };
  for (unsigned i = 1; i <= count; ++i) {
    during(made.ofMeta, [&] { cluster.ok({"meta", "write", "40", Changes::value(i)}); });
  }
  made.configs.push_back(config());
  for (unsigned i = 1; i <= count; ++i) {
    EXPECT_TRUE(eventually([&] { return !isOnTrial(); }, kSlow));
    during(made.ofConfig, [&] { victim.apply(kFirstValue - i % 2 * 10); });
    made.onTrial.push_back(isOnTrial());
    made.configs.push_back(config());
    EXPECT_NE(made.configs[i], made.configs[i - 1]);
  }
  recording.stop();
  return made;
}

std::vector<cuts::Sample> cutMeta(kj::WaitScope& scope, const std::string& log, const Changes& made,
                                  const std::string& kept) {
  cuts::Scratch folder;
  cuts::Replay replay(scope, log, folder.path());
  auto& image = imageWith(replay, "META");
  cuts::Outcomes outcomes("META writes");
  auto samples = cuts::replayCuts(
      replay, cuts::chooseCuts(replay, made.ofMeta, cuts::cutsToMake(30)), outcomes,
      [&](const cuts::CutAt& cut) {
        KJ_REQUIRE(cuts::metaValue(image, 41) == "other");
        return stateOf(cut, cuts::metaValue(image, 40), Changes::value(cut.window),
                       Changes::value(cut.window + 1), "value");
      },
      cuts::samplesToBoot(), kept);
  EXPECT_GT(outcomes.of("old"), 0u);
  // Cuts in the middle of a write that already has an effect; a few cuts may include none.
  if (outcomes.all() >= cuts::kMany) EXPECT_GT(outcomes.of("new"), 0u);
  return samples;
}

// Throws unless a config that was applied has its way back.
void requireWayBack(const kj::Maybe<std::string>& file, const std::string& before,
                    const std::string& after) {
  auto& bytes = KJ_REQUIRE_NONNULL(file, "the config has no record of its trial");
  auto record = KJ_REQUIRE_NONNULL(machined::decodeTrialRecord({bytes.data(), bytes.size()}));
  KJ_REQUIRE(record.stage == machined::TrialRecord::Stage::TRYING);
  KJ_REQUIRE(record.before.asPtr() == kj::arrayPtr(before.data(), before.size()));
  KJ_REQUIRE(record.isAbout({after.data(), after.size()}));
}

std::vector<cuts::Sample> cutConfig(kj::WaitScope& scope, const std::string& log,
                                    const Changes& made, const std::string& kept) {
  cuts::Scratch folder;
  cuts::Replay replay(scope, log, folder.path());
  auto& image = imageWith(replay, "STATE");
  auto state = cuts::part(image, "STATE");
  cuts::Outcomes outcomes("config writes");
  auto samples = cuts::replayCuts(
      replay, cuts::chooseCuts(replay, made.ofConfig, cuts::cutsToMake(30)), outcomes,
      [&](const cuts::CutAt& cut) {
        KJ_REQUIRE(cuts::tableOf(image) != nullptr, "the partition table is gone");
        auto found = cuts::fileOfXfs(image, state, folder.path(), "config.yaml");
        auto& text = KJ_REQUIRE_NONNULL(found, "there is no config");
        auto& before = made.configs[cut.window];
        if (text != before && made.onTrial[cut.window]) {
          requireWayBack(cuts::fileOfXfs(image, state, folder.path(), "config-trial"), before,
                         made.configs[cut.window + 1]);
        }
        return stateOf(cut, text, made.configs[cut.window], made.configs[cut.window + 1], "config");
      },
      cuts::samplesToBoot(), kept);
  EXPECT_GT(outcomes.of("old"), 0u);
  if (outcomes.all() >= cuts::kMany) EXPECT_GT(outcomes.of("new"), 0u);
  return samples;
}

// Catches, after a power cut at any write, with any part of the unflushed writes on the disk: a
// table that is not whole; a copy of META that is written while the other is not whole; a config
// that is written in place, or renamed before it is on the disk, or before its way back; an answer
// before then; a file system that a boot cannot mount.
TEST(PowerCuts, OfARecording) {
  VolatileCluster cluster("cutslog",
                          {"--masters", "1", "--workers", "0", "--memory", "512", "--no-uplink"});
  const std::string name = "cutslog-master-1";
  Victim victim(cluster, 1);
  ASSERT_TRUE(eventually([&] { return victim.booted(); }, kSlow));
  cluster.ok({"meta", "write", "41", "other"});
  cluster.ok({"meta", "write", "40", Changes::value(0)});
  victim.apply(kFirstValue);
  cuts::Recording recording(cluster, name);
  auto made = makeChanges(cluster, victim, recording, kj::max(cuts::cutsToMake(30) / 10, 4u));

  cuts::Scratch ofMeta, ofConfig;
  std::vector<cuts::Sample> boots;
  {
    kj::EventLoop loop;
    kj::WaitScope scope(loop);
    boots = cutMeta(scope, recording.log(), made, ofMeta.path());
    auto more = cutConfig(scope, recording.log(), made, ofConfig.path());
    boots.insert(boots.end(), more.begin(), more.end());
  }
  for (auto& boot : boots) {
    SCOPED_TRACE("event " + std::to_string(boot.at.event) + ", " + boot.kind);
    cuts::startWith(cluster, name, boot);
    ASSERT_TRUE(eventually([&] { return victim.booted(); }, kSlow)) << cluster.console(name);
    EXPECT_TRUE(contains(cluster.ok({"meta", "read", "41"}), "other"));
    auto has = cluster.ok({"read", "/system/state/config.yaml"});
    EXPECT_NE(std::find(made.configs.begin(), made.configs.end(), has), made.configs.end());
  }
}

}  // namespace
}  // namespace talos
