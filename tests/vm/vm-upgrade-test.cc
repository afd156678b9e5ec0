// A node that is upgraded, and one whose new system is no good: it is back on the old one by itself,
// and says why.
//
// The images come from a registry on the host's loopback; the host is a network namespace of this
// process, so its port meets nobody else's.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sched.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>

#include "tests/harness/cluster.h"

namespace talos::vm {
namespace {

using harness::Background;
using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::run;
namespace fs = std::filesystem;

constexpr double kComesUp = 480;  // emulated, beside whatever else runs

std::string setting(const char* name) {
  const char* value = getenv(name);
  KJ_REQUIRE(value != nullptr, "set by ctest", name);
  return value;
}

// Images of the running build, made as `make installer-image` makes them, in a registry.
class Images {
 public:
  explicit Images(std::string folder) : folder(kj::mv(folder)) {
    auto config = this->folder + "/registry.yml";
    std::ofstream(config) << "version: 0.1\nstorage: {filesystem: {rootdirectory: " << this->folder
                          << "/registry}}\nhttp: {addr: '127.0.0.1:6000'}\n";
    registry =
        std::make_unique<Background>(std::vector<std::string>{"docker-registry", "serve", config});
    bool listens = registry->waitFor(
        [](const std::string& out, const std::string& err) {
          return contains(out + err, "listening on");
        },
        30);
    KJ_REQUIRE(listens, "docker-registry does not listen", registry->err().c_str());
  }

  static std::string must(const std::vector<std::string>& words) {
    auto result = run(words, 300);
    KJ_REQUIRE(result.status == 0, words[0].c_str(), result.out.c_str(), result.err.c_str());
    return result.out;
  }

  // `changes` are those of rootfs/image.sh: TREE=, REMOVE=.
  void make(const std::string& version, const std::vector<std::string>& changes) {
    auto image = setting("IMAGE");
    if (!changes.empty()) {
      // What does not change is not made again.
      image = folder + "/" + version;
      fs::create_directories(image);
      must({"cp", "-a", setting("IMAGE") + "/work", image + "/work"});
      std::vector<std::string> words = {"env"};
      words.insert(words.end(), changes.begin(), changes.end());
      words.insert(words.end(), {setting("ROOTFS") + "/image.sh", "/", setting("OUT"), image});
      must(words);
    }
    must({"env", "VERSION=" + version, setting("ROOTFS") + "/installer.sh", image, tarOf(version)});
    push("oci-archive:" + tarOf(version), version);
    if (!changes.empty()) fs::remove_all(image);
  }

  // The good one with a root image that was cut off; in a layer of its own.
  void makeTruncated(const std::string& from, const std::string& version) {
    auto layout = folder + "/layout";
    must({"skopeo", "copy", "oci-archive:" + tarOf(from), "oci:" + layout + ":x"});
    auto cut = folder + "/cut";
    fs::copy_file(setting("IMAGE") + "/rootfs.sqsh", cut);
    fs::resize_file(cut, 1 << 20);
    must({"umoci", "insert", "--image", layout + ":x", cut, "/usr/install/rootfs.sqsh"});
    push("oci:" + layout + ":x", version);
  }

 private:
  std::string folder;
  std::unique_ptr<Background> registry;

  std::string tarOf(const std::string& version) { return folder + "/" + version + ".tar"; }
  static void push(const std::string& what, const std::string& version) {
    must({"skopeo", "copy", "--preserve-digests", "--dest-tls-verify=false", what,
          "docker://127.0.0.1:6000/talos/installer:" + version});
  }
};

class Upgrade : public testing::Test {
 protected:
  std::string folder;
  ~Upgrade() noexcept override {}
  void SetUp() override {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0) << "needs root";
    ASSERT_EQ(run({"ip", "link", "set", "lo", "up"}).status, 0);
    char name[] = "/tmp/talos-upgrade-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }

