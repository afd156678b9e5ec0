// Reports about a cluster in trouble: `talosctl support` of a cluster with a
// node that is down, and `cluster create --crashdump` of one that does not come up.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::run;
using harness::slurp;
namespace fs = std::filesystem;

struct Scratch {
  std::string path;
  Scratch() {
    char name[] = "/tmp/talos-support-XXXXXX";
    KJ_REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Scratch() { fs::remove_all(path); }
};

// Every value of a config that must not leave the cluster.
std::set<std::string> secretsOf(const std::string& config) {
  std::set<std::string> found;
  std::regex line("(token|key|aescbcEncryptionSecret): ([^ \\n\"]{8,})\\n");
  for (auto it = std::sregex_iterator(config.begin(), config.end(), line);
       it != std::sregex_iterator(); ++it) {
    found.insert((*it)[2]);
  }
  return found;
}

// Catches: a secret in any file of an archive that is made to be sent to others, and a node that is
// missing because it is down, although it matters most.
TEST(Support, AnArchiveOfAClusterWithANodeThatIsDown) {
  Cluster cluster("support", {"--provisioner", "container"});
  cluster.ok({"cluster", "node", "kill", "support-worker-1"});
  Scratch scratch;
  auto archive = scratch.path + "/support.zip";
  auto made =
      cluster.talosctl({"support", "-O", archive, "--state", cluster.folder() + "/clusters"}, 300);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_TRUE(contains(made.err, "WARNING: support-worker-1/the node: ")) << made.err;
  EXPECT_TRUE(contains(made.err, "wrote " + archive)) << made.err;
  EXPECT_EQ(made.out, "");
  ASSERT_EQ(run({"sh", "-c", "cd " + scratch.path + " && cmake -E tar xf support.zip"}).status, 0);
  auto file = [&](const std::string& name) { return slurp(scratch.path + "/" + name); };
  EXPECT_EQ(file("support-worker-1/console.log"), cluster.console("support-worker-1"));
  EXPECT_FALSE(file("support-worker-1/console.log").empty());
  EXPECT_TRUE(contains(file("support-worker-1/local-config.yaml"), "hostname: support-worker-1"));
  EXPECT_TRUE(contains(file("support-master-1/events.txt"), "SequenceEvent"));
  EXPECT_TRUE(contains(file("support-master-1/config.yaml"), "hostname: support-master-1"));
  EXPECT_TRUE(contains(file("support-master-1/services.txt"), "networkd"));
  EXPECT_FALSE(file("support-master-1/logs/machined.log").empty());
  EXPECT_TRUE(contains(file("cluster/supervisor.log"), "node started"));

  std::set<std::string> secrets;
  for (auto node : {"support-master-1", "support-worker-1"}) {
    secrets.merge(secretsOf(slurp(cluster.stateFolder() + "/" + node + ".yaml")));
  }
  secrets.merge(secretsOf(slurp(cluster.talosconfig())));
  ASSERT_GT(secrets.size(), 6u) << "the check below would see nothing";
  size_t files = 0;
  for (auto& entry : fs::recursive_directory_iterator(scratch.path)) {
    if (!entry.is_regular_file() || entry.path() == archive) continue;
    ++files;
    auto text = slurp(entry.path());
    for (auto& secret : secrets) EXPECT_FALSE(contains(text, secret)) << entry.path();
  }
  EXPECT_GT(files, 40u);
}

// The output of tcpdump for a capture, one line for each packet.
std::vector<std::string> packetsOf(const std::string& file) {
  auto read = run({"tcpdump", "-Z", "root", "-n", "-r", file});
  EXPECT_EQ(read.status, 0) << read.err;
  std::vector<std::string> lines;
  std::istringstream text(read.out);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Catches: a capture that does not pass the gate of the API, a file that other programs cannot
// read, a wrong count of packets, a filter that arrives changed.
TEST(Support, ACaptureIsReadByTcpdump) {
  Cluster cluster("capture", {"--provisioner", "container", "--workers", "0"});
  Scratch scratch;
  auto capture = [&](const std::string& name, const std::vector<std::string>& more) {
    // A short part of each packet: a capture of itself makes packets of its packets.
    std::vector<std::string> arguments = {"pcap", "--duration",       "2s", "--snaplen", "96",
                                          "-o",   scratch.path + name};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto made = cluster.talosctl(arguments);
    EXPECT_EQ(made.status, 0) << made.err;
    auto packets = packetsOf(scratch.path + name);
    EXPECT_EQ(made.err, "") << "of " << packets.size() << " packets some were lost";
    return packets;
  };
  auto count = [](const std::vector<std::string>& packets, const std::string& text) {
    return std::count_if(packets.begin(), packets.end(),
                         [&](auto& line) { return line.find(text) != std::string::npos; });
  };
  const std::string fromApi = ".50000 > ", toApi = ".50000: Flags";
  // Everything: at least the capture itself, on its way here.
  auto all = capture("/all.pcap", {"--bpf-filter", "{ 0x6, 0, 0, 0x40000 },"});
  EXPECT_GT(count(all, fromApi), 0);
  EXPECT_GT(count(all, toApi), 0);
  auto usual = capture("/usual.pcap", {});
  EXPECT_EQ(count(usual, fromApi) + count(usual, toApi), 0);
  auto filter = run({"tcpdump", "-y", "EN10MB", "-dd", "tcp src port 50000"});
  ASSERT_EQ(filter.status, 0) << filter.err;
  auto chosen = capture("/chosen.pcap", {"--bpf-filter", filter.out});
  EXPECT_GT(chosen.size(), 0u);
  EXPECT_EQ(count(chosen, fromApi), static_cast<long>(chosen.size()));
}

// Catches: a cluster that is removed together with the reason why it did not come up.
TEST(Support, AClusterThatDoesNotComeUpLeavesItsLastLines) {
  Scratch scratch;
  // trustd gives this worker no certificate.
  auto failed =
      run({harness::talosctlPath(), "--talosconfig", scratch.path + "/talosconfig", "cluster",
           "create", "--state", scratch.path, "--name", "dump", "--provisioner", "container",
           "--wait-timeout", "30s", "--crashdump", "--config-patch-join",
           R"([{"op": "replace", "path": "/machine/token", "value": "aaaaaa.aaaaaaaaaaaaaaaa"}])"},
          120);
  if (failed.status == 0) {
    run({harness::talosctlPath(), "cluster", "destroy", "--state", scratch.path, "--name", "dump"});
    FAIL() << failed.out;
  }
  EXPECT_TRUE(contains(failed.err, "\n10.5.0.2\n========\n")) << failed.err;
  EXPECT_TRUE(contains(failed.err, "> machined\n")) << failed.err;
  EXPECT_TRUE(contains(failed.err, "\n10.5.0.3\n========\n")) << failed.err;
  EXPECT_TRUE(contains(failed.err, "> console\n")) << failed.err;
  EXPECT_FALSE(fs::exists(scratch.path + "/dump"));
}

}  // namespace
}  // namespace talos
