// A booted node, as its user sees it. The order is that of a life: boot, daily use, accidents,
// reboot, end.
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <time.h>

#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "common/base/version.h"
#include "machined/confined/sandbox/brain-rights.h"
#include "tests/vm/shared.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using harness::lines;

std::unique_ptr<harness::Cluster> shared;

// A module with a parameter that sysfs shows, and another whose parameter sysfs can set.
constexpr const char* kKernelSettings = R"([
  {"op": "add", "path": "/machine/kernel",
   "value": {"modules": [{"name": "vxlan", "parameters": ["udp_port=4790"]}]}},
  {"op": "add", "path": "/machine/sysfs",
   "value": {"module.vxlan.parameters.log_ecn_error": "N"}}])";

class Environment final : public ::testing::Environment {
 public:
  // The machine's clock is years slow when it starts, as that of a board without a battery.
  void SetUp() override {
    shared = std::make_unique<harness::Cluster>(
        "vmtest",
        std::vector<std::string>{"--masters", "1", "--workers", "0", "--memory", "512", "--clock",
                                 "2020-01-01T00:00:00", "--config-patch", kKernelSettings});
  }
  void TearDown() override { shared.reset(); }
};

}  // namespace

harness::Cluster& machine() {
  KJ_REQUIRE(shared != nullptr);
  return *shared;
}

std::string node() {
  return harness::Cluster::kFirst;
}

bool allUp(double deadlineSeconds) {
  return eventually(
      [] {
        auto table = machine().talosctl({"services"}, 20);
        return table.status == 0 && contains(table.out, "trustd") &&
               harness::allServicesUp(table.out);
      },
      deadlineSeconds);
}

std::string endpoint() {
  return machine().endpoint();
}

// --- boot
// -------------------------------------------------------------------------------------------

TEST(Vm, A1_TheClusterSaysWhatItMade) {
  auto show = machine().ok({"cluster", "show"});
  EXPECT_TRUE(std::regex_search(show, std::regex(R"(PROVISIONER\s+qemu)"))) << show;
  EXPECT_TRUE(contains(show, "NAME              TYPE           IP         CPU    RAM      DISK"))
      << show;
  auto again = machine().talosctl({"cluster", "create"});
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(contains(again.err, "exists")) << again.err;
}

TEST(Vm, A2_AllServicesRun) {
  EXPECT_TRUE(allUp(30));
  auto table = machine().ok({"services"});
  EXPECT_TRUE(
      contains(lines(table)[0], "NODE       SERVICE           STATE       HEALTH   LAST CHANGE"))
      << table;
  for (auto service : {"machined", "networkd", "apid", "trustd", "timed", "etcd-supervisor"}) {
    EXPECT_TRUE(std::regex_search(
        table, std::regex(std::string(R"(10\.5\.0\.2\s+)") + service + R"(\s+Running)")))
        << table;
  }
}

TEST(Vm, A3_ProcessOneIsInitAndRootIsReadOnlySquashfs) {
  auto processes = machine().ok({"processes"});
  EXPECT_TRUE(
      std::regex_search(processes, std::regex(R"(\n10\.5\.0\.2\s+1\s+\S+\s+1\s.*/sbin/init)")))
      << processes;
  auto mounts = machine().ok({"read", "/proc/mounts"});
  EXPECT_TRUE(std::regex_search(mounts, std::regex(R"(\S+ / squashfs ro,)"))) << mounts;
  EXPECT_EQ(machine().servicePids().count("init"), 1) << processes;
}

// Catches: a package that drags a shell, an interpreter or a package manager into the image.
TEST(Vm, A4_NoShellNoInterpreterNoPackageManager) {
  std::set<std::string> names;
  for (auto& line : lines(machine().ok({"ls", "-r", "/"}, 120))) {
    auto slash = line.find_last_of("/ ");
    names.insert(slash == std::string::npos ? line : line.substr(slash + 1));
  }
  EXPECT_TRUE(names.count("apid")) << "the listing is not of the image";
  for (auto bad : {"sh", "bash", "dash", "busybox", "perl", "python3", "apt", "apt-get", "dpkg",
                   "rpm", "ssh", "sshd", "login", "su", "sudo"}) {
    EXPECT_EQ(names.count(bad), 0) << bad << " is on the node";
  }
}

