#include "talosctl/cluster/disks/node-disks.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/disk/gpt.h"
#include "talosctl/cluster/processes/program-tree.h"

namespace talos::cluster {
namespace {

constexpr unsigned kSector = 512;
constexpr uint64_t kMetaBytes = 1 << 20;
constexpr size_t kIsoMarkAt = 32769;  // identifier of the first volume descriptor, in sector 16
constexpr kj::StringPtr kIsoMark = "CD001"_kj;

kj::AutoCloseFd makeSparse(kj::StringPtr path, uint64_t size) {
  int raw;
  KJ_SYSCALL(raw = open(path.cStr(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), path);
  kj::AutoCloseFd fd(raw);
  KJ_SYSCALL(ftruncate(fd, static_cast<off_t>(size)), path);
  return fd;
}

// Runs a program that creates `path` and waits for its exit; if it fails, the exception contains
// its output.
void runTool(kj::ArrayPtr<kj::String> command, kj::StringPtr path) {
  kj::Vector<char*> argv;
  for (auto& argument : command) argv.add(argument.begin());
  argv.add(nullptr);
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  KJ_DEFER(posix_spawn_file_actions_destroy(&actions));
  posix_spawn_file_actions_adddup2(&actions, writing, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing, STDERR_FILENO);
  char searched[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* environment[] = {searched, nullptr};
  pid_t child;
  int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.begin(), environment);
  if (failed != 0) KJ_FAIL_SYSCALL("posix_spawn", failed, command[0]);
  writing = nullptr;
  auto output = kj::FdInputStream(reading.get()).readAllText();
  int status;
  while (waitpid(child, &status, 0) < 0) KJ_REQUIRE(errno == EINTR, strerror(errno));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  fail(ErrorKind::kInternal, kj::str(path, ": cannot create the file system: ", output));
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

void writeAt(int fd, kj::ArrayPtr<const kj::byte> bytes, uint64_t at, kj::StringPtr path) {
  while (bytes.size() > 0) {
    ssize_t n;
    KJ_SYSCALL(n = pwrite(fd, bytes.begin(), bytes.size(), static_cast<off_t>(at)), path);
    bytes = bytes.slice(n, bytes.size());
    at += n;
  }
}

// Copies all non-zero blocks of `from` to `at` of `to`. mkfs allocates the 64 MiB of the file
// system's log, or writes zeros there if the host cannot allocate: in the copy they become a hole.
void copyContent(int from, int to, uint64_t at, kj::StringPtr path) {
  constexpr size_t kBlock = 256 << 10;
  static const kj::byte zeros[kBlock] = {};
  auto block = kj::heapArray<kj::byte>(kBlock);
  for (off_t done = 0;;) {
    off_t data = lseek(from, done, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;  // only a hole follows
    KJ_SYSCALL(data, path);
    ssize_t n;
    KJ_SYSCALL(n = pread(from, block.begin(), kBlock, data), path);
    if (n == 0) return;
    if (memcmp(block.begin(), zeros, n) != 0) writeAt(to, block.slice(0, n), at + data, path);
    done = data + n;
  }
}

void makeContent(kj::StringPtr root, kj::StringPtr mkfs, kj::StringPtr path, uint64_t size,
                 int fd) {
  // mkfs has no option for an offset in the file.
  auto content = kj::str(path, ".content");
  KJ_DEFER(unlink(content.cStr()));
  auto contentFd = makeSparse(content, size - kj::min(size, 2 * gpt::kAlignment + kMetaBytes));
  auto command = inTree(root, mkfs);
  for (kj::StringPtr argument : {"-q"_kj, "-L"_kj, "STATE"_kj, content.asPtr()}) {
    command.add(kj::str(argument));
  }
  runTool(command, path);
  copyContent(contentFd, fd, gpt::kAlignment, path);
}

// Creates the state disk; without `mkfs` its partition stays empty.
void makeStateDisk(kj::StringPtr root, kj::Maybe<kj::String>& mkfs, kj::StringPtr path,
                   uint64_t size) {
  auto fd = makeSparse(path, size);
  KJ_IF_MAYBE (program, mkfs) makeContent(root, *program, path, size, fd);
  gpt::Table table{
      .disk = gpt::Guid::random(), .partitions = {}, .sectors = size / kSector, .entriesAt = 0};
  auto add = [&](kj::StringPtr name, uint64_t begin, uint64_t end) {
    table.partitions.add(gpt::Partition{.type = gpt::kLinuxData,
                                        .id = gpt::Guid::random(),
                                        .first = begin / kSector,
                                        .last = end / kSector - 1,
                                        .attributes = 0,
                                        .name = kj::str(name)});
  };
  auto end = size - gpt::kAlignment;
  add("STATE", gpt::kAlignment, end - kMetaBytes);
  add("META", end - kMetaBytes, end);
  for (auto& write : gpt::writes(table, kSector)) writeAt(fd, write.bytes, write.offset, path);
}

// Copies the variables of the firmware's package, because each machine has its own.
void copyVariables(kj::StringPtr root, kj::StringPtr path) {
  KJ_IF_MAYBE (content, tryReadFile(firmwareFile(root, "OVMF_VARS_4M.fd"))) {
    writeFileAtomically(path, *content, 0600);
    return;
  }
  fail(ErrorKind::kNotFound,
       kj::str("--with-uefi: cannot find ", firmwareFile(root, "OVMF_VARS_4M.fd"),
               "; install Debian's ovmf"));
}

}  // namespace

bool isInstalled(rpc::LocalNode::Reader node, kj::StringPtr stateFolder) {
  auto path = kj::str(stateFolder, "/", node.getName(), ".disk");
  int raw = open(path.cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0) return false;
  kj::AutoCloseFd fd(raw);
  auto bytes = [&](uint64_t offset, size_t size) {
    auto block = kj::heapArray<kj::byte>(size);
    ssize_t n = pread(fd, block.begin(), size, static_cast<off_t>(offset));
    return kj::heapArray<const kj::byte>(block.begin(), n < 0 ? 0 : static_cast<size_t>(n));
  };
  KJ_IF_MAYBE (table, gpt::read(bytes, kSector)) {
    for (auto& partition : table->partitions) {
      if (partition.name == "STATE") return true;
    }
  }
  return false;
}

void makeDisks(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node,
               kj::StringPtr stateFolder) {
  auto root = cluster.getQemuRoot();
  auto base = kj::str(stateFolder, "/", node.getName());
  makeSparse(kj::str(base, ".disk"), node.getDisk());
  if (node.getStateDisk() > 0) {
    kj::Maybe<kj::String> mkfs;
    if (!cluster.getEncryptState()) mkfs = findMkfs(root);
    makeStateDisk(root, mkfs, kj::str(base, ".state"), node.getStateDisk());
  }
  for (auto i : kj::indices(node.getUserDisks())) {
    makeSparse(kj::str(base, ".user-", i + 1), node.getUserDisks()[i]);
  }
  if (cluster.getWithUefi()) copyVariables(root, kj::str(base, ".vars"));
}

kj::Vector<kj::String> diskFiles(rpc::LocalNode::Reader node, kj::StringPtr stateFolder) {
  auto base = kj::str(stateFolder, "/", node.getName());
  kj::Vector<kj::String> files;
  files.add(kj::str(base, ".disk"));
  if (node.getStateDisk() > 0) files.add(kj::str(base, ".state"));
  for (auto i : kj::indices(node.getUserDisks())) files.add(kj::str(base, ".user-", i + 1));
  return files;
}

kj::String firmwareFile(kj::StringPtr root, kj::StringPtr name) {
  return kj::str(root, "/usr/share/OVMF/", name);
}

bool isWriteProtected(kj::StringPtr path) {
  struct stat info;
  KJ_SYSCALL(stat(path.cStr(), &info), path);
  return (info.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0;
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
