#include "machined/process1/init/unmount-all.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machined/process1/init/init-harness.h"

namespace talos::process1 {
namespace {

bool mountsDisk(const char* at) {
  return mkdir(at, 0755) == 0 && mount("/dev/disk", at, "tmpfs", 0, nullptr) == 0;
}
bool isMount(const char* at) {
  struct stat own, parent;
  return stat(at, &own) == 0 && stat("/", &parent) == 0 && own.st_dev != parent.st_dev;
}
bool isReadOnly(const char* at) {
  struct statvfs info;
  return statvfs(at, &info) == 0 && (info.f_flag & ST_RDONLY) != 0;
}

// Returns 0, or the number of the step that failed.
int unmountsDisks() {
  if (!mountsDisk("/outer") || !mountsDisk("/outer/inner") || !mountsDisk("/busy")) return 1;
  int file = open("/busy/file", O_CREAT | O_RDONLY | O_CLOEXEC, 0644);
  if (file < 0) return 2;
  unmountAll(Console(-1, "", false));
  if (isMount("/outer")) return 3;
  if (!isMount("/busy") || !isReadOnly("/busy")) return 4;
  close(file);
  return 0;
}

}  // namespace

// Catches: a file system that is left as after a power cut: it is not unmounted because another one
// is mounted in it, or it is in use and stays writable.
TEST(UnmountAll, TheNewestFirstAndTheBusyReadOnly) {
  int status = onEmptyRoot(unmountsDisks);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(0, WEXITSTATUS(status));
}

}  // namespace talos::process1
