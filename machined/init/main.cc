// The kernel's first process: in the initramfs the stage that finds the root, on the root
// process 1.
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "machined/init/first-mounts.h"
#include "machined/init/init-loop.h"
#include "machined/init/init-spawn.h"
#include "machined/init/initramfs.h"
#include "machined/init/take-down.h"

using namespace talos::process1;

namespace {

void writeText(const char* path, const char* text, size_t size) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t written = write(fd, text, size);  // best effort: a setting that this kernel lacks
  (void)written;
  close(fd);
}

void prepare(const Console& console) {
  if (auto* failed = mountAll(kMoreMounts, console)) {
    int error = errno;
    Line line;
    line.add("cannot mount ").add(failed->target);
    stayForEver(console, line.text(), error);
  }
  writeText("/proc/sys/kernel/printk_devkmsg", "on\n", 3);
  // Children inherit it: a modest default that each service may raise for itself.
  struct rlimit files = {1024, 1048576};
  setrlimit(RLIMIT_NOFILE, &files);
  if (int error = makeCgroup("/sys/fs/cgroup", "init")) {
    console.error("cannot make the cgroup init: ", words(error));
  }
  writeText("/sys/fs/cgroup/init/cgroup.procs", "0", 1);
}

}  // namespace

int main() {
  if (access(kRootImage, F_OK) == 0 && getpid() == 1) runInitramfs();
  Console console = openConsole("[talos] [init] ");
  if (getpid() != 1) {
    console.error("this program runs only as process 1");
    return 1;
  }
  prepare(console);
  static char path[] =
      "PATH=/sbin:/bin:/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/opt/cni/bin";
  static char* environment[] = {path, nullptr};
  static Settings settings;
  settings.brainEnvironment = environment;
  static Loop loop(settings, console);
  loop.run();
}
