#include "machined/confined/sandbox/brain-rights.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/kernel/process-capabilities.h"

namespace talos::confine {
namespace {

uint64_t ownBoundingSet() {
  return KJ_REQUIRE_NONNULL(boundingSetOf(readFile("/proc/self/status")));
}

bool refused(long result) {
  return result == -1 && errno == EPERM;
}

// Runs a program as the brain does. Returns 0 if it exited successfully.
int runs(const char* program, const char* argument) {
  const char* argv[] = {program, argument, nullptr};
  pid_t child;
  int error = posix_spawn(&child, program, nullptr, nullptr, const_cast<char**>(argv), environ);
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) != child) return -1;
  return status;
}

// Binds a port below 1024, as requests to a platform do
// (machined/confined/parser-client/http-connect.h).
bool hasLowPort() {
  struct sockaddr_in name = {};
  name.sin_family = AF_INET;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (uint16_t port = 100; port < 612; ++port) {
    name.sin_port = htons(port);
    if (bind(fd, reinterpret_cast<struct sockaddr*>(&name), sizeof name) == 0) return true;
    if (errno != EADDRINUSE) break;
  }
  return false;
}

// Writes a kernel parameter's own value. Returns 0, or -1 with the kernel's error.
int writesItself(kj::StringPtr path) {
  auto value = readFile(path);
  kj::AutoCloseFd file(open(path.cStr(), O_WRONLY | O_CLOEXEC));
  return write(file, value.begin(), value.size()) < 0 ? -1 : 0;
}

// Returns the number of the first failed check, which is the exit status of a process.
int firstWrong(uint64_t before) {
  auto status = readFile("/proc/self/status");
  auto has = [&](kj::String line) {
    for (auto it : Lines(status)) {
      if (kj::heapString(it) == line) return true;
    }
    return false;
  };
  auto set = kj::str(kj::hex(before & brainCapabilities()));
  auto digits = kj::str(kj::repeat('0', 16 - set.size()), set);
  for (auto name : {"CapBnd", "CapPrm", "CapEff"}) {
    if (!has(kj::str(name, ":\t", digits))) return 1;
  }
  if (!has(kj::str("CapInh:\t0000000000000000"))) return 2;
  if (!has(kj::str("NoNewPrivs:\t1")) || !has(kj::str("Seccomp:\t2"))) return 3;
  if (!refused(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr))) return 4;
  if (!refused(unshare(CLONE_NEWUTS))) return 5;
  if (!refused(reboot(RB_ENABLE_CAD))) return 6;
  if (!refused(chroot("/"))) return 7;
  union bpf_attr attributes = {};
  if (!refused(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes))) return 8;
  // The helpers have these two capabilities instead of the brain.
  if ((brainCapabilities() & (uint64_t{1} << CAP_SYS_MODULE | uint64_t{1} << CAP_SYS_RAWIO)) != 0) {
    return 12;
  }
  if (!refused(syscall(SYS_finit_module, -1, "", 0))) return 13;
  if (!refused(syscall(SYS_init_module, nullptr, 0, ""))) return 14;
  if (!refused(writesItself("/proc/sys/vm/mmap_min_addr"))) return 15;
  // The brain does its work: it mounts, and starts programs, which have no more rights than itself.
  if (mount("none", "/nowhere", "tmpfs", 0, nullptr) != -1 || errno != ENOENT) return 9;
  if (runs("/bin/true", nullptr) != 0) return 10;
  if (!hasLowPort()) return 11;
  return 0;
}

// Catches: a brain that keeps rights it does not need, also through a program that it starts; a
// brain that cannot do its work.
TEST(BrainRights, AreKeptAndNoOthers) {
  ASSERT_EQ(getuid(), 0u) << "needs root";
  auto before = ownBoundingSet();
  pid_t child = fork();
  if (child == 0) {
    int wrong = 99;
    auto failed = kj::runCatchingExceptions([&] {
      keepBrainRights();
      wrong = firstWrong(before);
    });
    KJ_IF_MAYBE (e, failed) fprintf(stderr, "%s\n", e->getDescription().cStr());
    _exit(wrong);
  }
  int status = 0;
  KJ_SYSCALL(waitpid(child, &status, 0));
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the line of firstWrong() that returns this";
}

// Catches: a right without a reason in the documents; a reason for a right that the brain does not
// have.
TEST(BrainRights, TheDocumentsListThem) {
  auto text = readFile(kj::str(TALOS_SOURCE_DIR, "/docs/machined.md"));
  std::set<std::string> listed, kept;
  bool inSection = false;
  for (auto line : Lines(text)) {
    std::string row(line.begin(), line.end());
    if (row.starts_with("#")) inSection = row == "### Rights of the brain";
    if (!inSection || !row.starts_with("| ")) continue;
    std::string name;
    for (char c : row.substr(2)) {
      bool isOfName = (c >= 'A' && c <= 'Z') || c == '_';
      if (isOfName) name += c;
      if (!isOfName && name.size() > 2) listed.insert(name);
      if (!isOfName) name.clear();
      if (c == '|') break;
    }
  }
  for (auto& each : kBrainCapabilities) kept.insert(each.name.cStr());
  EXPECT_EQ(listed, kept);
}

}  // namespace
}  // namespace talos::confine
