// Runs in a guest that is such a host (guest.sh): one cluster of two nodes in containers, from its
// creation to its end, and its effect on the host afterwards: none.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/harness/cluster.h"
#include "tests/harness/host-state.h"

namespace talos {
namespace {

namespace fs = std::filesystem;
using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::slurp;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kTimeout = 120;
constexpr size_t kMiB = 1 << 20;
constexpr size_t kMemory = 256;  // MiB of a node
constexpr const char* kRoot = "/sys/fs/cgroup";
constexpr const char* kNodes[] = {"10.5.0.2", "10.5.0.3"};

// Returns the cgroups below the root of the hierarchy, without those of systemd that come and go
// with its units.
std::vector<std::string> cgroups() {
  std::vector<std::string> found;
  std::error_code gone;
  for (fs::recursive_directory_iterator it(kRoot, gone), end; it != end; it.increment(gone)) {
    if (it->is_directory(gone)) found.push_back(it->path());
  }
  return found;
}

// The cgroup of the cluster, whose name is made of its state folder.
std::string clusterCgroup() {
  std::error_code gone;
  for (auto& entry : fs::directory_iterator(std::string(kRoot) + "/talos", gone)) {
    if (entry.is_directory()) return entry.path();
  }
  return "";
}

std::string limitOf(const std::string& node, const char* file) {
  return slurp(clusterCgroup() + "/systemd-" + node + "/" + file);
}

// Returns the wait status of a child that enters this cgroup and writes to `bytes` bytes of memory.
int useMemory(const std::string& cgroup, size_t bytes) {
  pid_t child = fork();
  if (child == 0) {
    int procs = open((cgroup + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    if (procs < 0 || write(procs, "0", 1) != 1) _exit(100);
    int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);  // it goes, not the node
    if (score < 0 || write(score, "1000", 4) != 4) _exit(101);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) _exit(102);
    memset(memory, 1, bytes);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

std::vector<std::string> processes(const std::string& cgroup) {
  std::vector<std::string> found;
  std::error_code gone;
  for (fs::recursive_directory_iterator it(cgroup, gone), end; it != end; it.increment(gone)) {
    if (it->path().filename() != "cgroup.procs") continue;
    for (auto& line : harness::lines(slurp(it->path()))) found.push_back(line);
  }
  return found;
}

class SystemdHost : public testing::Test {
 public:
  static HostState* before;
  static std::vector<std::string>* cgroupsBefore;
  static Cluster* cluster;

  static void SetUpTestSuite() {
    // Loads the modules that any cluster loads, so that they are part of the host's state before.
    for (auto module : {"veth", "bridge", "loop", "squashfs", "overlay"}) {
      EXPECT_EQ(harness::run({"modprobe", module}).status, 0) << module;
    }
    before = new HostState(HostState::now());
    cgroupsBefore = new std::vector<std::string>(cgroups());
    cluster = new Cluster("systemd",
                          {"--provisioner", "container", "--masters", "1", "--workers", "1",
                           "--no-uplink", "--memory", std::to_string(kMemory), "--cpus", "1.5"},
                          2 * kTimeout);
  }
  static void TearDownTestSuite() {
    delete cluster;
    delete before;
    delete cgroupsBefore;
  }

 protected:
  // Checks the host's state, except for the modules that the kernel loaded: they stay.
  static void expectUnchanged() {
    auto after = HostState::now();
    after.modules = before->modules;
    EXPECT_THAT(differences(*before, after), IsEmpty());
    EXPECT_EQ(cgroups(), *cgroupsBefore);
  }
  static void expectUp() {
    for (auto node : kNodes) {
      EXPECT_THAT(cluster->ok({"-n", node, "version"}), HasSubstr("Server:"));
      auto services = cluster->ok({"-n", node, "services"});
      EXPECT_TRUE(harness::allServicesUp(services)) << services;
    }
  }
  static void expectLimits() {
    for (auto node : {"master-1", "worker-1"}) {
      EXPECT_EQ(limitOf(node, "memory.max"), std::to_string(kMemory * kMiB) + "\n") << node;
      EXPECT_EQ(limitOf(node, "cpu.max"), "150000 100000\n") << node;
    }
  }
};
HostState* SystemdHost::before;
std::vector<std::string>* SystemdHost::cgroupsBefore;
Cluster* SystemdHost::cluster;

// Catches: a test that runs on another kind of host.
TEST_F(SystemdHost, IsOne) {
  EXPECT_EQ(slurp("/proc/1/comm"), "systemd\n");
  for (auto& line : harness::lines(slurp("/proc/self/mounts"))) {
    EXPECT_FALSE(contains(line, " cgroup ")) << line;
  }
  EXPECT_THAT(slurp("/proc/self/mounts"), HasSubstr(" /sys/fs/cgroup cgroup2 "));
  EXPECT_THAT(slurp("/proc/self/cgroup"), HasSubstr("0::/system.slice/tests.service"));
}

// Catches: nodes that do not come up in a hierarchy where a cgroup has processes or controllers.
TEST_F(SystemdHost, NodesAnswer) {
  expectUp();
  expectLimits();
}

// Catches: services of a node without their own limits or figures.
TEST_F(SystemdHost, ServicesHaveTheirCgroups) {
  for (auto node : kNodes) {
    auto table = cluster->ok({"-n", node, "cgroups", "--preset", "memory"});
    for (auto name : {"init", "system", "apid", "networkd"}) EXPECT_THAT(table, HasSubstr(name));
    auto stats = cluster->ok({"-n", node, "stats"});
    EXPECT_THAT(stats, HasSubstr("apid"));
  }
  auto apid = clusterCgroup() + "/systemd-worker-1/node/system/apid";
  EXPECT_NE(slurp(apid + "/memory.max"), "max\n");
  EXPECT_THAT(processes(apid), testing::Not(IsEmpty()));
}

// Catches: limits that go when systemd takes controllers back that its units do not need any more,
// and a tree that it takes for an abandoned one.
TEST_F(SystemdHost, SystemdLeavesThemAlone) {
  auto systemd = [](std::vector<std::string> arguments) {
    auto result = harness::run(arguments);
    EXPECT_EQ(result.status, 0) << arguments[0] << " " << arguments[1] << ": " << result.err;
  };
  systemd({"systemd-run", "--unit=other", "-p", "DefaultDependencies=no", "-p", "CPUQuota=20%",
           "-p", "MemoryMax=100M", "/usr/bin/sleep", "1000"});
  systemd({"systemctl", "stop", "other"});
  systemd({"systemctl", "daemon-reload"});
  systemd({"systemctl", "daemon-reexec"});
  expectLimits();
  expectUp();
}

// Catches: an end that leaves cgroups, processes or mounts.
TEST_F(SystemdHost, StopsAndStarts) {
  cluster->ok({"cluster", "stop"}, kTimeout);
  EXPECT_THAT(cluster->ok({"cluster", "show"}), HasSubstr("off"));
  EXPECT_THAT(processes(std::string(kRoot) + "/talos"), IsEmpty());
  expectUnchanged();
  cluster->ok({"cluster", "start"}, 2 * kTimeout);
  expectLimits();
  expectUp();
}

// Catches: a root that passes controllers on although processes are in it, so that no node could
// start, and limits that are missing without a note.
TEST_F(SystemdHost, InsideAContainer) {
  std::string folder = "/tmp/nested";
  auto nested = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/opt/nested", "cluster"});
    arguments.insert(arguments.end(), {"--name", "nested", "--state", folder, "--talosconfig",
                                       folder + ".talosconfig"});
    return harness::run(arguments, kTimeout);
  };
  auto created = nested({"create", "--provisioner", "container", "--masters", "1", "--workers", "0",
                         "--no-uplink", "--wait=false", "--cidr", "10.6.0.0/24"});
  EXPECT_EQ(created.status, 0) << created.err;
  EXPECT_THAT(created.err, HasSubstr("get no cgroup controller for cpu and memory on this host"));
  auto console = folder + "/nested/nested-master-1.log";
  EXPECT_TRUE(eventually([&] { return contains(slurp(console), "[talos] 20"); }, kTimeout))
      << slurp(console);
  auto destroyed = nested({"destroy"});
  EXPECT_EQ(destroyed.status, 0) << destroyed.err;
  EXPECT_FALSE(fs::exists(std::string(kRoot) + "/system.slice/tests.service/talos"));
}

// Catches: limits that are not written, or without effect.
TEST_F(SystemdHost, LimitsHold) {
  auto node = clusterCgroup() + "/systemd-worker-1";
  auto kills = slurp(node + "/memory.events");
  EXPECT_THAT(kills, HasSubstr("oom_kill 0\n"));
  int status = useMemory(node + "/node/init", 2 * kMemory * kMiB);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_THAT(slurp(node + "/memory.events"), HasSubstr("oom_kill 1\n"));
}

// Must be the last test, because the cluster ends with it. Catches: remains of a killed supervisor
// that are not removed.
TEST_F(SystemdHost, IsLeftAsItWas) {
  auto state = cluster->stateFolder();
  ASSERT_EQ(kill(cluster->supervisor(), SIGKILL), 0);
  EXPECT_TRUE(
      eventually([] { return processes(std::string(kRoot) + "/talos").empty(); }, kTimeout));
  cluster->ok({"cluster", "destroy"}, kTimeout);
  expectUnchanged();
  EXPECT_THAT(harness::processesWith(state), IsEmpty());
  EXPECT_FALSE(fs::exists(state));
}

}  // namespace
}  // namespace talos