// Catches: a clock that stays wrong, or is right only until the next start.
TEST(Vm, A4_TheClockIsSetFromTheConfigsServer) {
  auto& m = machine();
  auto status = m.ok({"get", "timestatus", "node", "-o", "yaml"});
  EXPECT_TRUE(contains(status, "synced: true")) << status;
  EXPECT_TRUE(contains(status, "server: 10.5.0.1")) << status;
  EXPECT_FALSE(contains(status, "epoch: 0")) << status;
  auto day = [](time_t t) {
    char text[16];
    struct tm utc;
    gmtime_r(&t, &utc);
    strftime(text, sizeof text, "%Y-%m-%d", &utc);
    return std::string(text);
  };
  auto before = day(time(nullptr));
  auto clocks = m.ok({"time"});
  auto chip = m.ok({"read", "/proc/driver/rtc"});
  auto after = day(time(nullptr));
  EXPECT_TRUE(contains(clocks, "10.5.0.1")) << clocks;
  EXPECT_TRUE(contains(clocks, before) || contains(clocks, after)) << clocks;
  EXPECT_TRUE(contains(chip, before) || contains(chip, after)) << chip;
  // It began in 2020, before this was built (a build outside of git does not know when it was).
  if (kj::StringPtr(buildVersion().built) > "2021"_kj) {
    auto log = m.ok({"logs", "machined"});
    EXPECT_TRUE(contains(log, kj::str("setting it to ", buildVersion().built).cStr())) << log;
  }
  auto nobody = m.talosctl({"time", "--check", "10.5.0.77"}, 20);
  EXPECT_EQ(nobody.status, 1) << nobody.out;
  EXPECT_TRUE(contains(nobody.err, "10.5.0.77: ")) << nobody.err;
}

// Catches: a service of the config that needs a reboot to come or go.
TEST(Vm, A4_TheServiceTimedFollowsTheConfig) {
  auto& m = machine();
  auto disable = [&](const char* value) {
    m.ok({"patch", "mc", "--immediate", "-p",
          std::string(R"([{"op":"replace","path":"/machine/time/disabled","value":)") + value +
              "}]"});
  };
  disable("true");
  EXPECT_TRUE(eventually([&] { return !contains(m.ok({"services"}), "timed"); }, 20));
  auto status = m.ok({"get", "timestatus", "node", "-o", "yaml"});
  EXPECT_TRUE(contains(status, "syncDisabled: true")) << status;
  disable("false");
  EXPECT_TRUE(eventually([&] { return contains(m.ok({"services"}), "timed"); }, 20));
  EXPECT_TRUE(allUp(30)) << m.ok({"services"});
  EXPECT_EQ(m.talosctl({"service", "timed", "restart"}).status, 0);
  EXPECT_TRUE(allUp(30)) << m.ok({"services"});
}

// Catches: modules that are not loaded, or without their parameters, or after their files were to
// be written; a change that needs a reboot and does not say so, and a change that needs none and
// waits for it.
TEST(Vm, A4_ModulesAndSysfsFollowTheConfig) {
  auto& m = machine();
  auto parameter = [&](const char* name) {
    return m.ok({"read", std::string("/sys/module/") + name});
  };
  auto patch = [&](const char* operations) {
    return m.talosctl({"patch", "mc", "--immediate", "-p", operations});
  };
  EXPECT_EQ("4790\n", parameter("vxlan/parameters/udp_port"));
  EXPECT_EQ("N\n", parameter("vxlan/parameters/log_ecn_error"));
  auto added = patch(R"([
    {"op": "add", "path": "/machine/kernel/modules/-", "value": {"name": "geneve"}},
    {"op": "replace", "path": "/machine/sysfs/module.vxlan.parameters.log_ecn_error",
     "value": "Y"},
    {"op": "add", "path": "/machine/sysfs/module.geneve.parameters.log_ecn_error",
     "value": "N"}])");
  EXPECT_FALSE(contains(added.err, "not in effect")) << added.err;
  EXPECT_EQ("Y\n", parameter("vxlan/parameters/log_ecn_error"));
  EXPECT_EQ("N\n", parameter("geneve/parameters/log_ecn_error"));
  auto other = patch(R"([
    {"op": "replace", "path": "/machine/kernel/modules/0/parameters/0", "value": "udp_port=1"},
    {"op": "add", "path": "/machine/kernel/modules/-", "value": {"name": "no-such"}},
    {"op": "add", "path": "/machine/sysfs/no.such", "value": "1"}])");
  for (auto problem : {"\"vxlan\" is loaded already", "reboot to apply them",
                       "\"no-such\": the image has no such module", "machine.sysfs.no.such: "}) {
    EXPECT_TRUE(contains(other.err, problem)) << other.err;
  }
  EXPECT_EQ("4790\n", parameter("vxlan/parameters/udp_port"));
  auto back = patch(R"([
    {"op": "replace", "path": "/machine/kernel/modules/0/parameters/0", "value": "udp_port=4790"},
    {"op": "remove", "path": "/machine/kernel/modules/2"},
    {"op": "remove", "path": "/machine/sysfs/no.such"}])");
  EXPECT_EQ(back.status, 0) << back.err;
  EXPECT_FALSE(contains(back.err, "not in effect")) << back.err;
}

