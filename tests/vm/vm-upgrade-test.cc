// A node that is upgraded, and one whose new system is no good: it is back on the old one by itself,
// and says why.
//
// The images come from a registry and from a web server on the host's loopback, and as a file with the
// request; the host is a network namespace of this process, so its ports meet nobody else's.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <thread>

#include "tests/cuts/installed.h"
#include "tests/cuts/recording.h"
#include "tests/harness/cluster.h"
#include "tests/harness/registry.h"
#include "tests/harness/web.h"

namespace talos::vm {
namespace {

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
  explicit Images(std::string folder)
      : folder(kj::mv(folder)), registry(this->folder, "127.0.0.1:6000") {}

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
    if (!changes.empty()) fs::remove_all(image);
  }

  // What --image names it by.
  std::string file(const std::string& version) { return tarOf(version); }
  std::string inRegistry(const std::string& version) {
    push("oci-archive:" + tarOf(version), version);
    return "ghcr.io/talos/installer:" + version;
  }
  std::string onServer(const std::string& version) {
    std::ifstream in(tarOf(version), std::ios::binary);
    std::string body((std::istreambuf_iterator<char>(in)), {});
    server.answer("", harness::Manner::kGood, body);
    return "http://10.5.0.1:6080/installer.tar#sha256=" +
           must({"sha256sum", tarOf(version)}).substr(0, 64);
  }

  // As the users' documents customize the kernel and the root: a build FROM an installer image.
  std::string derived(const std::string& from, const std::string& version) {
    auto context = folder + "/context", kernel = context + "/kernel";
    fs::create_directories(kernel + "/boot");
    fs::create_directories(kernel + "/lib");
    must({"sh", "-c",
          "cp '" + setting("UNPACKED_KERNEL") + "'/boot/vmlinuz-* '" + kernel + "/boot/vmlinuz'"});
    must({"cp", "-a", setting("UNPACKED_KERNEL") + "/usr/lib/modules", kernel + "/lib/modules"});
    std::ofstream(context + "/site.conf") << "a site of its own\n";
    std::ofstream(context + "/Dockerfile")
        << "FROM scratch AS kernel\nCOPY kernel /\n"
           "FROM scratch AS customization\n"
           "COPY --from=kernel /lib/modules /lib/modules\nCOPY site.conf /etc/site.conf\n"
           "FROM ghcr.io/talos-systems/installer:latest\n"
           "COPY --from=kernel /boot/vmlinuz /usr/install/vmlinuz\n";
    auto base = must(buildah({"pull", "-q", "docker-archive:" + tarOf(from)}));
    while (!base.empty() && base.back() == '\n') base.pop_back();
    must(buildah({"tag", base, "ghcr.io/talos-systems/installer:latest"}));
    must(buildah({"build", "-q", "--squash", "--isolation", "chroot", "--skip-unused-stages=false",
                  "--ulimit", limit("nproc", RLIMIT_NPROC), "--ulimit",
                  limit("nofile", RLIMIT_NOFILE), "--build-arg",
                  "RM=/lib/modules /etc/ssl/certs/ca-certificates", "--build-arg",
                  "VERSION=" + version, "-t", "site/installer:" + version, context}));
    must(buildah({"push", "-q", "-D", "--tls-verify=false", "site/installer:" + version,
                  "docker://127.0.0.1:6000/talos/installer:" + version}));
    must(buildah({"rmi", "--all", "--force"}));
    fs::remove_all(context);
    return "ghcr.io/talos/installer:" + version;
  }

  // The good one with a root image that was cut off; in a layer of its own.
  std::string truncated(const std::string& from, const std::string& version) {
    auto layout = folder + "/layout";
    must({"skopeo", "copy", "oci-archive:" + tarOf(from), "oci:" + layout + ":x"});
    auto cut = folder + "/cut";
    fs::copy_file(setting("IMAGE") + "/rootfs.sqsh", cut);
    fs::resize_file(cut, 1 << 20);
    must({"umoci", "insert", "--image", layout + ":x", cut, "/usr/install/rootfs.sqsh"});
    push("oci:" + layout + ":x", version);
    return "ghcr.io/talos/installer:" + version;
  }

