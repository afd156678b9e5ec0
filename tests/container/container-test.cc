// A whole node in a container, from its first boot to its end, and its effect on the host: none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <sstream>

#include "machined/confined/sandbox/brain-rights.h"
#include "tests/harness/cluster.h"
#include "tests/harness/host-state.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr double kTimeout = 60;
constexpr size_t kFewestParameters = 300;  // any kernel has more: the walk has not ended early

// Looks among this machine's processes, including those in a container; returns 0 if there is none.
int childNamed(int parent, const std::string& name) {
  for (auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(parent) + "/task")) {
    std::istringstream children(harness::slurp(thread.path() / "children"));
    for (int pid; children >> pid;) {
      if (harness::slurp("/proc/" + std::to_string(pid) + "/comm") == name + "\n") return pid;
    }
  }
  return 0;
}

class ContainerTest : public testing::Test {
 public:
  static HostState* before;
  static Cluster* cluster;

  static void SetUpTestSuite() {
    // The modules that any cluster of containers makes the host's kernel load
    // (talosctl/cluster/containers/host-check.h) are loaded before, so that no node is blamed.
    Cluster("container",
            {"--provisioner", "container", "--masters", "1", "--workers", "0", "--wait=false"});
    before = new HostState(HostState::now());
    ASSERT_GT(before->parameters.size(), kFewestParameters);
    cluster = new Cluster("container",
                          {"--provisioner", "container", "--masters", "1", "--workers", "0"});
  }
  static void TearDownTestSuite() {
    delete cluster;
    delete before;
  }

 protected:
  std::string ok(std::vector<std::string> arguments) { return cluster->ok(onNode(arguments)); }
  harness::Result run(std::vector<std::string> arguments) {
    return cluster->talosctl(onNode(arguments));
  }
  std::string bootId() { return ok({"read", "/proc/sys/kernel/random/boot_id"}); }
  void awaitBoot(const std::string& earlier) {
    EXPECT_TRUE(eventually(
        [&]() {
          auto id = run({"read", "/proc/sys/kernel/random/boot_id"});
          return id.status == 0 && id.out != earlier;
        },
        kTimeout));
    EXPECT_TRUE(eventually([&]() { return contains(run({"get", "machinestatus"}).out, "running"); },
                           kTimeout))
        << run({"get", "machinestatus"}).out;
  }
  std::string console() { return cluster->console("container-master-1"); }

 private:
  static std::vector<std::string> onNode(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"-n", Cluster::kFirst});
    return arguments;
  }
};
HostState* ContainerTest::before;
Cluster* ContainerTest::cluster;

// Catches: a node that does not know the times of its lines, or that sends lines outside of the
// request.
TEST_F(ContainerTest, LogsSinceATimeAndWithAText) {
  const std::string line = "sequence boot: done";
  for (std::vector<std::string> command :
       {std::vector<std::string>{"logs", "machined"}, {"dmesg"}}) {
    auto with = [&](std::vector<std::string> flags) {
      flags.insert(flags.begin(), command.begin(), command.end());
      return ok(flags);
    };
    EXPECT_THAT(with({"--since", "1h"}), HasSubstr(line));
    EXPECT_TRUE(eventually([&] { return !contains(with({"--since", "1s"}), line); }, kTimeout));
    auto found = harness::lines(with({"--since", "today", "--grep", "sequence boot"}));
    EXPECT_GE(found.size(), 1u);
    for (auto& one : found) EXPECT_THAT(one, HasSubstr("sequence boot"));
  }
  auto mistaken = run({"logs", "machined", "--since", "5 minutes"});
  EXPECT_EQ(1, mistaken.status);
  EXPECT_THAT(mistaken.err, HasSubstr("--since \"5 minutes\" is not a time; use how long ago"));
}

// Catches: a node that shows the host's state as its own, or shows nothing at all.
TEST_F(ContainerTest, TellsTheTruth) {
  auto version = ok({"get", "hostname"});
  EXPECT_THAT(version, HasSubstr("container-master-1"));
  EXPECT_EQ(1u, harness::lines(ok({"disks"})).size()) << "a heading and no disk";
  EXPECT_THAT(ok({"dmesg"}), HasSubstr("]: [talos] "));
  EXPECT_THAT(ok({"dmesg"}), Not(HasSubstr("kern: "))) << "the host's";
  EXPECT_THAT(run({"logs", "nope"}).err, testing::EndsWith("log \"nope\" was not registered\n"));
  EXPECT_EQ(2u, harness::lines(ok({"usage", "-d", "1", "/etc"})).size()) << "a heading and /etc";
  ok({"restart", "trustd"});
  auto time = run({"time"});
  EXPECT_NE(0, time.status);
  EXPECT_THAT(time.err, HasSubstr("a container, whose clock is its host's"));
  EXPECT_THAT(ok({"services"}), Not(HasSubstr("timed")));
  auto stats = ok({"stats"});
  for (auto service : {"apid", "machined", "networkd", "trustd"}) {
    std::smatch row;
    std::regex pattern(std::string(service) + R"(\s+(\d+\.\d+)\s+(\d+))");
    ASSERT_TRUE(std::regex_search(stats, row, pattern)) << stats;
    EXPECT_GT(stod(row[1].str()), 0.0) << stats;
    EXPECT_GT(stod(row[2].str()), 0.0) << stats;
  }
  EXPECT_THAT(ok({"mounts"}), HasSubstr("/etc/kubernetes"));
  // A crash log of the host's kernel is visible to all containers, and reading it there removes it.
  EXPECT_THAT(ok({"read", "/proc/mounts"}), Not(HasSubstr(" pstore ")));
  EXPECT_THAT(console(), HasSubstr("[talos] 20")) << "lines with their time";
}

