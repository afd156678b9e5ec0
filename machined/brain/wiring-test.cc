// The pure parts of what stands in this folder: sequences, progress, lines of the kernel log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/reboot.h>

#include <string>

#include "machined/boot/boot-progress.h"
#include "machined/boot/sequences.h"
#include "machined/process1/test-process1.h"
#include "machined/telemetry/node-console.h"

namespace talos::machined {
namespace {

// Notes the name of each task function that is called.
class NotedTasks final : public MachineTasks {
 public:
  std::string called;
  kj::Promise<void> setupLogger() override { return note("logger"); }
  kj::Promise<void> enforceKsppRequirements() override { return note("kspp"); }
  kj::Promise<void> writeRequiredSysctls() override { return note("sysctls"); }
  kj::Promise<void> setupSystemDirectory() override { return note("directory"); }
  kj::Promise<void> loadNetworkModules() override { return note("net-modules"); }
  kj::Promise<void> loadDiskModules() override { return note("disk-modules"); }
  kj::Promise<void> loadDeviceModules() override { return note("modules"); }
  kj::Promise<void> raiseClock() override { return note("clock"); }
  kj::Promise<void> setResourceLimits() override { return note("rlimit"); }
  kj::Promise<void> createEtcNetworkFiles() override { return note("etc"); }
  kj::Promise<void> discoverNetwork() override { return note("discover"); }
  kj::Promise<void> mountState() override { return note("mount-state"); }
  kj::Promise<void> loadConfig() override { return note("load"); }
  kj::Promise<void> setupNetwork() override { return note("network"); }
  kj::Promise<void> validateConfig() override { return note("validate"); }
  kj::Promise<void> saveConfig() override { return note("save"); }
  kj::Promise<void> setUserEnvVars() override { return note("env"); }
  kj::Promise<void> mountEphemeralPartition() override { return note("ephemeral"); }
  kj::Promise<void> setupVarDirectory() override { return note("var"); }
  kj::Promise<void> mountOverlayFilesystems() override { return note("overlay"); }
  kj::Promise<void> writeUserFiles() override { return note("files"); }
  kj::Promise<void> writeUserSysctls() override { return note("user-sysctls"); }
  kj::Promise<void> startAllServices() override { return note("start"); }
  kj::Promise<void> stopNetworkd() override { return note("stop-networkd"); }
  kj::Promise<void> stopAllServices() override { return note("stop"); }
  kj::Promise<void> unmountState() override { return note("unmount-state"); }
  kj::Promise<void> goDown(unsigned command) override {
    return note(command == LINUX_REBOOT_CMD_RESTART     ? "restart"
                : command == LINUX_REBOOT_CMD_POWER_OFF ? "power-off"
                                                        : "halt");
  }

