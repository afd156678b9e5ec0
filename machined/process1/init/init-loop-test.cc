#include "machined/process1/init/init-loop.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/reboot.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "machined/process1/init/init-harness.h"

namespace talos::process1 {
namespace {

struct Pipe {
  int in, out;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) abort();
    in = ends[1];
    out = ends[0];
  }
  ~Pipe() {
    close(out);
    closeIn();
  }
  void closeIn() {
    if (in >= 0) close(in);
    in = -1;
  }
};

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

ino_t inode(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

// Catches: a child with the parent's blocked signals, with descriptors that are not its own, or
// without its environment; an exit that is not reported.
TEST(Process1, StartsAChildCleanlyAndReportsItsExit) {
  Harness harness;
  int brain = harness.next().socket;
  ASSERT_EQ(2u, inventory(brain).size());
  Pipe output, other;
  auto what = harness.child({"show", "two words"});
  what.environment = {"A=1", "B="};
  what.output = output.in;
  what.passed = {{other.in, 7}, {other.out, 3}};
  sendSpawn(brain, 5, "show", what);
  output.closeIn();
  auto started = receive(brain);
  EXPECT_EQ(ReportKind::kReply, started.report.kind);
  EXPECT_EQ(5u, started.report.id);
  EXPECT_EQ(0, started.report.code) << started.report.text;
  EXPECT_GT(started.report.pid, 1);
  EXPECT_GE(started.fd, 0);
  close(started.fd);
  std::string text = readAll(output.out);
  EXPECT_TRUE(has(text, "arg two words")) << text;
  EXPECT_TRUE(has(text, "env A=1") && has(text, "env B=")) << text;
  EXPECT_TRUE(has(text, "blocked 0")) << text;
  EXPECT_EQ(std::string::npos, text.find("ignored")) << text;
  for (int fd = 0; fd < 64; ++fd) {
    bool wanted = fd < 4 || fd == 7;
    EXPECT_EQ(wanted, has(text, "fd " + std::to_string(fd))) << fd << "\n" << text;
  }
  auto exit = receive(brain);
  EXPECT_EQ(ReportKind::kExit, exit.report.kind);
  EXPECT_STREQ("show", exit.report.name);
  EXPECT_EQ(started.report.pid, exit.report.pid);
  EXPECT_EQ(0, exit.report.code);
}

// Catches: a program of this system that a request for its stack ends, because it has no handler
// yet.
TEST(Process1, AStackIsNotAskedOfAProgramThatStarts) {
  Harness harness;
  int brain = harness.next().socket;
  inventory(brain);
  Pipe output;
  auto what = harness.child({"show"});
  what.environment = {"TALOS_SERVICE_PAGE_FD=9"};
  what.output = output.in;
  sendSpawn(brain, 5, "show", what);
  output.closeIn();
  auto started = receive(brain);
  EXPECT_EQ(0, started.report.code) << started.report.text;
  close(started.fd);
  std::string text = readAll(output.out);
  EXPECT_TRUE(has(text, "ignored " + std::to_string(SIGUSR2))) << text;
}

// Catches: a failed exec that looks like a start, that keeps its slot, or that is also an exit.
TEST(Process1, SaysWhyExecFailed) {
  Harness harness;
  int brain = harness.next().socket;
  inventory(brain);
  SpawnText missing;
  missing.argv = {"/no/such/program"};
  sendSpawn(brain, 1, "x", missing);
  auto refused = receive(brain);
  EXPECT_EQ(1u, refused.report.id);
  EXPECT_EQ(ENOENT, refused.report.code);
  EXPECT_STREQ("cannot start \"x\": exec: No such file or directory", refused.report.text);
  EXPECT_EQ(-1, refused.fd);
  sendSpawn(brain, 2, "x", harness.child({"exit", "3"}));
  auto started = receive(brain);
  EXPECT_EQ(2u, started.report.id);
  EXPECT_EQ(0, started.report.code);
  auto exit = receive(brain);
  EXPECT_EQ(ReportKind::kExit, exit.report.kind);
  EXPECT_EQ(3 << 8, exit.report.code);
}

TEST(Process1, RefusesASecondChildInASlot) {
  Harness harness;
  int brain = harness.next().socket;
  inventory(brain);
  sendSpawn(brain, 1, "x", harness.child({"wait"}));
  EXPECT_EQ(0, receive(brain).report.code);
  auto first = harness.next();
  sendSpawn(brain, 2, "x", harness.child({"wait"}));
  EXPECT_EQ(EEXIST, receive(brain).report.code);
  // An ended child gives its slot back before its exit is acknowledged.
  harness.killNow(first.pid);
  EXPECT_EQ(ReportKind::kExit, receive(brain).report.kind);
  sendSpawn(brain, 3, "x", harness.child({"wait"}));
  EXPECT_EQ(0, receive(brain).report.code);
}

// Catches: a successor that does not learn of children, descriptors or exits; children that die
// with the brain; requests that the dead brain had sent and that are lost.
TEST(Process1, NothingIsLostWhenTheBrainDies) {
  Harness harness;
  auto brain = harness.next();
  inventory(brain.socket);
  Pipe first, second;
  send(brain.socket, RequestKind::kHold, 1, "log", 0, 0, {first.in});
  send(brain.socket, RequestKind::kHold, 2, "gone", 0, 0, {first.in});
  sendSpawn(brain.socket, 3, "stays", harness.child({"wait"}));
  auto stays = harness.next();
  sendSpawn(brain.socket, 4, "ends", harness.child({"exit", "1"}));
  for (int reports = 0; reports < 5; ++reports) receive(brain.socket);  // four replies, an exit
  // Sent, and never answered: the brain dies before it can read.
  send(brain.socket, RequestKind::kHold, 5, "log", 0, 0, {second.in});
  send(brain.socket, RequestKind::kDrop, 6, "gone");
  harness.killNow(brain.pid);

  auto next = harness.next();
  EXPECT_NE(brain.pid, next.pid);
  auto all = inventory(next.socket);
  ASSERT_EQ(4u, all.size());
  EXPECT_EQ(ReportKind::kWelcome, all[0].report.kind);
  EXPECT_EQ(1u, all[0].report.sequence);
  EXPECT_EQ(ReportKind::kSurvivor, all[1].report.kind);
  EXPECT_STREQ("stays", all[1].report.name);
  EXPECT_GE(all[1].fd, 0);
  EXPECT_EQ(ReportKind::kHeld, all[2].report.kind);
  EXPECT_STREQ("log", all[2].report.name);
  EXPECT_EQ(inode(second.in), inode(all[2].fd));
  auto exit = receive(next.socket);
  EXPECT_EQ(ReportKind::kExit, exit.report.kind);
  EXPECT_STREQ("ends", exit.report.name);
  EXPECT_EQ(0, kill(stays.pid, 0)) << "the child was disturbed";
}

// Catches: an exit that is lost because a crashing brain saw it but did not acknowledge it; an exit
// that is reported again after it was acknowledged.
TEST(Process1, ExitsAreRepeatedUntilAcknowledged) {
  Harness harness;
  auto brain = harness.next();
  inventory(brain.socket);
  sendSpawn(brain.socket, 1, "a", harness.child({"exit", "1"}));
  receive(brain.socket);
  auto a = receive(brain.socket);
  sendSpawn(brain.socket, 2, "b", harness.child({"exit", "2"}));
  receive(brain.socket);
  auto b = receive(brain.socket);
  EXPECT_LT(a.report.sequence, b.report.sequence);
  send(brain.socket, RequestKind::kAcknowledge, 9, "", 0, a.report.sequence);
  harness.killNow(brain.pid);
  auto next = harness.next();
  ASSERT_EQ(2u, inventory(next.socket).size());
  auto again = receive(next.socket);
  EXPECT_STREQ("b", again.report.name);
  EXPECT_EQ(b.report.sequence, again.report.sequence);
  send(next.socket, RequestKind::kAcknowledge, 9, "", 0, again.report.sequence);
  // No reports are left: the next report is the answer to this.
  send(next.socket, RequestKind::kDrop, 77, "none");
  EXPECT_EQ(77u, receive(next.socket).report.id);
}

// Catches: zombies that accumulate because only known children are reaped.
TEST(Process1, ReapsOrphans) {
  Harness harness;
  int brain = harness.next().socket;
  inventory(brain);
  sendSpawn(brain, 1, "parent", harness.child({"orphan"}));
  EXPECT_EQ(0, receive(brain).report.code);
  EXPECT_EQ(ReportKind::kExit, receive(brain).report.kind);
  auto orphan = harness.next();
  harness.killNow(orphan.pid);
  EXPECT_TRUE(waitUntilGone(orphan.pid));
}

// Catches: bytes from a broken brain that crash process 1, leak its descriptors or stop its
// service.
TEST(Process1, SurvivesGarbage) {
  Harness harness;
  int brain = harness.next().socket;
  inventory(brain);
  send(brain, RequestKind::kDrop, 1, "none");
  EXPECT_EQ(1u, receive(brain).report.id);
  size_t before = harness.openDescriptors();
  std::mt19937 random(1);
  Pipe pipe;
  std::vector<uint8_t> bytes;
  for (int round = 0; round < 3000; ++round) {
    bytes.resize(1 + random() % (round % 50 == 0 ? 40000 : 400));
    for (auto& b : bytes) b = static_cast<uint8_t>(random());
    if (round % 2 == 0 && bytes.size() >= sizeof(Request)) {
      // Nearly valid requests: version and kind fit, and there is no id, so that no reply is due.
      Request r = {};
      r.version = kVersion;
      r.kind = static_cast<RequestKind>(1 + random() % 5);
      memcpy(bytes.data(), &r, sizeof(r));
    }
    std::vector<int> fds(random() % 20, pipe.in);
    sendBytes(brain, bytes.data(), bytes.size(), fds);
    if (round % 100 == 0) {
      // Random ids may have got answers; skip them up to the answer to this.
      send(brain, RequestKind::kDrop, 0x7a7a7a7a, "none");
      while (receive(brain).report.id != 0x7a7a7a7a) {
      }
    }
  }
  send(brain, RequestKind::kDrop, 0x7a7a7a7b, "none");
  while (receive(brain).report.id != 0x7a7a7a7b) {
  }
  EXPECT_EQ(before, harness.openDescriptors());
  sendSpawn(brain, 4, "honest", harness.child({"exit", "0"}));
  EXPECT_EQ(0, receive(brain).report.code);
}

// Catches: a process 1 that waits for a brain that does not read, or that loses answers then.
TEST(Process1, NeverWaitsForTheBrain) {
  Harness harness;
  auto brain = harness.next();
  inventory(brain.socket);
  fcntl(brain.socket, F_SETFL, O_NONBLOCK);
  Request r = {};
  r.version = kVersion;
  r.kind = RequestKind::kDrop;
  r.name[0] = 'x';
  unsigned sent = 0;
  // Sends until process 1 has stopped reading and the socket is full both ways.
  for (r.id = 1; write(brain.socket, &r, sizeof(r)) == static_cast<ssize_t>(sizeof(r)); ++r.id)
    ++sent;
  EXPECT_GT(sent, kMaxReplies);
  fcntl(brain.socket, F_SETFL, 0);
  for (unsigned i = 1; i <= sent; ++i) ASSERT_EQ(i, receive(brain.socket).report.id);
  // Process 1 still works beside a brain that still does not read.
  fcntl(brain.socket, F_SETFL, O_NONBLOCK);
  while (write(brain.socket, &r, sizeof(r)) == static_cast<ssize_t>(sizeof(r))) {
  }
  harness.killNow(brain.pid);
  auto next = harness.next();
  EXPECT_EQ(1u, receive(next.socket).report.sequence);
}

// Catches: a process 1 that gives up, or that spins, when the brain dies again and again.
TEST(Process1, KeepsStartingABrainThatKeepsDying) {
  Harness harness;
  for (int i = 0; i < 6; ++i) harness.killNow(harness.next().pid);
  harness.waitForConsole("too often); restarting it in 1 s");
  auto brain = harness.next();
  EXPECT_EQ(6u, receive(brain.socket).report.sequence);
}

TEST(Process1, SaysWhyThereIsNoBrain) {
  Harness::Options options;
  options.brainExists = false;
  Harness harness(options);
  harness.waitForConsole(
      "/no/such/brain could not be started (exec: No such file or directory); restarting it");
  harness.waitForConsole("too often)");
}

// Catches: a power button or ctrl-alt-del that has no effect.
TEST(Process1, ReportsPowerActionsToTheBrain) {
  Harness harness;
  int brain = harness.next().socket;
  inventory(brain);
  ASSERT_EQ(0, kill(harness.pid(), SIGTERM));
  auto action = receive(brain);
  EXPECT_EQ(ReportKind::kPowerAction, action.report.kind);
  EXPECT_EQ(static_cast<int>(PowerAction::kPowerOff), action.report.code);
  ASSERT_EQ(0, kill(harness.pid(), SIGINT));
  EXPECT_EQ(static_cast<int>(PowerAction::kReboot), receive(brain).report.code);
}

// Catches: a signal that hits another process, or none.
TEST(Process1, SignalsAChildBySlot) {
  Harness harness;
  int brain = harness.next().socket;
  inventory(brain);
  sendSpawn(brain, 1, "x", harness.child({"wait"}));
  receive(brain);
  harness.next();
  send(brain, RequestKind::kSignal, 2, "y", SIGKILL);
  send(brain, RequestKind::kSignal, 3, "x", SIGUSR1);
  auto exit = receive(brain);
  EXPECT_EQ(ReportKind::kExit, exit.report.kind);
  EXPECT_EQ(SIGUSR1, exit.report.code);
}

// A pid namespace shows the command of reboot(2): SIGHUP for a restart, SIGINT for power off.
TEST(Process1, GoesDownWhenEverythingIsStopped) {
  for (auto [command, sign] : {std::pair<uint32_t, int>{LINUX_REBOOT_CMD_RESTART, SIGHUP},
                               std::pair<uint32_t, int>{LINUX_REBOOT_CMD_POWER_OFF, SIGINT}}) {
    Harness harness;
    int brain = harness.next().socket;
    inventory(brain);
    sendSpawn(brain, 1, "x", harness.child({"wait"}));
    receive(brain);
    harness.next();
    send(brain, RequestKind::kReboot, 2, "", command);
    int status = harness.waitForEnd();
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(sign, WTERMSIG(status));
    harness.waitForConsole("shutting down after");
  }
}

// Catches: a process that ignores SIGTERM and delays the shutdown for ever.
TEST(Process1, KillsWhatDoesNotStop) {
  Harness::Options options;
  options.termGraceMs = 100;
  Harness harness(options);
  int brain = harness.next().socket;
  inventory(brain);
  sendSpawn(brain, 1, "x", harness.child({"stubborn"}));
  receive(brain);
  harness.next();
  send(brain, RequestKind::kReboot, 2, "", LINUX_REBOOT_CMD_RESTART);
  EXPECT_TRUE(WIFSIGNALED(harness.waitForEnd()));
  harness.waitForConsole("some processes did not exit after SIGTERM");
}

// Catches: a child outside its cgroup, where neither limits nor the kill of the group reach it.
TEST(Process1, StartsAChildInItsCgroup) {
  Harness::Options options;
  options.cgroup = "talos-init-test-" + std::to_string(getpid());
  Harness harness(options);
  int brain = harness.next().socket;
  inventory(brain);
  auto what = harness.child({"wait"});
  what.cgroup = "a/b";
  sendSpawn(brain, 1, "x", what);
  auto started = receive(brain);
  ASSERT_EQ(0, started.report.code) << started.report.text;
  int pid = harness.next().pid;
  int fd = open(("/proc/" + std::to_string(pid) + "/cgroup").c_str(), O_RDONLY | O_CLOEXEC);
  std::string text = readAll(fd);
  close(fd);
  EXPECT_NE(std::string::npos, text.find("0::/" + options.cgroup + "/a/b\n")) << text;
}

}  // namespace
}  // namespace talos::process1
