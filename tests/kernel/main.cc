// The first process of a guest that does nothing but these tests.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

void write(const char* path, const char* text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || ::write(fd, text, strlen(text)) < 0) perror(path);
  if (fd >= 0) close(fd);
}

void prepare() {
  mount("proc", "/proc", "proc", 0, nullptr);
  mount("sys", "/sys", "sysfs", 0, nullptr);
  mount("dev", "/dev", "devtmpfs", 0, nullptr);
  mount("tmp", "/tmp", "tmpfs", 0, nullptr);
  // The program that the kernel starts to load a driver, as on a node.
  write("/proc/sys/kernel/modprobe", "/sbin/modprobe");
}

}  // namespace

int main(int argc, char** argv) {
  bool first = getpid() == 1;
  if (first) prepare();
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) GTEST_FLAG_SET(filter, argv[1]);
  int result = RUN_ALL_TESTS();
  printf("kernel-test: %s\n", result == 0 ? "all passed" : "FAILED");
  fflush(stdout);
  if (!first) return result;
  sync();
  reboot(RB_POWER_OFF);
  return result;
}