 private:
  kj::Promise<void> note(const char* what) {
    called = what;
    return kj::READY_NOW;
  }
};

// "phase(task=function,...) ..."
std::string show(Sequence sequence, NotedTasks& tasks) {
  std::string text = sequence.name.cStr();
  text += ":";
  for (auto& phase : sequence.phases) {
    text += std::string(" ") + phase.name.cStr() + "(";
    for (auto& task : phase.tasks) {
      if (text.back() != '(') text += ",";
      task.run();
      text += std::string(task.name.cStr()) + "=" + tasks.called;
    }
    text += ")";
  }
  return text;
}

struct SequencesTest : public testing::Test {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  NotedTasks tasks;
  ~SequencesTest() noexcept override {}
};

// Catches: a phase or a task that is renamed, moved, lost, or does another one's work.
TEST_F(SequencesTest, NamesAndOrder) {
  EXPECT_EQ(
      "initialize: logger(setupLogger=logger) "
      "systemRequirements(raiseClock=clock,enforceKSPPRequirements=kspp,"
      "writeRequiredSysctls=sysctls,setupSystemDirectory=directory,loadNetworkModules=net-modules,"
      "setRLimit=rlimit) etc(createEtcNetworkFiles=etc) "
      "discoverNetwork(setupDiscoveryNetwork=discover,loadDiskModules=disk-modules) "
      "mountSystem(mountStatePartition=mount-state) "
      "config(loadConfig=load) setupNetwork(setupDiscoveryNetwork=network)",
      show(initializeSequence(tasks, Mode::kMetal), tasks));
  EXPECT_EQ(
      "initialize: logger(setupLogger=logger) "
      "systemRequirements(writeRequiredSysctlsForContainer=sysctls,"
      "setupSystemDirectory=directory) config(loadConfig=load)",
      show(initializeSequence(tasks, Mode::kContainer), tasks));
  EXPECT_EQ(
      "boot: validateConfig(validateConfig=validate) saveConfig(saveConfig=save) "
      "env(setUserEnvVars=env) ephemeral(mountEphemeralPartition=ephemeral) "
      "var(setupVarDirectory=var) overlay(mountOverlayFilesystems=overlay) "
      "userSetup(writeUserFiles=files,writeUserSysctls=user-sysctls) "
      "startEverything(startAllServices=start,loadDeviceModules=modules)",
      show(bootSequence(tasks, Mode::kMetal), tasks));
  EXPECT_EQ(
      "boot: validateConfig(validateConfig=validate) saveConfig(saveConfig=save) "
      "env(setUserEnvVars=env) var(setupVarDirectory=var) "
      "userSetup(writeUserFiles=files,writeUserSysctls=user-sysctls) "
      "startEverything(startAllServices=start)",
      show(bootSequence(tasks, Mode::kContainer), tasks));
  EXPECT_EQ(
      "reboot: cleanup(stopNetworkd=stop-networkd) stopEverything(stopAllServices=stop) "
      "unmountSystem(unmountStatePartition=unmount-state) reboot(reboot=restart)",
      show(rebootSequence(tasks), tasks));
  EXPECT_EQ(
      "shutdown: cleanup(stopNetworkd=stop-networkd) stopEverything(stopAllServices=stop) "
      "unmountSystem(unmountStatePartition=unmount-state) shutdown(shutdown=halt)",
      show(shutdownSequence(tasks, LINUX_REBOOT_CMD_HALT), tasks));
}

// Catches: a cloud taken for metal, where a disk would be asked for.
TEST(Modes, ByPlatform) {
  EXPECT_EQ(Mode::kCloud, modeOfPlatform("gcp"));
  EXPECT_EQ(Mode::kContainer, modeOfPlatform("container"));
  EXPECT_EQ(Mode::kMetal, modeOfPlatform("packet"));
  EXPECT_EQ("cloud"_kj, nameOf(Mode::kCloud));
}

// Catches: a new brain that begins the boot again, forgets the reasons, or does not finish a
// reboot.
TEST(ProgressTest, SurvivesTheBrain) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  FakeMachine machine;
  {
    FakeProcess1 first(machine);
    EXPECT_EQ(Progress::Stage::kInitialize, takeProgress(first).stage);
    Progress p;
    p.stage = Progress::Stage::kFailed;
    p.problems.add(kj::str("config.yaml:3:1: machine: missing\nsecond line"));
    holdProgress(first, p).wait(scope);
  }
  {
    FakeProcess1 second(machine);
    auto p = takeProgress(second);
    EXPECT_EQ(Progress::Stage::kFailed, p.stage);
    ASSERT_EQ(1u, p.problems.size());
    EXPECT_EQ("config.yaml:3:1: machine: missing second line", p.problems[0]);
    p = Progress();
    p.stage = Progress::Stage::kGoingDown;
    p.command = LINUX_REBOOT_CMD_POWER_OFF;
    holdProgress(second, p).wait(scope);
  }
  FakeProcess1 third(machine);
  auto p = takeProgress(third);
  EXPECT_EQ(Progress::Stage::kGoingDown, p.stage);
  EXPECT_EQ(LINUX_REBOOT_CMD_POWER_OFF, p.command);
}

// Catches: nonsense that crashes the brain in a loop or makes it go down with command 0.
TEST(ProgressTest, Nonsense) {
  for (auto text : {""_kj, "\n\n"_kj, "stage"_kj, "stage x\n"_kj, "problem \n"_kj,
                    "command 99999999999\n"_kj}) {
    EXPECT_EQ(Progress::Stage::kInitialize, Progress::fromText(text.asArray()).stage);
  }
  EXPECT_EQ(Progress::Stage::kRunning, Progress::fromText("stage going-down\n"_kj.asArray()).stage);
}

// Catches: a record that the kernel cuts or splits, escape sequences on somebody's terminal.
TEST(KernelLogRecord, IsOneShortLine) {
  EXPECT_EQ("<6>[talos] hello\n", kernelLogRecord("hello"));
  EXPECT_EQ("<3>[talos] no\n", kernelLogRecord("no", Tone::kAlarm));
  EXPECT_EQ("<6>[talos] a?[31mb?c\n", kernelLogRecord("a\x1b[31mb\nc"));
  auto record = kernelLogRecord(kj::str(kj::repeat('x', 2000)));
  EXPECT_EQ(976u, record.size());
  EXPECT_TRUE(record.endsWith("x...\n"));
}

}  // namespace
}  // namespace talos::machined
