#include "machined/confined/kernel-helper/kernel-helper.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/function.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "machined/confined/kernel-helper/kernel-client.h"

namespace talos::helper {
namespace {

class KernelHelperTest : public testing::Test {
 protected:
  char name[64] = "/tmp/talos-kernel-helper-test-XXXXXX";
  kj::String modules, procSys;

  KernelHelperTest() {
    KJ_REQUIRE(mkdtemp(name) != nullptr);
    modules = kj::str(name, "/modules");
    procSys = kj::str(name, "/sys");
    for (auto folder : {"/modules/over", "/sys/vm", "/sys/kernel/usermodehelper"}) {
      makeDirectories(kj::str(name, folder));
    }
    for (auto file : {"/modules/a.ko", "/modules/over/b.ko", "/outside.ko"}) {
      writeFileAtomically(kj::str(name, file), kj::StringPtr("not a module"), 0644);
    }
    KJ_SYSCALL(symlink("../outside.ko", kj::str(modules, "/link.ko").cStr()));
    KJ_SYSCALL(mkfifo(kj::str(modules, "/waits.ko").cStr(), 0600));
    for (auto& each : kParameters) {
      writeFileAtomically(kj::str(procSys, "/", each.path), kj::StringPtr("65536\n"), 0644);
    }
  }
  ~KernelHelperTest() noexcept override { removeTree(name); }
};

kj::Array<char> packetOf(Call call, kj::StringPtr name, kj::StringPtr value) {
  Request request = {};
  request.call = call;
  request.nameSize = static_cast<uint32_t>(name.size());
  request.valueSize = static_cast<uint32_t>(value.size());
  size_t head = offsetof(Request, text);
  auto packet = kj::heapArray<char>(head + name.size() + value.size() + 2);
  memcpy(packet.begin(), &request, head);
  memcpy(packet.begin() + head, name.cStr(), name.size() + 1);
  memcpy(packet.begin() + head + name.size() + 1, value.cStr(), value.size() + 1);
  return packet;
}

// Returns true for the answers of a kernel to a file that is not a module, to a caller without the
// right, and of a kernel without modules.
bool reachedTheKernel(int error) {
  return error == ENOEXEC || error == EPERM || error == ENOSYS;
}

// Catches: a module from outside the image's folder, by its name, a link, or a file system that was
// mounted over it later.
TEST_F(KernelHelperTest, LoadsFilesOfItsFolderOnly) {
  auto insert = [&](const KernelHelper& helper, kj::StringPtr file) {
    return helper.answer(packetOf(Call::kInsertModule, file, ""), -1).error;
  };
  KernelHelper helper(kModules, modules, procSys);
  EXPECT_TRUE(reachedTheKernel(insert(helper, "a.ko"))) << insert(helper, "a.ko");
  EXPECT_TRUE(reachedTheKernel(insert(helper, "over/b.ko")));
  EXPECT_EQ(ENOENT, insert(helper, "none.ko"));
  EXPECT_EQ(EXDEV, insert(helper, "../outside.ko"));
  EXPECT_EQ(EXDEV, insert(helper, kj::str(name, "/outside.ko")));
  EXPECT_EQ(ELOOP, insert(helper, "link.ko"));
  EXPECT_EQ(ENOENT, insert(KernelHelper(kModules, "/nowhere", procSys), "a.ko"));
  pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0) _exit(1);
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(1);
    KernelHelper there(kModules, modules, procSys);
    auto over = kj::str(modules, "/over");
    if (mount(name, over.cStr(), nullptr, MS_BIND, nullptr) != 0) _exit(1);
    _exit(insert(there, "over/outside.ko") == EXDEV ? 0 : 2);
  }
  int status = 0;
  KJ_SYSCALL(waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
}

// Catches: a helper that makes calls for which the other helper has the right, or accepts a
// truncated packet.
TEST_F(KernelHelperTest, DoesItsOwnCallsOnly) {
  KernelHelper loads(kModules, modules, procSys), asks(kRawIo, modules, procSys);
  auto set = [](const KernelHelper& helper, kj::StringPtr path) {
    return helper.answer(packetOf(Call::kSetParameter, path, "4096\n"), -1).error;
  };
  EXPECT_EQ(EOPNOTSUPP, asks.answer(packetOf(Call::kInsertModule, "a.ko", ""), -1).error);
  EXPECT_EQ(EOPNOTSUPP, loads.answer(packetOf(Call::kAtaStatus, "", ""), -1).error);
  EXPECT_EQ(EOPNOTSUPP, loads.answer(packetOf(static_cast<Call>(9), "", ""), -1).error);
  EXPECT_EQ(0, set(asks, "vm/mmap_min_addr"));
  EXPECT_EQ(0, set(loads, "kernel/usermodehelper/bset"));
  EXPECT_EQ(ENOENT, set(loads, "vm/mmap_min_addr"));
  EXPECT_EQ(ENOENT, set(asks, "kernel/usermodehelper/bset"));
  EXPECT_EQ(ENOENT, set(asks, "vm/../vm/mmap_min_addr"));
  EXPECT_TRUE(readFile(kj::str(procSys, "/vm/mmap_min_addr")).startsWith("4096\n"));
  auto whole = packetOf(Call::kSetParameter, "vm/mmap_min_addr", "1\n");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(EBADMSG, asks.answer(whole.slice(0, size), -1).error) << size;
  }
  whole.back() = 'x';
  EXPECT_EQ(EBADMSG, asks.answer(whole, -1).error) << "without its end";
  kj::AutoCloseFd file(open(kj::str(name, "/outside.ko").cStr(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ENOTBLK, asks.answer(packetOf(Call::kAtaStatus, "", ""), file).error);
  EXPECT_EQ(ENOTBLK, asks.answer(packetOf(Call::kAtaStatus, "", ""), -1).error);
}

// Waits for a process whose parent is `parent`, and returns its id.
pid_t childOf(pid_t parent) {
  for (;;) {
    for (auto& entry : namesIn("/proc")) {
      KJ_IF_MAYBE (pid, entry.tryParseAs<pid_t>()) {
        auto status = tryReadFile(kj::str("/proc/", *pid, "/status")).orDefault(kj::String());
        if (strstr(status.cStr(), kj::str("\nPPid:\t", parent, "\n").cStr()) != nullptr) {
          return *pid;
        }
      }
    }
    std::this_thread::yield();
  }
}

// Catches: a driver that hangs and blocks the loading of others; a driver that fails and ends the
// helper, or the brain's thread; a helper that outlives its brain.
TEST_F(KernelHelperTest, CarriesOutEachCallByItself) {
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
  kj::AutoCloseFd own(ends[0]), theirs(ends[1]);
  pid_t helper = fork();
  if (helper == 0) {
    own = nullptr;
    KernelHelper(kModules, modules, procSys).serve(theirs);
    _exit(0);
  }
  theirs = nullptr;
  KernelClient client;
  EXPECT_EQ(ECONNRESET, client.insertModule("a.ko", "")) << "there is no helper yet";
  client.connect(kj::mv(own));
  int hung = 0;
  std::thread waits([&]() { hung = client.insertModule("waits.ko", ""); });
  pid_t call = childOf(helper);
  EXPECT_TRUE(reachedTheKernel(client.insertModule("a.ko", "x=1")));
  EXPECT_EQ(ENOENT, client.insertModule("none.ko", ""));
  KJ_SYSCALL(kill(call, SIGKILL));
  waits.join();
  EXPECT_EQ(ECONNRESET, hung);
  EXPECT_TRUE(reachedTheKernel(client.insertModule("a.ko", "")));
  auto longest = kj::str(kj::repeat('x', kMostText));
  EXPECT_EQ(E2BIG, client.insertModule("a.ko", longest));
  KJ_SYSCALL(kill(helper, SIGTERM));
  EXPECT_EQ(ENOENT, client.insertModule("none.ko", "")) << "it ended before the brain";
  client.connect(kj::AutoCloseFd());
  int status = 1;
  KJ_SYSCALL(waitpid(helper, &status, 0));
  EXPECT_EQ(0, status);
}

kj::String failureOf(kj::Function<int()> call) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { call(); })) return messageOf(*e);
  return kj::str("no failure");
}