  // An init that ends at once: the kernel panics.
  std::string endingInit() {
    auto tree = folder + "/tree";
    fs::create_directories(tree + "/usr/sbin");
    fs::copy_file(setting("OUT") + "/confine", tree + "/usr/sbin/init");
    return tree;
  }
  std::string listOf(const std::string& path) {
    auto list = folder + "/list";
    std::ofstream(list) << path << "\n";
    return list;
  }
};

std::vector<std::string> flags() {
  return {"--masters",
          "1",
          "--workers",
          "0",
          "--memory",
          "1024",
          "--disk",
          "4096",
          "--cidr",
          "10.5.0.0/24",
          "--with-bootloader",
          "--registry-mirror",
          "*=http://10.5.0.1:6000"};
}

struct Machine {
  Cluster& cluster;
  std::string name;

  harness::Result upgradeTo(const std::string& version, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"upgrade", "--image", "ghcr.io/talos/installer:" + version};
    words.insert(words.end(), more.begin(), more.end());
    auto begin = std::chrono::steady_clock::now();
    auto result = cluster.talosctl(words, 2 * kComesUp);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::cerr << "upgrade to " << version << ": " << took.count() << " s\n" << result.err;
    return result;
  }
  // Waits for its containerd.
  bool pulls(const std::string& version) {
    return cluster.talosctl({"image", "pull", "ghcr.io/talos/installer:" + version}, 120).status ==
           0;
  }
  std::string status() { return cluster.talosctl({"get", "upgradestatus", "-o", "yaml"}, 30).out; }
  std::string slot() {
    std::smatch match;
    auto line = cluster.talosctl({"read", "/proc/cmdline"}, 30).out;
    return std::regex_search(line, match, std::regex("talos.slot=([AB])")) ? match[1].str() : "";
  }
  bool tells(const std::string& text) {
    return contains(cluster.talosctl({"events", "--tail", "-1", "--once"}, 30).out, text);
  }
  void expectBackOn(const std::string& slotName, const harness::Result& result,
                    const std::string& reason) {
    EXPECT_NE(result.status, 0) << result.out;
    EXPECT_TRUE(contains(result.err, reason)) << result.err;
    EXPECT_EQ(slot(), slotName);
    auto now = status();
    EXPECT_TRUE(contains(now, "stage: failed")) << now;
    EXPECT_TRUE(contains(now, reason)) << now;
    EXPECT_TRUE(tells(reason)) << "no event says so";
  }
};

}  // namespace

// Catches: an image that is started though it is damaged; a system that is no good and stays, or
// whose end nobody tells; one that is good and does not stay; a config or data that are lost with
// it; a rollback that leads nowhere.
TEST_F(Upgrade, ToGoodOnesAndBadOnes) {
  Images images(folder);
  images.make("v9.9.1", {});
  images.makeTruncated("v9.9.1", "v9.9.2");
  images.make("v9.9.3", {"TREE=" + endingInit()});
  images.make("v9.9.4", {"REMOVE=" + listOf("usr/bin/apid")});
  Cluster cluster("upgrade", flags(), kComesUp);
  Machine node{cluster, "upgrade-master-1"};
  ASSERT_EQ(node.slot(), "A");

  node.expectBackOn("A", node.upgradeTo("v9.9.2"),
                    "rootfs.sqsh is damaged or cut off: its SHA-256 is");
  node.expectBackOn("A", node.upgradeTo("v9.9.3"), "the system in slot B (v9.9.3) did not come up");
  node.expectBackOn("A", node.upgradeTo("v9.9.4", {"--preserve", "--health-timeout", "60s"}),
                    "was given up: it was not healthy within 60 s: ");
  EXPECT_TRUE(contains(node.status(), "service apid is not up")) << node.status();

  auto good = node.upgradeTo("v9.9.1", {"--preserve"});
  EXPECT_EQ(good.status, 0) << good.err << cluster.console(node.name);
  EXPECT_TRUE(contains(good.out, "Upgrade request received")) << good.out;
  EXPECT_EQ(node.slot(), "B");
  EXPECT_TRUE(contains(node.status(), "stage: done")) << node.status();
  EXPECT_TRUE(contains(cluster.ok({"image", "list"}), "installer")) << "--preserve lost /var";

  // Confirmed: a reboot stays.
  cluster.ok({"reboot"}, kComesUp);
  EXPECT_EQ(node.slot(), "B");

  auto back = cluster.talosctl({"rollback"}, kComesUp);
  EXPECT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(node.slot(), "A");
  EXPECT_TRUE(contains(node.status(), "stage: done")) << node.status();
}

