// A node whose disk is not as the node left it: it reports the fault on its console, and writes
// nothing to a partition that it does not understand.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <regex>

#include "tests/cuts/image.h"
#include "tests/cuts/volatile-cluster.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
namespace fs = std::filesystem;

constexpr double kUp = 480;  // emulated, beside whatever else runs
constexpr size_t kMiB = 1 << 20;
constexpr const char* kName = "wrongdisks-master-1";

struct Node {
  cuts::VolatileCluster& cluster;

  std::string disk() const { return cluster.stateFolder() + "/" + kName + ".disk"; }
  std::string other() const { return cluster.stateFolder() + "/" + kName + ".user-1"; }
  void power(const char* action) { cluster.ok({"cluster", "node", action, kName}, 120); }
  // Makes every write at or after this place of a disk fail, as when its spare sectors are used up.
  void failWritesFrom(uint64_t place) { cluster.disks().failWritesFrom(kName, place); }
  bool says(const std::vector<std::string>& asked, const std::string& text) {
    auto words = asked;
    words.insert(words.begin(), {"--timeout", "5s"});
    std::regex wanted(text);
    return eventually([&] { return std::regex_search(cluster.talosctl(words, 20).out, wanted); },
                      kUp, 1);
  }
  bool booted() {
    return eventually([&] { return cluster.booted(); }, kUp, 1);
  }
};

class WrongDisks : public ::testing::Test {
 protected:
  cuts::VolatileCluster cluster{
      "wrongdisks",
      {"--masters", "1", "--workers", "0", "--memory", "1024", "--disk", "2048", "--no-uplink",
       "--with-bootloader", "--user-disk", "/var/lib/data:1900MiB"},
      kUp};
  Node node{cluster};
  std::string kept = cluster.folder() + "/kept";

  ~WrongDisks() noexcept override {}
  void copy(const std::string& from, const std::string& to) {
    auto copied = harness::run({"cp", "--sparse=always", from, to}, 120);
    ASSERT_EQ(copied.status, 0) << copied.err;
  }
  void SetUp() override {
    ASSERT_TRUE(node.booted());
    auto stopped = cluster.talosctl({"cluster", "node", "stop", kName}, 120);
    ASSERT_EQ(stopped.status, 0) << stopped.err;
    copy(node.disk(), kept);
  }
  // Starts the node, whose machine then has its disk in the present size.
  void startUntilItReads() {
    auto seen = cluster.console(kName).size();
    node.power("start");
    EXPECT_TRUE(eventually([&] { return contains(cluster.console(kName).substr(seen), "GRUB"); },
                           kUp, 0.05));
  }
  // Starts the node with the changed disks and expects the text on the console. Without STATE the
  // node cannot tell its clients apart, so its API stays closed.
  void expectRefused(const std::string& console, const std::function<void()>& onceStarted = [] {}) {
    auto seen = cluster.console(kName).size();
    auto said = [&] { return cluster.console(kName).substr(seen); };
    startUntilItReads();
    onceStarted();
    auto before = cuts::contentKey(node.disk(), cuts::part(kept, "STATE"));
    EXPECT_TRUE(eventually([&] { return contains(said(), console); }, kUp, 1))
        << console << " is not on the console:\n"
        << said();
    // The only other outcomes: the end of the boot, or a message after it.
    EXPECT_TRUE(eventually(
        [&] {
          return contains(said(), "the node stays as it is") || contains(said(), "maintenance: ");
        },
        kUp, 1))
        << said();
    EXPECT_FALSE(contains(said(), "made an xfs file system")) << said();
    EXPECT_FALSE(contains(said(), "maintenance: ")) << said();
    std::string status;
    EXPECT_TRUE(eventually(
        [&] {
          status = cluster.talosctl({"-n", cluster.endpoint(), "status", "--insecure"}, 20).out;
          return contains(status, console);
        },
        kUp, 1))
        << "whoever asks is not told:\n"
        << status;
    node.failWritesFrom(UINT64_MAX);  // or the power cannot be cut
    cluster.kill(kName);
    EXPECT_EQ(cuts::contentKey(node.disk(), cuts::part(kept, "STATE")), before)
        << "STATE was written to";
    copy(kept, node.disk());
  }
};

}  // namespace