 private:
  std::string folder;
  harness::Registry registry;
  harness::Web server{getpid(), "127.0.0.1", 6080};

  std::vector<std::string> buildah(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "buildah",   "--storage-driver",    "vfs", "--root", folder + "/images",
        "--runroot", folder + "/images.run"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // What this process may have: it may not be allowed to give more.
  static std::string limit(const std::string& name, __rlimit_resource which) {
    rlimit most = {};
    KJ_SYSCALL(getrlimit(which, &most));
    return name + "=" + std::to_string(most.rlim_max);
  }

  std::string tarOf(const std::string& version) { return folder + "/" + version + ".tar"; }
  static void push(const std::string& what, const std::string& version) {
    must({"skopeo", "copy", "--preserve-digests", "--dest-tls-verify=false", what,
          "docker://127.0.0.1:6000/talos/installer:" + version});
  }
};

class Upgrade : public harness::RegistryHost {
 protected:
  ~Upgrade() noexcept override {}

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

  harness::Result upgradeTo(const std::string& image, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"upgrade", "--image", image};
    words.insert(words.end(), more.begin(), more.end());
    auto begin = std::chrono::steady_clock::now();
    auto result = cluster.talosctl(words, 2 * kComesUp);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::cerr << "upgrade to " << image << ": " << took.count() << " s\n" << result.err;
    return result;
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

// What the two slots are started from, when they are whole.
using Systems = std::map<std::string, cuts::System>;

Systems systemsAtTheEnd(kj::WaitScope& scope, const cuts::Recording& recording) {
  cuts::Scratch folder;
  cuts::Replay replay(scope, recording.log(), folder.path());
  Systems systems;
  replay.cut(replay.events(), cuts::Replay::When::kBefore, 0,
             [&] { systems = cuts::bootView(replay.images()[0], folder.path()).slots; });
  return systems;
}

// What the boot loader would start of the disk that a cut leaves: of the slots that it names, "old", "to be
// tried" or "new". Throws when one of them is not whole.
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

// From its first write to BOOT on.
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

// So many samples, in `kept`.
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
  std::string cutOff;  // why `before` is not whole

  RecordedUpgrade(Cluster& cluster, Machine& node, const std::string& image)
      : before(cluster, node.name), config(cluster.ok({"read", "/system/state/config.yaml"})) {
    std::atomic<bool> over = false;
    std::thread following([&] {
      eventually(
          [&] {
            // Until the run ends that it is of: afterwards nobody can tell.
            if (auto why = before.whyNotWhole(); !why.empty()) cutOff = why;
            // Refused as long as the first one goes on.
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
    EXPECT_EQ(cutOff, "");
    if (after != nullptr) after->stop();
  }
};

}  // namespace

// Catches: an image that is started though it is damaged; a system that is no good and stays, or
// whose end nobody tells; one that is good, built as the users' documents say, and does not stay; a config or
// data that are lost with it; a rollback that leads nowhere. An archive from a web server, or a file, that does
// not arrive, or in which the system is not found.
TEST_F(Upgrade, ToGoodOnesAndBadOnes) {
  Images images(folder);
  images.make("v9.9.1", {});
  images.make("v9.9.3", {"TREE=" + endingInit()});
  images.make("v9.9.4", {"REMOVE=" + listOf("usr/bin/apid")});
  Cluster cluster("upgrade", flags(), kComesUp);
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
  EXPECT_TRUE(contains(good.out, "Upgrade request received")) << good.out;
  EXPECT_EQ(node.slot(), "B");
  EXPECT_TRUE(contains(node.status(), "stage: done")) << node.status();
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
}

// Catches, at any write, whatever of the unflushed arrives: a slot that is chosen before it is whole on the disk,
// as the boot loader reads it; the running system written over; a record of the slots that is none; a config
// that is lost.
TEST_F(Upgrade, PowerCuts) {
  Images images(folder);
  images.make("v9.9.1", {});
  Cluster cluster("upgradecut", flags(), kComesUp);
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