// Catches: a boot that a hanging driver stops; a second device of the same driver that waits for as
// long as the first; a module that cannot be loaded after its first call has ended.
TEST_F(KernelHelperTest, CallThatHangsEndsWithAnError) {
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
  kj::AutoCloseFd own(ends[0]), theirs(ends[1]);  // `theirs` answers nothing
  KernelClient client(1 * kj::MILLISECONDS);
  client.connect(kj::mv(own));
  auto load = [&] { return client.insertModule("hangs.ko", ""); };
  EXPECT_TRUE(failureOf(load).startsWith("the kernel has not loaded the module hangs.ko within "));
  EXPECT_EQ("the kernel has not loaded the module hangs.ko yet; an earlier call hangs",
            failureOf(load));
  EXPECT_TRUE(failureOf([&] {
                return client.setParameter("vm/mmap_min_addr", "1\n");
              }).startsWith("the kernel has not set the parameter vm/mmap_min_addr within "));
  EXPECT_TRUE(failureOf([&] {
                return client.ataStatus(STDIN_FILENO).error;
              }).startsWith("the kernel has not reported the SMART status of the disk within "));
  char byte;
  auto call = receivePacket(theirs, kj::arrayPtr(&byte, 1));
  call.fd = nullptr;  // the process of the first call ends
  EXPECT_TRUE(failureOf(load).startsWith("the kernel has not loaded the module hangs.ko within "));
}

}  // namespace
}  // namespace talos::helper