// Catches: a STATE that is formatted, or read as one of a new machine, because it cannot be read;
// another machine's config and secrets that are used, or lost, when its disk is put into this
// machine; a node that says nothing, or accepts configs from every client, meanwhile.
TEST_F(WrongDisks, OfAnInstalledNode) {
  auto state = cuts::part(kept, "STATE");
  {
    SCOPED_TRACE("a superblock that is no superblock");
    cuts::overwrite(node.disk(), state.offset, std::string(4096, '\xff'));
    expectRefused("STATE: /dev/vda5 is not empty, but has no readable file system");
  }
  {
    SCOPED_TRACE("zeros where it begins");
    cuts::overwrite(node.disk(), state.offset, std::string(kMiB, '\0'));
    expectRefused("STATE: /dev/vda5 begins with zeros");
  }
  {
    SCOPED_TRACE("the disk of another node beside it");
    auto own = node.other() + ".own";
    fs::rename(node.other(), own);
    copy(kept, node.other());
    expectRefused(
        "META: more than one partition is named META: /dev/vda4, /dev/vdb4; remove the disks "
        "that are not this node's");
    fs::rename(own, node.other());
  }
  {
    SCOPED_TRACE("a disk that has become shorter");
    fs::resize_file(node.disk(), cuts::part(kept, "EPHEMERAL").offset + 64 * kMiB);
    expectRefused(
        "STATE: not found, and may be on /dev/vda, which has a partition table that the kernel "
        "does not "
        "accept");
  }
  {
    SCOPED_TRACE("META that is noise");
    cuts::overwrite(node.disk(), cuts::part(kept, "META").offset, std::string(kMiB, '\x5a'));
    node.power("start");
    EXPECT_TRUE(node.booted()) << cluster.console(kName);
    auto values = cluster.talosctl({"meta", "read"});
    EXPECT_EQ(values.status, 0) << values.err;
    cluster.kill(kName);
    copy(kept, node.disk());
  }
  {
    SCOPED_TRACE("a STATE that is full");
    cuts::fillXfs(node.disk(), state, cluster.folder() + "/mount");
    node.power("start");
    EXPECT_TRUE(node.booted()) << cluster.console(kName);
    auto before = cluster.ok({"read", "/system/state/config.yaml"});
    auto refused = cluster.talosctl(
        {"patch", "machineconfig", "--mode=no-reboot", "-p",
         R"([{"op": "add", "path": "/machine/sysctls", "value": {"vm.swappiness": "7"}}])"});
    EXPECT_EQ(refused.status, 1) << refused.out << refused.err;
    EXPECT_TRUE(contains(refused.err, "No space left on device")) << refused.err;
    EXPECT_EQ(cluster.ok({"read", "/system/state/config.yaml"}), before);
    EXPECT_NE(cluster.ok({"read", "/proc/sys/vm/swappiness"}), "7\n")
        << "in effect, and not stored";
    cluster.kill(kName);
    copy(kept, node.disk());
  }
  node.power("start");
  EXPECT_TRUE(node.booted()) << cluster.console(kName);
}

// Catches: a partition that is read as empty, and formatted, because it cannot be read; a read-only
// or full disk on which the node waits without a message, or stores nothing and says it did; an
// administrator who cannot see the fault in the API.
TEST_F(WrongDisks, ThatFail) {
  auto state = cuts::part(kept, "STATE"), ephemeral = cuts::part(kept, "EPHEMERAL");
  // The truncated part cannot be read; a write would make the file longer.
  auto loseFrom = [&](const cuts::Part& part) {
    return [this, part] { fs::resize_file(node.disk(), part.offset); };
  };
  {
    SCOPED_TRACE("a read-only disk");
    ASSERT_EQ(chmod(node.disk().c_str(), 0400), 0);
    expectRefused("STATE: /dev/vda5 is read-only");
    ASSERT_EQ(chmod(node.disk().c_str(), 0600), 0);
  }
  {
    SCOPED_TRACE("a STATE that cannot be read");
    expectRefused("STATE: /dev/vda5 cannot be read: Input/output error", loseFrom(state));
  }
  {
    SCOPED_TRACE("an EPHEMERAL that cannot be read");
    startUntilItReads();
    loseFrom(ephemeral)();
    auto problem = "EPHEMERAL: /dev/vda6 cannot be read: Input/output error";
    EXPECT_TRUE(node.says({"status"}, problem)) << cluster.console(kName);
    EXPECT_TRUE(contains(cluster.console(kName), problem));
    EXPECT_TRUE(node.says({"get", "discoveredvolumes"}, "STATE"))
        << cluster.ok({"get", "discoveredvolumes"});
    EXPECT_TRUE(node.says({"services"}, "apid +Running +OK"));
    EXPECT_TRUE(node.says({"events", "--tail", "-1", "--once"}, problem));
    EXPECT_FALSE(contains(cluster.ok({"get", "mountstatus"}), "EPHEMERAL"));
    EXPECT_EQ(fs::file_size(node.disk()), ephemeral.offset) << "something was written to EPHEMERAL";
    cluster.kill(kName);
    copy(kept, node.disk());
  }
  {
    SCOPED_TRACE("an EPHEMERAL that is full");
    cuts::fillXfs(node.disk(), ephemeral, cluster.folder() + "/mount");
    node.power("start");
    EXPECT_TRUE(node.booted()) << cluster.console(kName);
    EXPECT_TRUE(node.says({"services"}, "cri +Running +OK"));
    EXPECT_TRUE(node.says({"get", "mountstatus"}, "EPHEMERAL +[0-9]+ +/dev/vda6 +/var "));
    EXPECT_TRUE(node.says({"list", "-l", "/var"}, "filler"));
    cluster.kill(kName);
    copy(kept, node.disk());
  }
  node.power("start");
  EXPECT_TRUE(node.booted()) << cluster.console(kName);
}

