#include "talosctl/cluster/node-disks.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "talosctl/cluster/host-probe.h"

namespace talos::cluster {
namespace {

constexpr size_t kIsoMarkAt = 32769;  // of the first volume descriptor, in sector 16
constexpr kj::StringPtr kIsoMark = "CD001"_kj;

kj::AutoCloseFd makeSparse(kj::StringPtr path, uint64_t size) {
  int raw;
  KJ_SYSCALL(raw = open(path.cStr(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), path);
  kj::AutoCloseFd fd(raw);
  KJ_SYSCALL(ftruncate(fd, static_cast<off_t>(size)), path);
  return fd;
}

// Runs a program to its end; if it fails, the exception has its output.
void runTool(kj::ArrayPtr<kj::String> words) {
  kj::Vector<char*> argv;
  for (auto& word : words) argv.add(word.begin());
  argv.add(nullptr);
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  KJ_DEFER(posix_spawn_file_actions_destroy(&actions));
  posix_spawn_file_actions_adddup2(&actions, writing, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing, STDERR_FILENO);
  char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* environment[] = {path, nullptr};
  pid_t child;
  int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.begin(), environment);
  if (failed != 0) KJ_FAIL_SYSCALL("posix_spawn", failed, words[0]);
  writing = nullptr;
  auto said = kj::FdInputStream(reading.get()).readAllText();
  int status;
  while (waitpid(child, &status, 0) < 0) KJ_REQUIRE(errno == EINTR, strerror(errno));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  fail(ErrorKind::kInternal, kj::str(words.back(), ": cannot create the file system: ", said));
}

kj::String findMkfs(kj::StringPtr root) {
  for (auto place : {"/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"}) {
    auto path = kj::str(root, place);
    if (access(path.cStr(), X_OK) == 0) return path;
  }
  fail(ErrorKind::kNotFound,
       kj::str("cannot find mkfs.xfs in ", root.size() > 0 ? root : "/"_kj,
               "; install Debian's xfsprogs: it formats the nodes' state disks"));
}

// mkfs reserves the 64 MiB of the file system's log, or writes zeros there where the host cannot
// reserve. Both are freed; they are allocated again when they are needed, like any hole.
void giveBackZeros(int fd, uint64_t size, kj::StringPtr path) {
  constexpr off_t kBlock = 256 << 10;
  static const char zeros[kBlock] = {};
  auto block = kj::heapArray<char>(kBlock);
  off_t end = static_cast<off_t>(size);
  // A host file system without holes refuses and keeps the blocks, which does no harm.
  auto punch = [&](off_t at, off_t length) {
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length);
  };
  for (off_t at = 0; at < end;) {
    off_t data = lseek(fd, at, SEEK_DATA);
    if (data < 0 || data > end) data = end;  // nothing but a hole follows
    if (data > at) punch(at, data - at);
    off_t hole = data < end ? lseek(fd, data, SEEK_HOLE) : end;
    KJ_SYSCALL(hole, path);
    for (at = data; at < hole; at += kBlock) {
      size_t length = kj::min(kBlock, hole - at);
      ssize_t n;
      KJ_SYSCALL(n = pread(fd, block.begin(), length, at), path);
      if (n == ssize_t(length) && memcmp(block.begin(), zeros, length) == 0) punch(at, n);
    }
    at = hole;
  }
}

void makeStateDisk(kj::StringPtr root, kj::StringPtr mkfs, kj::StringPtr path, uint64_t size) {
  auto fd = makeSparse(path, size);
  auto words = inTree(root, mkfs);
  for (kj::StringPtr word : {"-q"_kj, "-L"_kj, "STATE"_kj, path}) words.add(kj::str(word));
  runTool(words);
  giveBackZeros(fd, size, path);
}

}  // namespace

void makeDisks(rpc::LocalCluster::Reader cluster, kj::StringPtr stateFolder) {
  auto root = cluster.getQemuRoot();
  auto mkfs = findMkfs(root);
  for (auto node : cluster.getNodes()) {
    auto base = kj::str(stateFolder, "/", node.getName());
    makeSparse(kj::str(base, ".disk"), node.getDisk());
    makeStateDisk(root, mkfs, kj::str(base, ".state"), node.getStateDisk());
  }
}

bool isIso9660(kj::StringPtr path) {
  int raw;
  KJ_SYSCALL(raw = open(path.cStr(), O_RDONLY | O_CLOEXEC), path);
  kj::AutoCloseFd fd(raw);
  char mark[5] = {};
  ssize_t n;
  KJ_SYSCALL(n = pread(fd, mark, sizeof mark, kIsoMarkAt), path);
  return n == sizeof mark && kj::arrayPtr(mark, sizeof mark) == kIsoMark.asArray();
}

}  // namespace talos::cluster
