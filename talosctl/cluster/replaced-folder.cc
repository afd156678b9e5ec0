#include "talosctl/cluster/replaced-folder.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/node-layout.h"

namespace talos::talosctl {
namespace {

[[noreturn]] void refuse(kj::StringPtr what) {
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot put a program into the node: ", what, ": ", strerror(errno)));
}

kj::AutoCloseFd openBelow(int folder, kj::StringPtr path, int flags) {
  struct open_how how = {};
  how.flags = uint64_t(flags | O_CLOEXEC);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  auto fd = int(syscall(SYS_openat2, folder, path.cStr(), &how, sizeof how));
  if (fd < 0) refuse(path);
  return kj::AutoCloseFd(fd);
}

void requireRootsAlone(int folder, kj::StringPtr path) {
  struct stat info;
  KJ_SYSCALL(fstat(folder, &info), path);
  if (info.st_uid == getuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return;
  errno = EPERM;
  refuse(path);
}

}  // namespace

kj::AutoCloseFd openReplacedFolder(kj::StringPtr root) {
  auto slash = KJ_ASSERT_NONNULL(kReplacedFolder.findLast('/'));
  auto parentPath = kj::heapString(kReplacedFolder.slice(0, slash));
  auto name = kReplacedFolder.slice(slash + 1);
  // The kernel controls the link in /proc itself.
  int raw = open(root.cStr(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (raw < 0) refuse(root);
  kj::AutoCloseFd top(raw);
  auto parent = openBelow(top, parentPath, O_RDONLY | O_DIRECTORY);
  bool made = mkdirat(parent, name.cStr(), 0755) == 0;
  if (!made && errno != EEXIST) refuse(kReplacedFolder);
  auto folder = openBelow(parent, name, O_RDONLY | O_DIRECTORY);
  if (made) {
    KJ_SYSCALL(fchmod(folder, 0755));  // independent of the user's umask
  }
  requireRootsAlone(folder, kReplacedFolder);
  return folder;
}

void putProgram(int folder, kj::StringPtr name, kj::ArrayPtr<const char> program) {
  auto temporary = kj::str(name, ".new");
  unlinkat(folder, temporary.cStr(), 0);
  int raw =
      openat(folder, temporary.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0755);
  if (raw < 0) refuse(temporary);
  kj::AutoCloseFd file(raw);
  for (auto rest = program; rest.size() > 0;) {
    ssize_t written;
    KJ_SYSCALL(written = write(file, rest.begin(), rest.size()), temporary);
    rest = rest.slice(size_t(written), rest.size());
  }
  KJ_SYSCALL(fchmod(file, 0755));
  file = nullptr;
  KJ_SYSCALL(renameat(folder, temporary.cStr(), folder, name.cStr()), name);
}

bool takeProgram(int folder, kj::StringPtr name) {
  return unlinkat(folder, name.cStr(), 0) == 0;
}

}  // namespace talos::talosctl