// Catches: a disk that fails writes, at a boot or later, and a node that does not say so on its
// console and to its administrator, or says that it is ready; a config that is in effect and not
// stored; existing data that is lost when the disk works again.
TEST_F(WrongDisks, ThatCannotBeWritten) {
  auto state = cuts::part(kept, "STATE"), ephemeral = cuts::part(kept, "EPHEMERAL");
  auto repairedAndUp = [&] {
    node.failWritesFrom(UINT64_MAX);
    cluster.kill(kName);
    node.power("start");
    EXPECT_TRUE(node.booted()) << cluster.console(kName);
    EXPECT_TRUE(node.says({"get", "machinestatus"}, "running +true"));
  };
  {
    SCOPED_TRACE("an EPHEMERAL that cannot be written");
    node.power("start");
    node.failWritesFrom(ephemeral.offset);
    EXPECT_TRUE(
        node.says({"status"}, R"(EPHEMERAL: cannot mount /dev/vda6 \(xfs\): Input/output error)"))
        << cluster.console(kName);
    EXPECT_TRUE(contains(cluster.console(kName),
                         "EPHEMERAL: cannot mount /dev/vda6 (xfs): Input/output error"));
    EXPECT_TRUE(node.says({"services"}, "apid +Running +OK"));
    repairedAndUp();
  }
  auto config = cluster.ok({"read", "/system/state/config.yaml"});
  {
    SCOPED_TRACE("one that fails while the node runs");
    node.failWritesFrom(ephemeral.offset);
    auto problem = "EPHEMERAL: the file system of /dev/vda6 failed: Input/output error";
    EXPECT_TRUE(node.says({"status"}, problem)) << cluster.console(kName);
    EXPECT_TRUE(contains(cluster.console(kName), std::string("problem: ") + problem));
    EXPECT_TRUE(node.says({"get", "machinestatus"}, "running +false"));
    node.failWritesFrom(state.offset);
    auto refused = cluster.talosctl(
        {"patch", "machineconfig", "--mode=no-reboot", "-p",
         R"([{"op": "add", "path": "/machine/sysctls", "value": {"vm.swappiness": "7"}}])"});
    EXPECT_EQ(refused.status, 1) << refused.out << refused.err;
    EXPECT_TRUE(contains(refused.err, "Input/output error")) << refused.err;
    EXPECT_NE(cluster.ok({"read", "/proc/sys/vm/swappiness"}), "7\n")
        << "in effect, and not stored";
    EXPECT_TRUE(node.says({"status"}, "STATE: the file system of /dev/vda5 failed"))
        << cluster.console(kName);
    EXPECT_TRUE(node.says({"services"}, "apid +Running +OK"));
    repairedAndUp();
  }
  EXPECT_EQ(cluster.ok({"read", "/system/state/config.yaml"}), config);
  cluster.kill(kName);
  copy(kept, node.disk());
  {
    SCOPED_TRACE("a STATE that cannot be written");
    expectRefused("STATE: cannot mount /dev/vda5 (xfs): Input/output error",
                  [&] { node.failWritesFrom(state.offset); });
  }
  node.power("start");
  EXPECT_TRUE(node.booted()) << cluster.console(kName);
}

}  // namespace talos::vm