TEST(Vm, A5_EveryReadingCommandShowsThisGuest) {
  auto& m = machine();
  EXPECT_TRUE(contains(m.ok({"version"}), "NODE:        10.5.0.2"));
  EXPECT_TRUE(
      contains(m.ok({"get", "services", "-o", "yaml"}), "type: Services.v1alpha1.talos.dev"));
  EXPECT_TRUE(contains(m.ok({"dmesg"}), "Linux version 6."));
  EXPECT_TRUE(contains(m.ok({"logs", "machined"}), "10.5.0.2: "));
  EXPECT_TRUE(contains(m.ok({"ls", "/etc"}), "10.5.0.2   os-release"));
  EXPECT_TRUE(contains(m.ok({"read", "/etc/os-release"}), "ID=talos"));
  // Numbers, not only rows: this guest has half a gibibyte, and nothing of it is for nothing.
  auto shows = [&](std::vector<std::string> command, const char* row) {
    auto table = m.ok(command);
    EXPECT_TRUE(std::regex_search(table, std::regex(row))) << row << " in\n" << table;
  };
  shows({"memory"}, R"(10\.5\.0\.2\s+[34]\d\d\s+[1-9]\d*\s+[1-9]\d*\s)");
  shows({"mounts"},
        R"(10\.5\.0\.2\s+\S+\s+\d+\.\d+\s+\d+\.\d+\s+\d+\.\d+\s+\S+\s+/system/state\s)");
  shows({"stats"}, R"(apid\s+[1-9]\d*\.\d+\s+[1-9]\d*\s)");
  shows({"du", "-d", "1", "/usr"}, R"(10\.5\.0\.2\s+[1-9]\d{5,}\s)");
  EXPECT_TRUE(contains(m.ok({"interfaces"}), "10.5.0.2/24"));
  EXPECT_TRUE(contains(m.ok({"routes"}), "10.5.0.1/32"));
  EXPECT_TRUE(contains(m.ok({"get", "addresses"}), "eth0/10.5.0.2/24"));
  shows({"disks", "-o", "yaml"}, R"(busPath: /pci0000:00/0000:00:[0-9a-f.]+/virtio\d+/\n)");
  EXPECT_TRUE(contains(m.ok({"get", "machinetype"}), "controlplane"));
  EXPECT_TRUE(contains(m.ok({"get", "mc", "-o", "yaml"}), "clusterName: vmtest"));
  auto follow = harness::Background(m.command({"events", "--tail", "-1"}));
  EXPECT_TRUE(follow.waitFor(
      [](const std::string& out, const std::string&) {
        return std::regex_search(out, std::regex(R"(machine\.SequenceEvent\s+boot\s+STOP)"));
      },
      30))
      << follow.out() << follow.err();
  EXPECT_EQ(follow.interrupt(10), 0);
}

TEST(Vm, A6_CopyBringsTheFilesOver) {
  auto target = machine().folder() + "/copied";
  machine().ok({"cp", "/usr/share", target});
  std::ifstream copied(target + "/sbom.spdx.json");
  std::stringstream text;
  text << copied.rdbuf();
  EXPECT_TRUE(text.str() == machine().ok({"read", "/usr/share/sbom.spdx.json"}))
      << text.str().size() << " bytes arrived";
}