// Catches: secrets in the environment of process 1 or of the programs that it starts.
TEST_F(ContainerTest, ItsEnvironmentHoldsNoConfig) {
  for (auto pid : cluster->servicePids()) {
    auto environment = ok({"read", "/proc/" + std::to_string(pid.second) + "/environ"});
    std::smatch data;
    static const std::regex left(R"(USERDATA=[^\x00])");
    EXPECT_FALSE(std::regex_search(environment, data, left)) << pid.first;
  }
}

// Catches: a brain with more rights than it needs, or more than the launcher gave the node.
TEST_F(ContainerTest, ItsBrainHasFewerRights) {
  auto setOf = [&](int pid, const char* name) {
    auto status = ok({"read", "/proc/" + std::to_string(pid) + "/status"});
    std::smatch digits;
    std::regex line(std::string(name) + R"(:\s([0-9a-f]{16})\n)");
    EXPECT_TRUE(std::regex_search(status, digits, line)) << status;
    EXPECT_EQ(pid != 1, contains(status, "\nNoNewPrivs:\t1\n")) << status;
    return std::stoull(digits[1].str(), nullptr, 16);
  };
  int brain = cluster->servicePids()["machined"];
  auto expected = setOf(1, "CapBnd") & confine::brainCapabilities();
  EXPECT_NE(expected, setOf(1, "CapBnd"));
  for (auto name : {"CapEff", "CapPrm", "CapBnd"}) EXPECT_EQ(expected, setOf(brain, name)) << name;
}

// Catches: a parameter of the host that a config sets, and a parameter of the node that it cannot
// set.
TEST_F(ContainerTest, SetsItsOwnParametersOnly) {
  ok({"patch", "machineconfig", "--mode=no-reboot", "-p",
      R"([{"op": "add", "path": "/machine/sysctls",
           "value": {"net.ipv4.ip_default_ttl": "99", "kernel.panic": "77"}},
          {"op": "add", "path": "/machine/kernel", "value": {"modules": [{"name": "ifb"}]}},
          {"op": "add", "path": "/machine/sysfs", "value": {"kernel.mm.ksm.run": "2"}}])"});
  EXPECT_TRUE(eventually(
      [&]() { return ok({"read", "/proc/sys/net/ipv4/ip_default_ttl"}) == "99\n"; }, kTimeout));
  EXPECT_TRUE(eventually(
      [&]() {
        return contains(console(),
                        "machine.sysctls.kernel.panic: not set, because this node is a container");
      },
      kTimeout));
  EXPECT_NE("77\n", harness::slurp("/proc/sys/kernel/panic"));
  for (auto key : {"machine.kernel.modules: not loaded", "machine.sysfs: not written"}) {
    EXPECT_TRUE(eventually([&]() { return contains(console(), key); }, kTimeout)) << key;
  }
  EXPECT_NE("2\n", harness::slurp("/sys/kernel/mm/ksm/run"));
}

// Catches: a config that is lost with a reboot, a reboot without an effect, records of boots that
// are mixed up, and an end without its reason.
TEST_F(ContainerTest, Reboots) {
  auto first = bootId();
  ok({"patch", "machineconfig", "--mode=auto", "-p",
      R"([{"op": "add", "path": "/machine/env", "value": {"KEPT": "yes"}}])"});
  awaitBoot(first);
  EXPECT_THAT(ok({"get", "mc", "-o", "yaml"}), HasSubstr("KEPT"));
  auto second = bootId();
  ok({"reboot"});
  awaitBoot(second);
  EXPECT_THAT(ok({"get", "mc", "-o", "yaml"}), HasSubstr("KEPT"));
  auto records = ok({"get", "bootrecords"});
  EXPECT_EQ(4u, harness::lines(records).size()) << records;
  EXPECT_THAT(records, HasSubstr("reboot for a new machine config"));
  EXPECT_THAT(records, HasSubstr("asked for through the API"));
}

// Catches: a brain that dies and takes the node with it, or finds no console.
TEST_F(ContainerTest, ItsBrainIsStartedAgain) {
  auto before = cluster->servicePids();
  int processOne = childNamed(cluster->supervisor(), "init");
  int brain = childNamed(processOne, "machined");
  ASSERT_NE(0, brain);
  ASSERT_EQ(0, kill(brain, SIGKILL));
  EXPECT_TRUE(
      eventually([&]() { return contains(console(), "machined restarted (1)"); }, kTimeout));
  EXPECT_TRUE(eventually(
      [&]() {
        auto after = cluster->servicePids();
        return after["machined"] != 0 && after["machined"] != before["machined"] &&
               after["apid"] == before["apid"];
      },
      kTimeout));
}

// The last one, since the node ends with it. Catches: a node that writes anything of the host's,
// from its first boot over a config, reboots and its end.
TEST_F(ContainerTest, WritesNothingOfItsHosts) {
  EXPECT_EQ(0, run({"shutdown"}).status);
  EXPECT_TRUE(
      eventually([&]() { return contains(cluster->ok({"cluster", "show"}), "off"); }, kTimeout))
      << cluster->ok({"cluster", "show"});
  EXPECT_THAT(console(), HasSubstr("[talos] [init] shutting down after"));
  EXPECT_THAT(differences(*before, HostState::now()), IsEmpty());
  cluster->ok({"cluster", "destroy"});
  EXPECT_THAT(differences(*before, HostState::now()), IsEmpty());
}

}  // namespace
}  // namespace talos