// Catches: a cut at any write of an upgrade after which the node does not start, starts a system that
// is not whole, or does not say what has become of it.
TEST_F(Upgrade, PowerCuts) {
  Images images(folder);
  images.make("v9.9.1", {});
  Cluster cluster("upgradecut", flags(), kComesUp);
  Machine node{cluster, "upgradecut-master-1"};
  const char* asked = getenv("POWER_CUTS");
  // Some 30 are containerd's, the others those of BOOT and STATE.
  std::vector<unsigned> cuts = {60, 130};
  for (int i = 0; asked != nullptr && i < atoi(asked); ++i) cuts.push_back(1 + i * 2);
  unsigned reached = 0;
  for (auto write : cuts) {
    auto before = node.slot();
    ASSERT_NE(before, "");
    ASSERT_TRUE(eventually([&] { return node.pulls("v9.9.1"); }, kComesUp, 1));
    auto what = "at write " + std::to_string(write);
    Background kill(cluster.command({"cluster", "node", "kill", node.name, "--at-write",
                                     std::to_string(write), "--wait-timeout", "60s"}));
    auto upgraded = node.upgradeTo("v9.9.1", {"--preserve", "--wait=false"});
    bool cut = kill.finish(90) == 0;
    EXPECT_TRUE(cut || contains(kill.err(), "did not reach write")) << what << kill.err();
    reached += cut;
    if (!cut) cluster.ok({"cluster", "node", "kill", node.name}, 60);
    cluster.ok({"cluster", "node", "start", node.name}, 120);
    ASSERT_TRUE(eventually([&] { return contains(node.status(), "stage: "); }, kComesUp, 1))
        << what;
    auto now = node.status();
    EXPECT_TRUE(std::regex_search(now, std::regex("stage: (none|failed|trying|done)"))) << now;
    EXPECT_TRUE(node.slot() == before || contains(now, "trying") || contains(now, "done")) << now;
    std::cerr << what << (cut ? "" : " (not reached)") << ": " << now;
    EXPECT_TRUE(eventually([&] { return !contains(node.status(), "stage: trying"); }, kComesUp, 1));
  }
  EXPECT_GT(reached, 0u);
}

// Catches: a slot that is the other one's forever, room on BOOT that is never freed, a view of an
// image that is left behind. Only when it is asked for.
TEST_F(Upgrade, AgainAndAgain) {
  const char* asked = getenv("UPGRADES");
  if (asked == nullptr) GTEST_SKIP() << "set UPGRADES, as make soak does";
  Images images(folder);
  images.make("v9.9.1", {});
  images.make("v9.9.5", {"REMOVE=" + listOf("usr/bin/networkd")});
  Cluster cluster("upgrades", flags(), kComesUp);
  Machine node{cluster, "upgrades-master-1"};
  for (int i = 0; i < atoi(asked); ++i) {
    auto result = node.upgradeTo("v9.9.1", {"--preserve"});
    ASSERT_EQ(result.status, 0) << i << result.err;
    ASSERT_EQ(node.slot(), i % 2 == 0 ? "B" : "A");
  }
  auto slot = node.slot();
  node.expectBackOn(slot, node.upgradeTo("v9.9.5", {"--preserve", "--health-timeout", "60s"}),
                    "was given up: it was not healthy within 60 s: ");
}

}  // namespace talos::vm