TEST(Vm, A7_WrongWordsAreNamed) {
  struct Row {
    std::vector<std::string> arguments;
    const char* words;
  };
  for (auto& row : std::vector<Row>{{{"logs", "nosuch"}, "nosuch"},
                                    {{"service", "nosuch"}, "nosuch"},
                                    {{"get", "nosuchtype"}, "nosuchtype"},
                                    {{"ls", "/no/such"}, "/no/such"},
                                    {{"read", "/etc"}, "/etc"},
                                    {{"cp", "etc", "/tmp/x"}, "absolute"}}) {
    auto result = machine().talosctl(row.arguments);
    EXPECT_EQ(result.status, 1) << row.words;
    EXPECT_TRUE(contains(result.err, row.words)) << result.err;
  }
}

// --- accidents
// ----------------------------------------------------------------------------------------

// Waits for another process than the one with this PID. An answer to "restart" comes before the
// restart, and a process that was just started is a copy of process 1 until it runs its program.
bool anotherRuns(const std::string& service, int pid) {
  return eventually(
      [&] {
        auto now = machine().servicePids();
        return now.count(service) && now[service] != pid;
      },
      30);
}

// Catches: a daemon that is not started again, that takes others with it, or a log stream that
// dies silently.
void killAndSeeItComeBack(const std::string& victim) {
  ASSERT_TRUE(allUp(60));
  auto before = machine().servicePids();
  ASSERT_EQ(before.size(), 6) << "init, machined, networkd, apid, trustd and etcd-supervisor";
  harness::Background follow(machine().command({"logs", "-f", "machined"}));
  ASSERT_TRUE(
      follow.waitFor([](const std::string& out, const std::string&) { return !out.empty(); }, 20));
  machine().talosctl(
      {"service", victim, "kill", "--signal", "SIGKILL"});  // apid may be gone before it answers
  EXPECT_TRUE(anotherRuns(victim, before[victim]));
  EXPECT_TRUE(allUp(60)) << machine().talosctl({"services"}).out;

  for (auto& [name, pid] : machine().servicePids()) {
    if (name != victim)
      EXPECT_EQ(pid, before[name]) << name << " was disturbed when " << victim << " was killed";
  }
  // Something new reaches the log, and the follower gets it, through whatever broke in between.
  // Lines from before that do not count.
  auto seen = follow.out().size();
  auto networkd = machine().servicePids()["networkd"];
  machine().talosctl({"service", "networkd", "restart"});
  EXPECT_TRUE(follow.waitFor(
      [&](const std::string& out, const std::string&) { return out.size() > seen; }, 30))
      << follow.err();
  EXPECT_TRUE(anotherRuns("networkd", networkd));
  EXPECT_TRUE(allUp(60));
}

TEST(Vm, B1_NetworkdComesBackAndNothingElseIsDisturbed) {
  killAndSeeItComeBack("networkd");
}
TEST(Vm, B2_ApidComesBackAndNothingElseIsDisturbed) {
  killAndSeeItComeBack("apid");
}
// Catches: an apid that interrupts running calls when it is restarted.
TEST(Vm, B2_ApidEndsInGoodOrder) {
  ASSERT_TRUE(allUp(60));
  auto apid = machine().servicePids()["apid"];
  EXPECT_EQ(machine().talosctl({"service", "apid", "restart"}).status, 0);
  EXPECT_TRUE(anotherRuns("apid", apid));
  ASSERT_TRUE(allUp(60));
  auto events = machine().ok({"service", "apid"});
  auto end = "Process (PID " + std::to_string(apid) + ") exited with status 0";
  EXPECT_TRUE(contains(events, end.c_str())) << events;
}
TEST(Vm, B2_TrustdComesBackAndNothingElseIsDisturbed) {
  killAndSeeItComeBack("trustd");
}
TEST(Vm, B2_EtcdSupervisorComesBackAndNothingElseIsDisturbed) {
  killAndSeeItComeBack("etcd-supervisor");
}

