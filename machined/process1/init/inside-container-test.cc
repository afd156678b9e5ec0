#include "machined/process1/init/inside-container.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/reboot.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "machined/process1/init/init-harness.h"

namespace talos::process1 {
namespace {

struct Pipe {
  int ends[2];
  Pipe() { EXPECT_EQ(0, pipe2(ends, O_CLOEXEC | O_NONBLOCK)); }
  std::string text() {
    close(ends[1]);
    return readAll(ends[0]);
  }
};

// Catches: secrets that stay in /proc/1/environ; a config that is lost, or that a holder can
// change; a platform that makes a node in a container take the host for its own.
TEST(Container, TakesOverWhatItsLauncherGave) {
  char path[] = "PATH=/bin", platform[] = "PLATFORM=metal",
       data[] = "USERDATA=bWFjaGluZTo=", other[] = "USERDATAS=x";
  char* environment[] = {path, platform, data, other, nullptr};
  Pipe said;
  HandedOver given;
  takeOver(environment, given, Console(said.ends[1], "", false));
  EXPECT_STREQ("PLATFORM=container", given.platform);
  char name[65] = {};
  gethostname(name, sizeof(name) - 1);
  EXPECT_EQ(std::string("HOSTNAME=") + name, given.hostname);
  EXPECT_EQ(std::string(sizeof(data) - 1 - 9, '\0'), std::string(data + 9, sizeof(data) - 1 - 9));
  EXPECT_STREQ("USERDATAS=x", other);
  ASSERT_GE(given.userData, 0);
  char text[64] = {};
  EXPECT_EQ(12, pread(given.userData, text, sizeof(text), 0));
  EXPECT_STREQ("bWFjaGluZTo=", text);
  EXPECT_EQ(-1, pwrite(given.userData, "x", 1, 0));
  close(given.userData);
  EXPECT_EQ(
      "this is a container, but the environment has PLATFORM=metal; using PLATFORM=container\n",
      said.text());
}

// Catches: the host's command line taken for the node's own, and the other way round.
TEST(Container, HasArgumentsOfItsOwn) {
  char folder[] = "/tmp/own-cmdline-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(folder));
  auto line = std::string(folder) + "/cmdline";
  EXPECT_FALSE(hasOwnCommandLine(folder)) << "there is none";
  close(open(line.c_str(), O_WRONLY | O_CREAT, 0600));
  EXPECT_FALSE(hasOwnCommandLine(folder)) << "as proc has it";
  unlink(line.c_str());
  ASSERT_EQ(0, symlink("/proc/self/stat", line.c_str()));
  EXPECT_TRUE(hasOwnCommandLine(folder)) << "of another file system";
  unlink(line.c_str());
  rmdir(folder);
}

// Catches: an empty config although none was given; messages although nothing is wrong.
TEST(Container, IsGivenNothing) {
  char platform[] = "PLATFORM=container", data[] = "USERDATA=";
  for (bool empty : {true, false}) {
    char* environment[] = {platform, empty ? data : nullptr, nullptr};
    Pipe said;
    HandedOver given;
    takeOver(environment, given, Console(said.ends[1], "", false));
    EXPECT_EQ(-1, given.userData);
    EXPECT_EQ("", said.text());
  }
}

// Catches: a console whose reader has stopped, and that stops process 1 and the whole node.
TEST(Container, AConsoleThatNobodyReadsStopsNobody) {
  Pipe said;
  fcntl(said.ends[1], F_SETFL, 0);
  int saved = fcntl(1, F_DUPFD_CLOEXEC, 100);
  fflush(stdout);
  dup2(said.ends[1], 1);
  int fd = -1;
  auto console = openContainerConsole("node: ", fd);
  for (int i = 0; i < 10'000; ++i) console.info("a line that makes the pipe full, as it has to be");
  dup2(saved, 1);
  EXPECT_EQ(0, fcntl(said.ends[1], F_GETFL) & O_NONBLOCK) << "changed for others who write to it";
  close(fd);
  EXPECT_TRUE(said.text().starts_with("node: a line"));
}

// Catches: a log that each start overwrites from its beginning, as opening the file again would do.
TEST(Container, AddsToTheLogThatItsLauncherHas) {
  int file = memfd_create("log", MFD_CLOEXEC);
  ASSERT_EQ(9, write(file, "an older\n", 9));
  int saved = fcntl(1, F_DUPFD_CLOEXEC, 100);
  fflush(stdout);
  dup2(file, 1);
  int fd = -1;
  auto console = openContainerConsole("node: ", fd);
  console.info("up");
  dup2(saved, 1);
  close(saved);
  close(fd);
  char text[64] = {};
  EXPECT_EQ(18, pread(file, text, sizeof(text), 0));
  EXPECT_STREQ("an older\nnode: up\n", text);
  close(file);
}

// Returns the result of findCgroupRoot() or findMemoryRoot() for a folder with these file systems
// mounted; the folder is shown as "@".
std::string found(const char* (*find)(const char*), const char* folder, const char* type,
                  const char* options) {
  Pipe said;
  pid_t pid = fork();
  if (pid == 0) {
    bool ready = unshare(CLONE_NEWNS) == 0 &&
                 mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                 mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) == 0 && mkdir("/tmp/cg", 0755) == 0;
    std::string at = std::string("/tmp/cg") + folder;
    mkdir(at.c_str(), 0755);
    ready = ready && (type[0] == 0 || mount(type, at.c_str(), type, 0, options) == 0);
    std::string text = ready ? find("/tmp/cg") : "not mounted";
    if (text.starts_with("/tmp/cg")) text.replace(0, 7, "@");
    ssize_t n = write(said.ends[1], text.data(), text.size());
    _exit(n < 0);
  }
  waitpid(pid, nullptr, 0);
  return said.text();
}

// Catches: a node on a host that also has version 1, on which no service starts.
TEST(Container, FindsItsCgroups) {
  EXPECT_EQ("@", found(findCgroupRoot, "", "cgroup2", ""));
  EXPECT_EQ("@/unified", found(findCgroupRoot, "/unified", "cgroup2", ""));
  EXPECT_EQ("", found(findCgroupRoot, "/unified", "", ""));
  EXPECT_EQ("", found(findMemoryRoot, "", "cgroup2", ""));
  EXPECT_EQ("", found(findMemoryRoot, "/memory", "cgroup2", ""));
  auto memory = found(findMemoryRoot, "/memory", "cgroup", "memory");
  if (memory != "not mounted") EXPECT_EQ("@/memory", memory);  // a host without version 1
}

// Catches: a node that makes the host's file system read-only when it shuts down. The mounted file
// system looks like the host's, and is in use, as a folder of a host's disk always is.
TEST(Container, LeavesTheHostsFileSystemsAlone) {
  Harness::Options options;
  options.disk = true;
  options.termGraceMs = 100;
  Harness harness(options);
  auto brain = harness.next();
  inventory(brain.socket);
  auto path = "/proc/" + std::to_string(harness.pid()) + "/root/disk";
  int disk = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(disk, 0);
  send(brain.socket, RequestKind::kReboot, 2, "", LINUX_REBOOT_CMD_POWER_OFF);
  harness.waitForEnd();
  struct statvfs info;
  ASSERT_EQ(0, fstatvfs(disk, &info));
  EXPECT_EQ(0u, info.f_flag & ST_RDONLY);
  close(disk);
}

}  // namespace
}  // namespace talos::process1
