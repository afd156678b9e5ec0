// Unmounting, in mount namespaces of children: needs root.
#include "machined/disk/volumes/unmount-volume.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machined/process1/test-busy-thread-pool.h"

namespace talos::machined {
namespace {

// Returns 0, or the number of the failed step.
int unmountsBesideAHeldPool() {
  char folder[] = "/tmp/unmount-test-XXXXXX";
  if (mkdtemp(folder) == nullptr || unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("test", folder, "tmpfs", 0, nullptr) != 0) {
    return 1;
  }
  auto io = kj::setupAsyncIo();
  UvLoop uv(io.unixEventPort, io.provider->getTimer());
  auto held = kj::heap<HeldPool>(uv);
  auto problem = unmountWithin(uv, io.provider->getTimer(), kj::str(folder)).wait(io.waitScope);
  int result = problem == nullptr ? 0 : 2;
  if (umount2(folder, MNT_DETACH) == 0) result = 3;
  rmdir(folder);
  held = nullptr;
  return result;
}

// Catches: a healthy disk that is not written before a reboot, because hanging disks occupy all
// threads of the pool.
TEST(UnmountWithin, NeedsNoThreadOfThePool) {
  pid_t child = fork();
  if (child == 0) _exit(unmountsBesideAHeldPool());
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(0, WEXITSTATUS(status));
}

}  // namespace
}  // namespace talos::machined
