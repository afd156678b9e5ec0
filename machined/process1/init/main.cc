// The kernel's first process: in the initramfs the stage that finds the root, on the root process
// 1.
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/standard-streams.h"
#include "machined/process1/init/first-mounts.h"
#include "machined/process1/init/init-loop.h"
#include "machined/process1/init/init-spawn.h"
#include "machined/process1/init/initramfs.h"
#include "machined/process1/init/inside-container.h"
#include "machined/process1/init/machine-shutdown.h"

using namespace talos::process1;

namespace {

void writeText(const char* path, const char* text, size_t size) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t written = write(fd, text, size);  // best effort: a setting that this kernel lacks
  (void)written;
  close(fd);
}

// Sets up the kernel, which must be this node's own.
void prepareKernel(const Console& console) {
  if (auto* failed = mountAll(kMoreMounts, console)) {
    int error = errno;
    Line line;
    line.add("cannot mount ").add(failed->target);
    haltWithError(console, line.text(), error);
  }
  writeText("/proc/sys/kernel/printk_devkmsg", "on\n", 3);
}

void leaveRootCgroup(const char* root, const Console& console) {
  if (int error = enterCgroup(root, "init")) {
    console.error("cannot enter the cgroup init in ", root, ": ", errorText(error));
  }
}

// Children inherit the limit, and from containerd every container, which would otherwise have the
// kernel's low default.
void allowManyFiles() {
  constexpr rlim_t kFiles = 1048576;
  struct rlimit files = {kFiles, kFiles};
  if (setrlimit(RLIMIT_NOFILE, &files) == 0) return;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;  // the launcher allows no more
  files.rlim_cur = files.rlim_max < kFiles ? files.rlim_max : kFiles;
  setrlimit(RLIMIT_NOFILE, &files);
}

void prepare(Settings& settings, bool container, const Console& console) {
  if (!container) prepareKernel(console);
  allowManyFiles();
  settings.cgroupRoot = findCgroupRoot();
  settings.memoryRoot = findMemoryRoot();
  if (settings.cgroupRoot[0] == 0) {
    console.error(
        "no cgroup2 at /sys/fs/cgroup or /sys/fs/cgroup/unified; going on without cgroups");
  } else {
    leaveRootCgroup(settings.cgroupRoot, console);
  }
  if (settings.memoryRoot[0] != 0) leaveRootCgroup(settings.memoryRoot, console);
}

}  // namespace

int main(int, char**, char** handed) {
  talos::openClosedStandardStreams();
  if (access(kRootImage, F_OK) == 0 && getpid() == 1) runInitramfs();
  constexpr const char* kPrefix = "[talos] [init] ";
  bool container = inContainer();
  static Settings settings;
  Console console =
      container ? openContainerConsole(kPrefix, settings.brainOutput) : openConsole(kPrefix);
  if (getpid() != 1) {
    console.error("this program runs only as process 1");
    return 1;
  }
  static char path[] =
      "PATH=/sbin:/bin:/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/opt/cni/bin";
  static HandedOver given;
  static char* environment[] = {path, nullptr, nullptr, nullptr};
  if (container) {
    takeOver(handed, given, console);
    settings.userData = given.userData;
    environment[1] = given.platform;
    environment[2] = given.hostname;
  }
  settings.brainEnvironment = environment;
  constexpr unsigned kBrainFirst = 60;  // ticks of a second
  if (unsigned seconds = trialSecondsOfCommandLine()) settings.trial = seconds + kBrainFirst;
  prepare(settings, container, console);
  static Loop loop(settings, console);
  loop.run();
}