// Catches: a process that holds the authority's key with a right more than it needs, or whose
// memory ends in a core file.
TEST(Vm, B2_WhoHoldsTheKeyHasNoRightsAndLeavesNoCore) {
  ASSERT_TRUE(allUp(60));
  auto pids = machine().servicePids();
  auto status = [&](const char* name) {
    return machine().ok({"read", "/proc/" + std::to_string(pids[name]) + "/status"});
  };
  auto trustd = status("trustd");
  for (auto line : {R"(Uid:\s51\s+51\s+51\s+51)", R"(CapEff:\s0+\n)", R"(CapPrm:\s0+\n)",
                    R"(CapBnd:\s0+\n)", R"(NoNewPrivs:\s1)", R"(Seccomp:\s2)"}) {
    EXPECT_TRUE(std::regex_search(trustd, std::regex(line))) << line << "\n" << trustd;
  }
  for (auto name : {"trustd", "machined"}) {
    auto limits = machine().ok({"read", "/proc/" + std::to_string(pids[name]) + "/limits"});
    EXPECT_TRUE(std::regex_search(limits, std::regex(R"(Max core file size\s+0\s+0)"))) << limits;
  }
}

// Catches: a brain that has a right which the documents do not list, or lacks one that they list
// (machined/confined/sandbox/brain-rights.h); a process 1 that cannot give daemons their rights.
TEST(Vm, B2_TheBrainHasTheRightsThatAreListed) {
  ASSERT_TRUE(allUp(60));
  auto status = [](int pid) {
    return machine().ok({"read", "/proc/" + std::to_string(pid) + "/status"});
  };
  auto brain = status(machine().servicePids()["machined"]);
  auto set = std::string(kj::str(kj::hex(confine::brainCapabilities())).cStr());
  for (auto name : {"CapEff", "CapPrm", "CapBnd"}) {
    EXPECT_TRUE(std::regex_search(brain, std::regex(std::string(name) + R"(:\s0*)" + set + "\n")))
        << name << " " << set << "\n"
        << brain;
  }
  EXPECT_TRUE(std::regex_search(brain, std::regex(R"(NoNewPrivs:\s1)"))) << brain;
  EXPECT_TRUE(std::regex_search(brain, std::regex(R"(Seccomp:\s2)"))) << brain;
  EXPECT_TRUE(std::regex_search(status(1), std::regex(R"(CapBnd:\s0*1ff)"))) << status(1);
}

// Catches: a daemon that a node starts with fewer walls than in its row; the effect of each wall is
// tested on the same kernel (tests/kernel/confinement-test.cc).
TEST(Vm, B2_EveryDaemonIsConfined) {
  ASSERT_TRUE(allUp(60));
  auto pids = machine().servicePids();
  for (auto name : {"networkd", "apid", "trustd", "etcd-supervisor"}) {
    auto status = machine().ok({"read", "/proc/" + std::to_string(pids[name]) + "/status"});
    for (auto line : {R"(NoNewPrivs:\s1)", R"(Seccomp:\s2)", R"(Uid:\s[56]\d\s)"}) {
      EXPECT_TRUE(std::regex_search(status, std::regex(line))) << name << " " << line << status;
    }
    auto limit =
        machine().ok({"read", std::string("/sys/fs/cgroup/system/") + name + "/memory.max"});
    EXPECT_TRUE(std::regex_match(limit, std::regex("[1-9][0-9]+\n"))) << name << " " << limit;
    // The wrapper warns if the kernel has no Landlock.
    auto log = machine().ok({"logs", name});
    EXPECT_FALSE(contains(log, "without Landlock")) << log;
  }
}

TEST(Vm, B3_TheBrainComesBackAndNothingElseIsDisturbed) {
  killAndSeeItComeBack("machined");
}

TEST(Vm, C1_TheStoreOutlivesTheBrain) {
  auto version = [] {
    std::smatch match;
    auto text = machine().ok({"get", "mc", "v1alpha1", "-o", "yaml"});
    return std::regex_search(text, match, std::regex(R"(version: (\d+))"))
               ? std::stoi(match[1].str())
               : -1;
  };
  auto before = version();
  EXPECT_GT(before, 0);
  auto brain = machine().servicePids()["machined"];
  machine().talosctl({"service", "machined", "kill", "--signal", "SIGKILL"});
  ASSERT_TRUE(eventually(
      [&] {
        auto now = machine().servicePids();
        return now.count("machined") && now["machined"] != brain;
      },
      30));
  ASSERT_TRUE(allUp(60));
  EXPECT_GE(version(), before) << "a version went backwards";
}

}  // namespace talos::vm

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new talos::vm::Environment);
  return RUN_ALL_TESTS();
}
